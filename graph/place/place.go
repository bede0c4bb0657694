// Package place chooses the device of each node of a graph, by the rules of TensorFlow's placer
// (common_runtime/{placer,colocation_graph,device_set}.cc). If a program pins some of its nodes, the others go
// where its author expects them.
//
// Nodes that must share a device are first joined into groups: across references and resource handles, and by
// the client's colocation requests. A group carries the requests of its members, and the device types that all
// of them have kernels for. Then, in the graph's order, each group gets the best device that its constraints
// leave: the better type first, then the devices of the master's own task, then by name. Nodes placed earlier
// stay where they are and constrain the groups that they touch.
//
// Three rules are Troupe's own. An op that owns a named resource, and that nothing pins to a task, goes to the
// home of that resource (Options.Home), so that clients of different tasks that use one name mean one resource.
// Ops without any kernel are placed all the same. A resource that is passed to a function stays on devices of a
// type that runs functions, since their bodies are not placed node by node.
package place

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
)

// Options are a session's circumstances.
type Options struct {
	// Devices are the devices to choose from, after FilterDevices.
	Devices []Device
	// Prepared, if set, stands for Devices. With nil each Place takes time in proportion to them.
	Prepared *Prepared
	// SoftPlacement is ConfigProto.allow_soft_placement: types and indexes of devices that
	// cannot be had are ignored, and so are colocation requests that contradict the rest.
	// Jobs, replicas and tasks always hold.
	SoftPlacement bool
	// Supports tells whether a node has a kernel for a device type. It must not be nil.
	Supports func(n *graph.Node, deviceType string) bool
	// Home answers, for each resource, the full name of the device that it lives on, which is
	// Resource.Default for one that nobody has claimed. It is called once for each Place, and
	// once more where groups hold several resources: these follow the first of their group. With
	// nil every resource lives where its op is placed, as in TensorFlow.
	Home func(resources []Resource) ([]string, error)
	// Colocations remembers colocation names that no node bears from one Place of a session to
	// the next. With nil the nodes placed before are searched, which takes time in proportion.
	Colocations *Colocations
	// Log is called for each node that was placed (log_device_placement); nil for no log.
	Log func(n *graph.Node)
	// Warn is told of requests that were overridden: a device that yielded to a resource's, a
	// colocation that soft placement dropped; nil for no warnings.
	Warn func(message string)
	// Check, if not nil, is called now and then. Its error ends Place.
	Check func() error
}

// Place sets Assigned of nodes: those of g that no earlier Place has placed. Nodes that are
// not among them must be placed already, stay where they are, and must not have any of nodes
// as input. It takes time linear in nodes, not in g.
//
// What cannot be placed is INVALID_ARGUMENT, in TensorFlow's words; then no node is placed.
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

// run does one rule after the other; the order decides which of several faults is reported.
func (p *placer) run() error {
	for _, step := range []func() error{
		p.readNodes, p.joinEdges, p.joinClasses, p.bringHome, p.assign,
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
