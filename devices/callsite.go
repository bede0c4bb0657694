package devices

import (
	"sync"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/kernels"
)

// maxSites bounds the instantiations of a library's functions that belong to one call each: functions that call one another twice make
// twice as many at each level. Calls beyond it share their state.
const maxSites = 1 << 14

// callSite is a node of a program that calls functions. TensorFlow replaces such a node by the function's nodes, unless the function
// forbids that (_noinline): a random generator, an iterator or a staging area in the function is then one more node of the session, with
// the state that any node has, which all steps see. So the kernels of such a function come from the program's source, under the name of
// the call. Those of a function that is not replaced begin anew in each program.
//
// It is safe for concurrent use.
type callSite struct {
	functions *Functions
	node      *graph.Node
	caller    *function    // whose body the node is in; nil: it is in a part of a step
	path      string       // of the node's own functions
	kernels   KernelSource // of the program that the node is in; nil if that has none

	mu  sync.Mutex // guards own: iterators instantiate functions while they run
	own map[string]*function
}

var _ kernels.Functions = (*callSite)(nil)

// callSite returns the functions for a node that calls some, and closes them with the program. It returns nil for other nodes, and for
// those whose kernels outlive the program.
func (p *Program) callSite(n *graph.Node, opts CompileOptions) *callSite {
	f, ok := opts.Functions.(*Functions)
	if !ok || !callsFunctions(n) || hasState(n) {
		return nil
	}
	s := &callSite{functions: f, node: n, caller: opts.function, path: opts.Path + n.Name + "/", kernels: opts.Kernels}
	p.owned = append(p.owned, s)
	return s
}

// inlined reports whether TensorFlow replaces the node by the nodes of the function that it calls.
func (s *callSite) inlined(function string) bool {
	if s.functions.library.Functions[function].GetAttr()["_noinline"].GetB() {
		return false
	}
	switch s.node.Op {
	case "PartitionedCall", "StatefulPartitionedCall":
		return true
	case "If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile":
		return s.node.Attrs[lower.Attr].GetB()
	}
	return isFunction(s.node)
}

// pathOf returns what precedes the names of a function's nodes. The functions of a conditional or a loop have nodes of equal names.
func (s *callSite) pathOf(function string) string {
	if s.node.Attrs[lower.Attr] != nil {
		return s.path + function + "/"
	}
	return s.path
}

// Library returns the functions' library.
func (s *callSite) Library() kernels.Library { return s.functions.Library() }

// Instantiate prepares a function. One that calls itself, directly or through others, has one state for all calls within it.
func (s *callSite) Instantiate(ref *graph.FunctionRef) (kernels.Function, error) {
	id := instanceID(ref)
	if !s.functions.keepsState(id, ref) {
		return s.functions.Instantiate(ref)
	}
	for fn := s.caller; fn != nil; fn = fn.caller() {
		if fn.id == id {
			return fn, nil
		}
	}
	fn, err := s.functions.instance(id, ref)
	if err != nil {
		return nil, err
	}
	fn.site = s
	if s.functions.sites.Add(1) > maxSites {
		s.functions.sites.Add(-1)
		return s.functions.Instantiate(ref)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.own[id]; have != nil {
		s.functions.sites.Add(-1)
		return have, nil
	}
	if s.own == nil {
		s.own = map[string]*function{}
	}
	s.own[id] = fn
	return fn, nil
}

// caller returns the function whose body calls fn, as far as that is known.
func (fn *function) caller() *function {
	if fn.site == nil {
		return nil
	}
	return fn.site.caller
}

// Close closes the functions' programs. They must not be running, nor be called again.
func (s *callSite) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fn := range s.own {
		s.functions.sites.Add(-1)
		if fn.program != nil {
			fn.program.Close()
		}
	}
	s.own = nil
}
