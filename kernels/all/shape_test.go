package all_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/kernels"
)

// TestOpsHaveShapeRules requires a shape rule for every op with a kernel: an error in a graph is then reported where it was made. An op
// whose outputs depend on data has a rule that says so.
func TestOpsHaveShapeRules(t *testing.T) {
	for _, op := range kernels.Ops() {
		if !shape.Knows(op) {
			t.Errorf("graph/shape has no rule for %s", op)
		}
	}
}
