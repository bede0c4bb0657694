package place

import (
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// readNodes makes each node a group of its own, with the constraints of that node alone.
func (p *placer) readNodes() error {
	for i, n := range p.nodes {
		if err := p.check(); err != nil {
			return err
		}
		m := &p.members[i]
		for t := range p.devices.types {
			if p.Supports(n, p.devices.types[t]) {
				m.types |= 1 << t
			}
		}
		m.own = m.types
		if err := p.readCaller(i); err != nil {
			return err
		}
		if n.Requested == "" {
			continue
		}
		s, err := p.parse(n.Requested)
		if err != nil {
			return attach(status.InvalidArgumentf("%s in node: {{node %s}}", err, n.Name), n)
		}
		m.requested = s
		if makesResource(n) {
			// The device of a node that makes a resource does not yield to its users' devices.
			m.resource = s
		}
	}
	return nil
}

// makesResource reports whether n is the origin of a reference or handle, such as a variable.
func makesResource(n *graph.Node) bool {
	return len(n.Inputs) == 0 && len(n.OutTypes) == 1 && isResource(n.OutTypes[0])
}

// member returns the index of a node. A node placed earlier becomes a member whose device is a constraint that nothing overrides.
func (p *placer) member(n *graph.Node) (int32, error) {
	if i, ok := p.index(n); ok {
		return i, nil
	}
	if n.Assigned == "" {
		return 0, status.Internalf("Node %s is neither placed nor among those to place", n.Name)
	}
	dev, ok := p.devices.byName[n.Assigned]
	if !ok {
		return 0, status.Internalf("Assigned device '%s' does not match any device. Here are the devices "+
			"available on this machine: [%s].", n.Assigned, p.devices.sortedNames())
	}
	return p.addPlaced(n, dev), nil
}

// attach appends the node that an error is about, as TensorFlow's AttachDef does: by its bare name if the message already contains a node.
func attach(err error, n *graph.Node) error {
	e := *status.From(err)
	name := "{{node " + n.Name + "}}"
	if strings.Contains(e.Message, "{{node ") {
		name = n.Name
	}
	e.Message += "\n\t [[" + name + "]]"
	return &e
}
