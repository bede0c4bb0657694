package devices

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// wiring holds the inputs and dependencies of a program's nodes during compilation: at first as in the graph, then without the nodes that
// need not run.
type wiring struct {
	program   *Program
	nodes     []wires // indexed like the program's nodes
	constants []constantNode
}

// wires are a node's incoming and outgoing connections. Connections to or from a node that is gone do not count.
type wires struct {
	inputs   []source
	controls []*node // nodes that it waits for without an input
	users    []user
	waiters  []*node // nodes that wait for it without an input
	gone     bool
}

// source is the source of an input: a node's output, or a constant value.
type source struct {
	node  *node
	out   int32
	value *tensor.Tensor
}

// user is an input that takes a node's output.
type user struct {
	node *node
	slot int
}

// constantNode is a node that does not run, with its output.
type constantNode struct {
	graph *graph.Node
	value *tensor.Tensor
}

// wire builds the wiring from the graph.
func (p *Program) wire(byID map[*graph.Node]*node) (*wiring, error) {
	w := &wiring{program: p, nodes: make([]wires, len(p.nodes))}
	for i := range p.nodes {
		p.nodes[i].place = i
	}
	for i := range p.nodes {
		n, l := &p.nodes[i], &w.nodes[i]
		for slot, in := range n.graph.Inputs {
			src := byID[in.Node]
			if src == nil || in.Index >= int(src.numOut) {
				return nil, status.Internalf("The input %d of node %s lies outside of its graph", slot, n.graph.Name)
			}
			l.inputs = append(l.inputs, source{node: src, out: int32(in.Index)})
			w.of(src).users = append(w.of(src).users, user{n, slot})
		}
		for _, c := range n.graph.Controls {
			w.await(n, byID[c])
		}
	}
	return w, nil
}

func (w *wiring) of(n *node) *wires { return &w.nodes[n.place] }

func (w *wiring) gone(n *node) bool { return w.nodes[n.place].gone }

// await makes a node wait for another one.
func (w *wiring) await(n, other *node) {
	w.of(n).controls = append(w.of(n).controls, other)
	w.of(other).waiters = append(w.of(other).waiters, n)
}

// controls returns the nodes that n waits for without an input, each once.
func (w *wiring) controls(n *node) []*node {
	live := slices.DeleteFunc(slices.Clone(w.of(n).controls), w.gone)
	slices.SortFunc(live, func(a, b *node) int { return a.place - b.place })
	return slices.Compact(live)
}

// simplify removes the nodes whose results are known without running them: identities, whose users get the input instead, and constants,
// which are in their users' inputs from the beginning. It also removes unused arguments, such as those that a loop's condition does not
// read.
func (w *wiring) simplify() {
	for i := range w.nodes {
		switch n := &w.program.nodes[i]; {
		case w.identity(n):
			w.bypass(n)
		case n.kind == kindArg && len(w.nodes[i].users) == 0 && len(w.nodes[i].waiters) == 0:
			w.nodes[i].gone = true
		}
	}
	for i := range w.nodes {
		n := &w.program.nodes[i]
		if k, ok := n.sync.(interface{ Constant() *tensor.Tensor }); ok && w.fixable(n) {
			w.fix(n, []*tensor.Tensor{k.Constant()})
			w.constants = append(w.constants, constantNode{n.graph, k.Constant()})
		}
	}
}

// identities are the ops that only return their input and have no other effect.
var identities = map[string]bool{"Identity": true, "StopGradient": true, "PreventGradient": true}

// identity reports whether the users of a node may take its input instead. They may not if other nodes wait for the node: it is dead when
// its input is, which may be one of several outputs. An input that is a reference is read where the node runs. Nodes that enter and leave
// frames stay, since they carry more than values.
func (w *wiring) identity(n *node) bool {
	l := w.of(n)
	if !identities[n.graph.Op] || len(l.controls) > 0 || len(l.waiters) > 0 || len(l.users) == 0 {
		return false
	}
	switch in := l.inputs[0]; in.node.kind {
	case kindEnter, kindExit, kindNextIteration:
		return false
	default:
		return in.node.frame == n.frame && !in.node.graph.OutTypes[in.out].IsRef() && !n.graph.OutTypes[0].IsRef()
	}
}

// bypass connects a node's users to its only input.
func (w *wiring) bypass(n *node) {
	l := w.of(n)
	l.gone = true
	in := l.inputs[0]
	for _, u := range l.users {
		if !w.gone(u.node) {
			w.of(u.node).inputs[u.slot] = in
			w.of(in.node).users = append(w.of(in.node).users, u)
		}
	}
}

// fixable reports whether the users of a constant may have it from the beginning and wait for what it waits for. They may not if one of
// them is a Merge, which learns from what arrives, and when, which branch was taken. Nor may they if the constant waits for several nodes
// and has several users, since that would add more edges than it saves.
func (w *wiring) fixable(n *node) bool {
	l := w.of(n)
	return (len(l.controls) <= 1 || len(l.users)+len(l.waiters) <= 1) &&
		!slices.ContainsFunc(l.users, func(u user) bool { return u.node.kind == kindMerge || u.node.frame != n.frame })
}

// fix gives a node's constant outputs to its users.
func (w *wiring) fix(n *node, values []*tensor.Tensor) {
	l := w.of(n)
	l.gone = true
	next := slices.Clone(l.waiters)
	for _, u := range l.users {
		if !w.gone(u.node) {
			in := &w.of(u.node).inputs[u.slot]
			*in = source{value: values[in.out]}
			next = append(next, u.node)
		}
	}
	for _, c := range w.controls(n) {
		for _, x := range next {
			if !w.gone(x) {
				w.await(x, c)
			}
		}
	}
}
