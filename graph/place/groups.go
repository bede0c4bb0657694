package place

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// groups is a disjoint-set forest over nodes: the nodes of a tree share a device.
type groups struct {
	devices *deviceSet
	soft    bool
	members []member
	first   int // ID of the first member if the IDs of the new nodes are consecutive, else -1
	fresh   int // number of members that are nodes to place; the others were placed earlier
	ids     map[*graph.Node]int32
	specs   map[string]*Spec
	terse   bool // errors need not explain groups
}

// explained is the number of members that an error about a group lists.
const explained = 100

// member is a node and, at the root of a tree, its group's constraints. The specs are shared and never changed. requested is consistent
// with resource and assigned; if soft placement let those two differ in type or index, it agrees with assigned.
type member struct {
	node   *graph.Node
	parent int32
	rank   int32
	// types are the types for which all nodes of the group have kernels, own those for which this node has.
	types, own types
	// assigned is where a node of the group has been placed, resource what the nodes that make a resource request, and requested what all
	// nodes request.
	assigned, resource, requested *Spec
	// calls is whether a node of the group calls functions of the program that owns the server, and caller whether this node does.
	calls, caller bool
}

var open = Open()

func newGroups(nodes []*graph.Node, devices *deviceSet, soft bool) *groups {
	g := &groups{devices: devices, soft: soft, members: make([]member, len(nodes), len(nodes)+8), fresh: len(nodes),
		specs: map[string]*Spec{}}
	ids := map[*graph.Node]int32{}
	dense := true
	for i, n := range nodes {
		g.members[i] = member{node: n, parent: int32(i), assigned: &open, resource: &open, requested: &open}
		dense = dense && n.ID == nodes[0].ID+i
	}
	if len(nodes) > 0 {
		g.first = nodes[0].ID
	}
	if !dense {
		// The nodes are scattered over the graph: find members with a map instead of by ID.
		for i, n := range nodes {
			ids[n] = int32(i)
		}
		g.first = -1
	}
	g.ids = ids
	return g
}

// index returns the index of the member n.
func (g *groups) index(n *graph.Node) (int32, bool) {
	if i := n.ID - g.first; g.first >= 0 && i >= 0 && i < g.fresh {
		return int32(i), true
	}
	i, ok := g.ids[n]
	return i, ok
}

// addPlaced adds a node that is already on a device.
func (g *groups) addPlaced(n *graph.Node, device int) int32 {
	i := int32(len(g.members))
	s := &g.devices.devices[device].Spec
	g.members = append(g.members, member{node: n, parent: i, types: g.devices.kinds[device], own: g.devices.kinds[device],
		assigned: s, resource: &open, requested: s})
	g.ids[n] = i
	return i
}

// parse is like Parse, but caches the results: many nodes request the same device.
func (g *groups) parse(name string) (*Spec, error) {
	if s, ok := g.specs[name]; ok {
		return s, nil
	}
	s, err := Parse(name)
	if err != nil {
		return nil, err
	}
	g.specs[name] = &s
	return &s, nil
}

// root finds the root of i's tree and compresses the path to it.
func (g *groups) root(i int32) int32 {
	for g.members[i].parent != i {
		g.members[i].parent = g.members[g.members[i].parent].parent
		i = g.members[i].parent
	}
	return i
}

