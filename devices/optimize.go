package devices

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// optimize is the compiler's work on a program beyond simplify: what is the same in each run is computed once, what
// several nodes compute alike one node does, transpositions become part of the products that take them, and elementwise
// ops that follow each other go over memory together. Fetches, targets, errors and side effects stay as they are, and so
// do results, to the bit but for products, whose sums may be taken in another order. A traced run shows the nodes of the
// graph: it has a program of its own that is not optimized (Program.literal).
func (w *wiring) optimize() {
	w.fold()
	w.join()
	w.transposeProducts()
	w.fuse()
}

// readsOutside are ops without state, by their declaration, that read what is neither in their inputs nor attributes.
var readsOutside = map[string]bool{"ReadFile": true, "MatchingFiles": true}

// pure tells whether a node's outputs depend on its inputs and attributes alone, and running it does nothing else.
// Handles and variants stand for what lies elsewhere, and references for what changes.
func (w *wiring) pure(n *node) bool {
	l := w.of(n)
	return !l.gone && n.kind == kindPlain && n.sync != nil && !n.calls && n.refIn == nil && n.hostOut == nil && n.graph.Def != nil &&
		!n.graph.Def.IsStateful && !readsOutside[n.graph.Op] && !slices.ContainsFunc(n.graph.OutTypes, opaque) &&
		!slices.ContainsFunc(n.graph.InTypes, opaque) && !slices.ContainsFunc(l.inputs, source.opaque)
}

func opaque(t tensor.DType) bool { return t.IsRef() || t == tensor.Resource || t == tensor.Variant }

func (s source) opaque() bool { return s.node != nil && opaque(s.node.graph.OutTypes[s.out]) }

// replace has a node computed by another kernel, as another node of the graph or as itself.
func (w *wiring) replace(n *node, g *graph.Node, k kernels.Kernel) {
	p := w.program
	if p.originals == nil {
		p.originals = map[*graph.Node]any{}
	}
	if _, known := p.originals[n.graph]; !known {
		p.originals[n.graph] = n.sync
	}
	n.graph, n.sync = g, k
}

// drop takes out a node that something else has replaced, and what was there for it alone.
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

// uses tells of a user whether it still takes an output of n.
func (w *wiring) uses(n *node) func(u user) bool {
	return func(u user) bool { return !w.gone(u.node) && w.of(u.node).inputs[u.slot].node == n }
}

// take has a node's input come from elsewhere.
func (w *wiring) take(u user, from source) {
	w.of(u.node).inputs[u.slot] = from
	if from.node != nil {
		w.of(from.node).users = append(w.of(from.node).users, u)
	}
}

// literal compiles the program's graph once more, with the same kernels and without optimizations.
func (p *Program) literal(g *graph.Graph, opts CompileOptions) (*Program, error) {
	index := make(map[*graph.Node]int, len(g.Nodes))
	for i, n := range g.Nodes {
		index[n] = i
	}
	opts.Optimize, opts.Check = false, nil
	opts.Kernels = func(n *graph.Node, _ bool, _ func() (any, error)) (any, bool, error) {
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
