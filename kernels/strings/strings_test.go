package strings_test

import (
	"strings"
	"testing"

	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestStringOpsLikeTensorFlow(t *testing.T) {
	kt.LikeTensorFlow(t, "testdata/stringops.jsonl.gz", func(c *kt.Case) bool {
		// Errors in patterns have Go's texts.
		c.Err, _, _ = strings.Cut(c.Err, ", error:")
		return true
	})
}
