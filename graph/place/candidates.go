package place

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// candidates returns the devices on which the group of member i may be placed: at least one, best first.
func (p *placer) candidates(i int32) ([]int, error) {
	m := &p.members[p.root(i)]
	c := p.devices.candidates(*m.requested, m.types, m.calls)
	if len(c) == 0 && p.SoftPlacement {
		c = p.softCandidates(m)
	}
	if len(c) == 0 {
		n := p.members[i].node
		return nil, attach(status.InvalidArgumentf("Cannot assign a device for operation %s: %s", n.Name, p.refusal(i)), n)
	}
	return c, nil
}

// softCandidates ignores requested types and indices that are not available: first those that do not come from a resource's device, then
// also those that do.
func (p *placer) softCandidates(m *member) []int {
	soft := func(kept ...*Spec) Spec {
		s := m.requested.OnTask()
		for _, k := range kept {
			if k.Type != "" {
				s.Type = m.requested.Type
			}
			if k.Index >= 0 {
				s.Index = m.requested.Index
			}
		}
		return s
	}
	if c := p.devices.candidates(soft(m.assigned, m.resource), m.types, m.calls); len(c) > 0 {
		return c
	}
	c := p.devices.candidates(soft(m.assigned), m.types, m.calls)
	if len(c) > 0 && !m.resource.IsOpen() {
		p.warn("Failed to place the graph without changing the devices of some resources: some of the operations that had to " +
			"be colocated with " + m.node.Name + " have no kernel for its device " + m.resource.String())
	}
	return c
}

// refusal returns the reason why no device suits member i.
func (p *placer) refusal(i int32) string {
	n, r := p.members[i].node, p.root(i)
	m := &p.members[r]
	asked := Open()
	if s, ok := p.specs[n.Requested]; ok {
		asked = *s
	}
	if m.calls {
		if c := p.devices.candidates(*m.requested, m.types, false); len(c) > 0 {
			return p.lackFunctions(c, p.callerIn(r)) + p.explain(r)
		}
	}
	switch {
	case m.requested.IsOpen():
		inputs := make([]string, len(n.InTypes))
		for i, t := range n.InTypes {
			inputs[i] = t.String()
		}
		return "Node had no OpKernel registered to support this operation: Operation was " + n.Op + " and inputs were [" +
			strings.Join(inputs, ", ") + "].\n" + p.explain(r)
	case asked != *m.requested:
		return "Could not satisfy explicit device specification '" + n.Requested + "' because the node " + p.mark(i) +
			" was colocated with a group of nodes that required incompatible device '" + m.requested.String() +
			"'. All available devices [" + p.devices.sortedNames() + "]. " + p.explain(r)
	case len(p.devices.matching(asked, ^types(0))) == 0:
		cuda := ""
		if asked.Type == "GPU" && len(p.devices.matching(Spec{Replica: -1, Task: -1, Type: "GPU", Index: -1}, ^types(0))) == 0 {
			cuda = " The requested device appears to be a GPU, but CUDA is not enabled."
		}
		return "{{node " + n.Name + "}} was explicitly assigned to " + n.Requested + " but available devices are [ " +
			p.devices.sortedNames() + " ]. Make sure the device specification refers to a valid device." + cuda
	case asked.Type != "":
		return "Could not satisfy explicit device specification '" + n.Requested + "' because no supported kernel for " +
			asked.Type + " devices is available." + p.explain(r) + "\nOp: " + n.Op + "\nRegistered kernels:" +
			registered(p.devices.typeNames(p.members[i].own))
	}
	return "Could not satisfy explicit device specification '" + n.Requested + "'" + p.explain(r)
}

func registered(types []string) string {
	if len(types) == 0 {
		return "\n  <no registered kernels>\n"
	}
	return "\n  device='" + strings.Join(types, "'\n  device='") + "'\n"
}
