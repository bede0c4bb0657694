package graph

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// isBackEdge reports whether an edge closes a loop, the only legal kind of cycle.
func (b *builder) isBackEdge(src, dst *Node) bool {
	s, d := b.signatureOf(src), b.signatureOf(dst)
	return s != nil && d != nil && s.next && d.merge
}

// signatureOf returns nil for nodes of the graph being extended: they have no inputs among the new nodes, so they are never part of a new
// cycle.
func (b *builder) signatureOf(n *Node) *signature {
	if i := n.ID - len(b.base.Nodes); i >= 0 {
		return b.sigs[i]
	}
	return nil
}

// checkCycles looks for a cycle that is not a loop; it can only run through new nodes. The error is INVALID_ARGUMENT and names nodes of
// the cycle.
func (b *builder) checkCycles() error {
	if !b.cyclic {
		return nil
	}
	const (
		onPath = 1 + iota
		done
	)
	// Walk against the edges with an explicit stack, since graphs may be deeper than the call stack.
	type step struct{ node, next int }
	first := len(b.base.Nodes)
	state := make([]uint8, len(b.nodes))
	var path []step
	for root := range b.nodes {
		if state[root] == done {
			continue
		}
		path = append(path[:0], step{node: root})
		state[root] = onPath
		for len(path) > 0 {
			top := &path[len(path)-1]
			n := &b.nodes[top.node]
			if top.next == len(n.Inputs)+len(n.Controls) {
				state[top.node] = done
				path = path[:len(path)-1]
				continue
			}
			src, back := n.before(top.next), false
			if top.next < len(n.Inputs) {
				back = b.isBackEdge(src, n)
			}
			top.next++
			i := src.ID - first
			if i < 0 || back || state[i] == done {
				continue
			}
			if state[i] == onPath {
				start := len(path) - 1
				for path[start].node != i {
					start--
				}
				names := make([]string, 0, 3)
				for _, s := range path[start:] {
					if len(names) < cap(names) {
						names = append(names, b.nodes[s.node].Name)
					}
				}
				return status.AtNode(status.InvalidArgumentf("Graph is invalid, contains a cycle with %d nodes, including: %s",
					len(path)-start, strings.Join(names, ", ")), names[0])
			}
			state[i] = onPath
			path = append(path, step{node: i})
		}
	}
	return nil
}

// before returns the i-th node that n waits for: first the data inputs, then the controls.
func (n *Node) before(i int) *Node {
	if i < len(n.Inputs) {
		return n.Inputs[i].Node
	}
	return n.Controls[i-len(n.Inputs)]
}
