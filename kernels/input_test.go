package kernels_test

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/example/examplepb"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

func TestInputOpsLikeTensorFlow(t *testing.T) {
	kt.LikeTensorFlow(t, "testdata/inputops.jsonl.gz", func(c *kt.Case) bool {
		if c.Code != status.OK {
			// What is wrong inside of JSON, zlib's data and tensors is said in other words.
			for _, known := range []string{"Error while parsing JSON:", "inflate() failed with error -3:", "Cannot parse tensor from proto:", "Failed to decompress zstd input:"} {
				if strings.HasPrefix(c.Err, known) {
					c.Err = known
				}
			}
		}
		if c.Op == "DecodeJSONExample" { // which packs numbers or not
			for i, want := range c.Want {
				canonical, err := want.Clone(tensor.Host)
				if err != nil {
					t.Fatal(err)
				}
				for j, s := range want.Strings() {
					var e examplepb.Example
					if err := proto.Unmarshal([]byte(s), &e); err != nil {
						t.Fatal(err)
					}
					b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&e)
					if err != nil {
						t.Fatal(err)
					}
					canonical.Strings()[j] = string(b)
				}
				c.Want[i] = canonical
			}
		}
		return true
	})
}
