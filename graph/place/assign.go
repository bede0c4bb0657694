package place

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
)

// assign places the nodes in order. Each gets the best device that its group may have. Where the constraints allow it, sources without
// inputs go to their consumers instead, and trivial nodes stay with their input.
func (p *placer) assign() error {
	out := p.consumers()
	var sources []int32
	for i, n := range p.nodes {
		if err := p.check(); err != nil {
			return err
		}
		if isSource(n) {
			sources = append(sources, int32(i))
			continue
		}
		prefer := ""
		if staysWithInput(n) || isLoneIdentity(n, out.of(i)) {
			prefer = n.Inputs[0].Node.Assigned
		}
		if err := p.put(int32(i), prefer); err != nil {
			return err
		}
	}
	for _, i := range sources {
		if err := p.check(); err != nil {
			return err
		}
		if err := p.put(i, commonDevice(out.of(int(i)))); err != nil {
			return err
		}
	}
	return nil
}

// put places a node on the device with the full name prefer if that is a candidate, otherwise on the default device if that is one, otherwise on
// the best candidate, and pins its group there.
func (p *placer) put(i int32, prefer string) error {
	c, err := p.candidates(i)
	if err != nil {
		return err
	}
	device := c[0]
	for _, name := range []string{p.Default, prefer} {
		if d, ok := p.devices.byName[name]; ok && slices.Contains(c, d) {
			device = d
		}
	}
	p.members[i].node.Assigned = p.devices.devices[device].Name
	p.pin(i, device)
	return nil
}

// isSource reports whether n is worth placing after its consumers: it has no inputs and produces one tensor, like a constant.
func isSource(n *graph.Node) bool {
	return len(n.Inputs) == 0 && len(n.OutTypes) == 1 && !n.OutTypes[0].IsRef()
}

// staysWithInput reports whether n reads only its input's metadata.
func staysWithInput(n *graph.Node) bool {
	switch n.Op {
	case "Shape", "Size", "Rank":
		return len(n.Inputs) > 0
	}
	return false
}

// isLoneIdentity reports whether n is an unpinned Identity with one edge in and at most one out (control edges included), whose neighbours
// request the same device.
func isLoneIdentity(n *graph.Node, out []*graph.Node) bool {
	if n.Op != "Identity" && n.Op != "RefIdentity" || n.Requested != "" {
		return false
	}
	if len(n.Inputs) != 1 || len(n.Controls) > 0 || len(out) > 1 {
		return false
	}
	after := ""
	if len(out) == 1 {
		after = out[0].Requested
	}
	return n.Inputs[0].Node.Requested == after
}

// commonDevice returns the device that all nodes are on, or "".
func commonDevice(nodes []*graph.Node) string {
	if len(nodes) == 0 {
		return ""
	}
	for _, n := range nodes {
		if n.Assigned != nodes[0].Assigned {
			return ""
		}
	}
	return nodes[0].Assigned
}

// edges holds, in one slice, the destinations of the edges out of each new node, control edges included.
type edges struct {
	to    []*graph.Node
	start []int32 // of each node's part of to; one more than nodes
}

func (e edges) of(i int) []*graph.Node { return e.to[e.start[i]:e.start[i+1]] }

func (p *placer) consumers() edges {
	each := func(f func(from int32, to *graph.Node)) {
		for _, n := range p.nodes {
			for _, in := range n.Inputs {
				if i, ok := p.index(in.Node); ok && int(i) < p.fresh {
					f(i, n)
				}
			}
			for _, c := range n.Controls {
				if i, ok := p.index(c); ok && int(i) < p.fresh {
					f(i, n)
				}
			}
		}
	}
	e := edges{start: make([]int32, len(p.nodes)+1)}
	each(func(from int32, _ *graph.Node) { e.start[from+1]++ })
	for i := range p.nodes {
		e.start[i+1] += e.start[i]
	}
	e.to = make([]*graph.Node, e.start[len(p.nodes)])
	next := slices.Clone(e.start)
	each(func(from int32, to *graph.Node) {
		e.to[next[from]] = to
		next[from]++
	})
	return e
}
