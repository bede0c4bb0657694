package all_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/kernels"
)

// TestOpsHaveShapeRules demands a shape rule of every op that a kernel serves: a mistake in a graph is then told where
// it was made. An op whose outputs depend on data has one that says so.
func TestOpsHaveShapeRules(t *testing.T) {
	for _, op := range kernels.Ops() {
		if !shape.Knows(op) {
			t.Errorf("graph/shape has no rule for %s", op)
		}
	}
}
