package kernelstest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// LikeTensorFlow runs the cases of a file of results computed by TensorFlow: compressed lines of JSON, each with the messages of a node,
// its inputs, and its outputs or error. The scripts next to the files write them. adapt, if not nil, may change a case, or skip it by
// returning false.
func LikeTensorFlow(t *testing.T, path string, adapt func(*Case) bool) {
	t.Helper()
	for _, c := range Golden(t, path) {
		if adapt == nil || adapt(c) {
			Check(t, *c)
		}
	}
}

// Golden reads the cases of a file for LikeTensorFlow.
func Golden(t testing.TB, path string) (cases []*Case) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<26)
	for n := 1; lines.Scan(); n++ {
		c, err := golden(lines.Bytes())
		if err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
		c.Name = fmt.Sprintf("%s/%d", c.Op, n)
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

func golden(line []byte) (*Case, error) {
	var raw struct {
		Node            []byte
		Inputs, Outputs [][]byte
		Code            int32
		Error           string
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, err
	}
	node := &nodepb.NodeDef{}
	if err := proto.Unmarshal(raw.Node, node); err != nil {
		return nil, err
	}
	c := &Case{Op: node.Op, Node: node.Name, Raw: graph.Attrs(node.Attr), Code: status.Code(raw.Code), Err: raw.Error}
	for _, b := range raw.Inputs {
		in, err := decode(b)
		if err != nil {
			return nil, err
		}
		c.Inputs = append(c.Inputs, in)
	}
	for _, b := range raw.Outputs {
		out, err := decode(b)
		if err != nil {
			return nil, err
		}
		c.Want = append(c.Want, out)
	}
	return c, nil
}

func decode(b []byte) (*tensor.Tensor, error) {
	p := &tensorpb.TensorProto{}
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, err
	}
	return tensor.FromTensorProto(p, tensor.Host)
}