// join puts the nodes x and y, and their groups, on one device. If their constraints contradict each other, it returns INVALID_ARGUMENT
// and changes nothing.
func (g *groups) join(x, y int32) error {
	rx, ry := g.root(x), g.root(y)
	if rx == ry {
		return nil
	}
	keep, drop := rx, ry
	if g.members[rx].rank < g.members[ry].rank {
		keep, drop = ry, rx
	}
	to, from := &g.members[keep], &g.members[drop]
	merged := *to
	if err := merged.narrow(from, g.soft); err != nil {
		return status.InvalidArgumentf("Cannot colocate nodes %s and %s: %s", g.mark(x), g.mark(y), err)
	}
	switch {
	case merged.types == 0:
		merged.types = from.types
	case from.types != 0:
		merged.types &= from.types
		if merged.types == 0 {
			return status.InvalidArgumentf("Cannot colocate nodes %s and %s because no device type supports both of "+
				"those nodes and the other nodes colocated with them.%s%s", g.mark(x), g.mark(y), g.explain(rx), g.explain(ry))
		}
	}
	merged.calls = to.calls || from.calls
	if err := g.callersFit(x, y, &merged); err != nil {
		return err
	}
	if to.rank == from.rank {
		merged.rank++
	}
	*to, from.parent = merged, keep
	return nil
}

// mark formats a node of a group for messages.
func (g *groups) mark(i int32) string { return "{{colocation_node " + g.members[i].node.Name + "}}" }

// narrow adds the constraints of the group o to m's. On an error, m is undefined.
func (m *member) narrow(o *member, soft bool) (err error) {
	if m.assigned, err = mergeSpecs(m.assigned, o.assigned, false); err != nil {
		return err
	}
	if m.resource, err = mergeSpecs(m.resource, o.resource, false); err != nil {
		return err
	}
	if m.requested, err = mergeSpecs(m.requested, o.requested, soft); err != nil {
		return err
	}
	m.requested = overrideSpec(overrideSpec(m.requested, m.resource), m.assigned)
	return nil
}

// mergeSpecs is Merge, without an allocation if the result equals a or b.
func mergeSpecs(a, b *Spec, soft bool) (*Spec, error) {
	if a == b || b.IsOpen() {
		return a, nil
	}
	s, err := a.Merge(*b, soft)
	return shared(s, a, b), err
}

func overrideSpec(a, b *Spec) *Spec {
	if a == b || b.IsOpen() {
		return a
	}
	return shared(a.Override(*b), a, b)
}

// shared returns a pointer to s, or a or b if that is equal.
func shared(s Spec, a, b *Spec) *Spec {
	switch s {
	case *a:
		return a
	case *b:
		return b
	}
	own := s // keeps s itself on the stack in the usual cases
	return &own
}

// pin fixes the group of i to a device, which must be one of the group's candidates. It replaces any unsatisfied requests of the group.
func (g *groups) pin(i int32, device int) {
	m := &g.members[g.root(i)]
	m.assigned = &g.devices.devices[device].Spec
	m.resource, m.requested = m.assigned, m.assigned
}

// explain lists the members of a group with the devices that they can use and request.
func (g *groups) explain(root int32) string {
	if g.terse {
		return ""
	}
	var members, ops strings.Builder
	seen := map[string]bool{}
	listed := 0
	for i := range g.members {
		m := &g.members[i]
		if g.root(int32(i)) != root {
			continue
		}
		if listed++; listed > explained {
			members.WriteString("\n  ...")
			break
		}
		fmt.Fprintf(&members, "\n  %s (%s) %s", m.node.Name, m.node.Op, m.node.Requested)
		if i >= g.fresh {
			fmt.Fprintf(&members, " framework assigned device=%s", m.node.Assigned)
		}
		if !seen[m.node.Op] {
			seen[m.node.Op] = true
			fmt.Fprintf(&ops, "\n%s: %s", m.node.Op, strings.Join(g.devices.typeNames(m.own), " "))
		}
	}
	r := &g.members[root]
	return fmt.Sprintf("\nColocation Debug Info:\nColocation group had the following types and supported devices: "+
		"\nRoot Member(requested_device_name_='%s' assigned_device_name_='%s' resource_device_name_='%s' supported_device_types_=[%s])"+
		"%s\n\nColocation members, user-requested devices, and framework assigned devices, if any:%s\n",
		r.requested, r.assigned, r.resource, strings.Join(g.devices.typeNames(r.types), ", "), ops.String(), members.String())
}
