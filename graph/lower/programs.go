package lower

import (
	"github.com/troupe-run/troupe/graph"
)

// Programs knows which nodes call functions of the program that owns their server. It is not safe for concurrent use.
type Programs struct{ reach reach }

// NewPrograms returns the Programs of a graph with a library. calls reports whether an op calls such functions. check, if not nil, is called
// from time to time, and its error is that of Calls.
func NewPrograms(library *graph.Library, calls func(op string) bool, check func() error) *Programs {
	return &Programs{reach{library: library, program: calls, check: graph.Now(check)}}
}

// Calls reports whether a node calls functions of the program, itself or in functions of the library that run on its behalf: that it names as its
// op or in an attribute. A node that Functions has lowered does not, since the nodes of its functions do.
func (p *Programs) Calls(n *graph.Node) (found bool, err error) {
	if p.reach.program(n.Op) {
		return true, nil
	}
	if p.reach.library == nil || len(p.reach.library.Functions) == 0 {
		return false, nil
	}
	look := func(function string) {
		if found || err != nil {
			return
		}
		var r *reached
		if r, err = p.reach.of(function); err == nil {
			found = r.programs
		}
	}
	look(n.Op)
	for _, a := range n.Def.GetAttr() {
		switch a.GetType() {
		case "func", "list(func)":
			called(n.Attrs[a.GetName()], look)
		}
	}
	return found, err
}
