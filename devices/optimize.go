package devices

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// optimize is the compiler's work on a program beyond simplify. It computes once what is the same in each run, replaces equal nodes by one,
// merges transpositions into the products that use them, and fuses consecutive elementwise ops into one pass over memory. Fetches, targets,
// errors and side effects stay the same. So do results, to the bit, except products, whose sums may be taken in another order. A traced run
// shows the nodes of the graph: it has its own program that is not optimized (Program.literal).
func (w *wiring) optimize() {
	w.fold()
	w.join()
	w.transposeProducts()
	w.fuse()
}

// readsOutside are ops declared as stateless that read more than their inputs and attributes.
var readsOutside = map[string]bool{"ReadFile": true, "MatchingFiles": true}

// pure reports whether a node's outputs depend only on its inputs and attributes, and running it has no side effects. Handles and variants
// stand for state elsewhere, and references for state that changes.
func (w *wiring) pure(n *node) bool {
	l := w.of(n)
	return !l.gone && n.kind == kindPlain && n.sync != nil && !n.calls && n.refIn == nil && n.hostOut == nil && n.graph.Def != nil &&
		!n.graph.Def.IsStateful && !readsOutside[n.graph.Op] && !slices.ContainsFunc(n.graph.OutTypes, opaque) &&
		!slices.ContainsFunc(n.graph.InTypes, opaque) && !slices.ContainsFunc(l.inputs, source.opaque)
}

func opaque(t tensor.DType) bool { return t.IsRef() || t == tensor.Resource || t == tensor.Variant }

func (s source) opaque() bool { return s.node != nil && opaque(s.node.graph.OutTypes[s.out]) }

// replace makes another kernel compute a node, as another node of the graph or as itself.
func (w *wiring) replace(n *node, g *graph.Node, k kernels.Kernel) {
	p := w.program
	if p.originals == nil {
		p.originals = map[*graph.Node]any{}
	}
	if _, known := p.originals[n.graph]; !known {
		p.originals[n.graph] = n.sync
	}
	n.graph, n.sync, n.subnormals = g, k, max(n.subnormals, subnormalsOf(g))
}

// drop removes a node that has been replaced, and the nodes that existed only for it.
func (w *wiring) drop(n *node) {
	for stack := []*node{n}; len(stack) > 0; {
		n, stack = stack[len(stack)-1], stack[:len(stack)-1]
		l := w.of(n)
		if !w.pure(n) || slices.ContainsFunc(l.users, w.uses(n)) || slices.ContainsFunc(l.waiters, func(x *node) bool { return !w.gone(x) }) {
			continue
		}
		l.gone = true
		for _, in := range l.inputs {
			if in.node != nil {
				stack = append(stack, in.node)
			}
		}
	}
}

// uses returns a function that reports whether a user still takes an output of n.
func (w *wiring) uses(n *node) func(u user) bool {
	return func(u user) bool { return !w.gone(u.node) && w.of(u.node).inputs[u.slot].node == n }
}

// connect connects a node's input to another source.
func (w *wiring) connect(u user, from source) {
	w.of(u.node).inputs[u.slot] = from
	if from.node != nil {
		w.of(from.node).users = append(w.of(from.node).users, u)
	}
}

// literal compiles the program's graph again, with the same kernels and without optimizations.
func (p *Program) literal(g *graph.Graph, opts CompileOptions) (*Program, error) {
	index := make(map[*graph.Node]int, len(g.Nodes))
	for i, n := range g.Nodes {
		index[n] = i
	}
	opts.Optimize, opts.Check = false, nil
	opts.Kernels = func(_ string, n *graph.Node, _ kernels.Device, _ bool, _ func() (any, error)) (any, bool, error) {
		if k, ok := p.originals[n]; ok {
			return k, true, nil
		}
		if c := &p.nodes[index[n]]; c.async != nil {
			return c.async, true, nil
		} else {
			return c.sync, true, nil
		}
	}
	q, err := Compile(g, p.device, opts)
	if err != nil {
		return nil, err
	}
	q.executor = p.executor
	return q, nil
}
