// Package place chooses the device of each node of a graph, by the rules of TensorFlow's placer
// (common_runtime/{placer,colocation_graph,device_set}.cc). If a program pins some of its nodes, the others go where its author expects
// them.
//
// Nodes that must share a device are first joined into groups: across references and resource handles, and by the client's colocation
// requests. A group combines the requests of its members and the device types for which all of them have kernels. Then, in the graph's
// order, each group gets the best device that satisfies its constraints: better types first, then the devices of the master's own task,
// then by name. Nodes placed earlier stay where they are and constrain the groups connected to them.
//
// Four rules are Troupe's own. An op that owns a named resource and requests no device goes to the home of that resource (Options.Home),
// so that clients of different tasks that use one name share one resource. An op that requests a type or an index, such as /cpu:0, means
// the master's own task, as in TensorFlow. Ops without any kernel are placed all the same. A resource that is passed to a function stays
// on devices of a type that runs functions, since function bodies are not placed node by node. A node that calls functions of the program that owns a server (Options.CallsProgram) has no
// kernel on the devices of other servers.
package place

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
)

// Options configure Place for a session.
type Options struct {
	// Devices are the devices to choose from, after FilterDevices.
	Devices []Device
	// Prepared, if set, replaces Devices. If it is nil, each Place takes time proportional to the number of devices.
	Prepared *Prepared
	// Default, if set, is the full name of a device that nodes get if their constraints allow it, although others may be better.
	Default string
	// SoftPlacement is ConfigProto.allow_soft_placement: device types and indices that are not available are ignored, and so are
	// colocation requests that contradict other constraints. Jobs, replicas and tasks always apply.
	SoftPlacement bool
	// Supports reports whether a node has a kernel for a device type. It must not be nil.
	Supports func(n *graph.Node, deviceType string) bool
	// CallsProgram reports whether a node calls functions of the program that owns a server, itself or in functions that run on its device.
	// If it is nil, no node does.
	CallsProgram func(n *graph.Node) (bool, error)
	// Home returns, for each resource, the full name of the device on which it lives; that is Resource.Default for one not claimed yet. It
	// is called once per Place, and once more if groups hold several resources: the others follow the first of their group. If Home is
	// nil, every resource lives where its op is placed, as in TensorFlow.
	Home func(resources []Resource) ([]string, error)
	// Stable holds the full names of the permanent tasks, in the cluster's order. An unclaimed resource is proposed to live on one of
	// them, chosen by its name, unless its group works with files. If there are no stable tasks, and for groups that work with files, it
	// is proposed to live on the device on which it would be placed otherwise.
	Stable []string
	// Filtered is whether the session sees only some of the cluster's devices. A resource whose home is not among them is then private to
	// the session.
	Filtered bool
	// Colocations remembers, from one Place of a session to the next, colocation names that are not the name of any node. If it is nil,
	// the nodes placed before are searched, which takes time proportional to their number.
	Colocations *Colocations
	// Log is called for each node placed (log_device_placement). It may be nil.
	Log func(n *graph.Node)
	// Warn is called for each request that was overridden: a device that yielded to a resource's, or a colocation that soft placement
	// dropped. It may be nil.
	Warn func(message string)
	// Check, if not nil, is called from time to time. If it returns an error, Place stops.
	Check func() error
}

// Place sets Assigned of nodes, which are the nodes of g that no earlier Place has placed. All other nodes must be placed already and stay
// where they are; none of them may have one of nodes as an input. Place takes time linear in nodes, not in g.
//
// If a node cannot be placed, Place returns INVALID_ARGUMENT, in TensorFlow's words, and places no node.
func Place(g *graph.Graph, nodes []*graph.Node, o Options) error {
	if o.Prepared == nil {
		var err error
		if o.Prepared, err = Prepare(o.Devices); err != nil {
			return err
		}
	}
	if !slices.IsSortedFunc(nodes, byID) {
		nodes = slices.SortedFunc(slices.Values(nodes), byID)
	}
	p := &placer{groups: newGroups(nodes, o.Prepared.set, o.SoftPlacement), graph: g, nodes: nodes, Options: o, check: graph.Now(o.Check)}
	if err := p.run(); err != nil {
		for _, n := range nodes {
			n.Assigned = ""
		}
		return err
	}
	if o.Log != nil {
		for _, n := range nodes {
			o.Log(n)
		}
	}
	return nil
}

func byID(a, b *graph.Node) int { return a.ID - b.ID }

// placer is one run of Place.
type placer struct {
	*groups
	Options
	graph *graph.Graph
	nodes []*graph.Node // in the order of their IDs
	check func() error
}

// run applies the rules in order; the order determines which of several errors is reported.
func (p *placer) run() error {
	for _, step := range []func() error{
		p.readNodes, p.joinEdges, p.joinClasses, p.joinIterators, p.moveToHomes, p.assign,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if p.Colocations != nil {
		p.Colocations.remember(p.graph, p.nodes)
	}
	return nil
}

func (p *placer) warn(message string) {
	if p.Warn != nil {
		p.Warn(message)
	}
}
