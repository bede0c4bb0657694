package partition

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// phase is the set of iterations of its frame in which a node runs, dead or alive.
type phase uint8

const (
	first  phase = 1 << iota // in iteration 0
	later                    // in all the others
	always       = first | later
	// never is for nodes whose inputs share no iteration, and for those whose iterations do not follow the pattern.
	never phase = 0
)

// findPhases determines the phase of each node's outputs. A regular loop, built of Merges with an Enter and a NextIteration, runs all of
// its nodes in all iterations.
func (s *splitter) findPhases() {
	s.entered = slices.Repeat([]phase{always}, len(s.info.Frames))
	for _, id := range s.info.Order {
		s.places[id].phase = s.phaseOf(int(id))
	}
	s.irregular = make([]bool, len(s.info.Frames))
	for id, node := range s.nodes {
		if s.places[id].kind != Merge {
			continue
		}
		for _, in := range node.Inputs {
			if from := s.places[in.Node.ID]; from.kind == NextIteration && from.phase != later {
				s.irregular[from.out] = true
			}
		}
	}
}

// phaseOf returns the phase of a node, given those of its inputs. It assumes that a NextIteration that feeds a Merge runs in all
// iterations, which findPhases checks at the end.
func (s *splitter) phaseOf(id int) phase {
	node, kind := s.nodes[id], s.places[id].kind
	p := always
	if kind == Merge {
		p = never
		for _, in := range node.Inputs {
			if s.places[in.Node.ID].kind == NextIteration {
				p |= later
			} else {
				p |= s.places[in.Node.ID].phase
			}
		}
	} else {
		for _, in := range node.Inputs {
			p &= s.places[in.Node.ID].phase
		}
	}
	for _, from := range node.Controls {
		p &= s.places[from.ID].phase
	}
	switch kind {
	case Enter:
		s.entered[s.places[id].out] &= p
		if constantEnter(node) {
			return always
		}
		return first
	case Exit:
		return s.entered[s.places[id].in]
	case NextIteration:
		if p != always {
			return never
		}
		return later
	}
	return p
}

// constantEnter reports whether a node is an Enter whose value is available in every iteration.
func constantEnter(node *graph.Node) bool {
	return node.Attrs["is_constant"].GetB()
}

// starter returns the node that runs on a device in those iterations of a frame in which the value sent by node arrives, or nil in the
// root frame, where a _Recv needs none.
func (s *splitter) starter(node *graph.Node, frame, dev int32, p phase) (*graph.Node, error) {
	if frame == 0 {
		return nil, nil
	}
	l := s.loops[loopKey{frame, dev}]
	if l == nil || s.irregular[frame] || p == never {
		return nil, status.InvalidArgumentf("{{node %s}} does not run in every iteration of loop \"%s\", so that another device cannot take part in it",
			node.Name, s.info.Frames[frame].Name)
	}
	switch p {
	case first:
		return l.enter, nil
	case later:
		return l.next, nil
	}
	return l.merge, nil
}
