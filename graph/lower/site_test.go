package lower

import (
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// TestNodesCostTheirEdges checks that the limit on the work counts a node with all of its edges: a few nodes may
// have very many.
func TestNodesCostTheirEdges(t *testing.T) {
	for _, c := range []struct {
		name string
		node *graph.Node
		cost int
	}{
		{"none", &graph.Node{}, 1},
		{"inputs", &graph.Node{Inputs: make([]graph.Output, 3)}, 4},
		{"outputs", &graph.Node{OutTypes: make([]tensor.DType, 3)}, 4},
		{"controls", &graph.Node{Controls: make([]*graph.Node, 3)}, 4},
	} {
		for left, code := range map[int]status.Code{c.cost: status.OK, c.cost - 1: status.ResourceExhausted} {
			s := &site{lowerer: &lowerer{work: maxWork - left, check: graph.Now(nil)}}
			if err := s.append(c.node); status.CodeOf(err) != code {
				t.Errorf("a node that costs %d, where %d are left: %v, want %v (%s)", c.cost, left, err, code, c.name)
			}
		}
	}
}
