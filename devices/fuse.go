package devices

import (
	"slices"

	"github.com/troupe-run/troupe/kernels/chain"
)

// fuse combines consecutive elementwise nodes into one kernel: a node, and the nodes whose results only it or other nodes of the kernel
// use. It must run last, since it leaves the lists of users unchanged.
func (w *wiring) fuse() {
	of := map[*node]*cluster{}
	var all []*cluster
	for _, n := range w.elementwise() { // users come before their inputs
		c := w.joins(n, of)
		if c == nil {
			c = &cluster{}
			all = append(all, c)
		}
		c.nodes = append(c.nodes, n)
		of[n] = c
	}
	for _, c := range all {
		if len(c.nodes) > 1 {
			w.chain(c)
		}
	}
}

// cluster is a future chain: its nodes, the one with the result first.
type cluster struct{ nodes []*node }

// elementwise returns the nodes that may be part of chains, with users before their inputs.
func (w *wiring) elementwise() []*node {
	open := map[*node]int{} // by node, the number of users that may be part of chains and have not been listed
	var candidates, order []*node
	for i := range w.nodes {
		if n := &w.program.nodes[i]; w.pure(n) && chain.Takes(n.sync) {
			candidates = append(candidates, n)
			open[n] = 0
		}
	}
	for _, n := range candidates {
		for _, in := range w.of(n).inputs {
			if _, ok := open[in.node]; ok {
				open[in.node]++
			}
		}
	}
	for _, n := range candidates {
		if open[n] == 0 {
			order = append(order, n)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, in := range w.of(order[i]).inputs {
			if _, ok := open[in.node]; !ok {
				continue
			}
			if open[in.node]--; open[in.node] == 0 {
				order = append(order, in.node)
			}
		}
	}
	return order
}

// joins returns the cluster that a node may be added to: the one that contains all its users. It returns nil if there is none.
func (w *wiring) joins(n *node, of map[*node]*cluster) *cluster {
	l := w.of(n)
	if slices.ContainsFunc(l.waiters, func(x *node) bool { return !w.gone(x) }) {
		return nil
	}
	var c *cluster
	for _, u := range l.users {
		if !w.uses(n)(u) {
			continue
		}
		switch its := of[u.node]; {
		case its == nil || u.node.frame != n.frame || c != nil && c != its:
			return nil
		default:
			c = its
		}
	}
	if c == nil || len(c.nodes) == chain.MaxOps {
		return nil
	}
	return c
}

// chain turns a cluster into one node.
func (w *wiring) chain(c *cluster) {
	slices.Reverse(c.nodes)
	number := map[*node]int{}
	inputs := map[source]int{}
	var sources []source
	ops := make([]chain.Op, len(c.nodes))
	for i, n := range c.nodes {
		number[n] = i
		ops[i] = chain.Op{Node: n.graph, Kernel: n.sync}
		for _, in := range w.of(n).inputs {
			if k, ok := number[in.node]; ok && in.node != nil {
				ops[i].Operands = append(ops[i].Operands, chain.ResultOf(k))
				continue
			}
			k, ok := inputs[in]
			if !ok {
				k = len(sources)
				inputs[in] = k
				sources = append(sources, in)
			}
			ops[i].Operands = append(ops[i].Operands, chain.Operand(k))
		}
	}
	last := c.nodes[len(c.nodes)-1]
	l := w.of(last)
	for _, n := range c.nodes[:len(c.nodes)-1] {
		l.controls = append(l.controls, w.of(n).controls...)
		w.of(n).gone = true
	}
	l.inputs, last.numIn = sources, int32(len(sources))
	w.replace(last, last.graph, chain.New(ops, len(sources)))
}
