package place

import (
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// Resource is a named resource, of which there is one for all sessions that use its name.
type Resource struct {
	// Container is the op's container; "" for the default one.
	Container string
	// Kind tells apart resources that may bear the same name in one container: Variable for
	// reference variables, VarHandleOp, Queue, Table, Reader, and otherwise the op without its
	// version.
	Kind string
	Name string
	// Default is the full name of the device on which the resource would be made here.
	Default string
}

// anonymousName is the shared_name of handles to resources that have no name
// (ResourceHandle::ANONYMOUS_NAME).
const anonymousName = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"

// resourceOf gives the named resource that n owns; ok is false if it owns none.
func resourceOf(n *graph.Node) (r Resource, ok bool) {
	if n.Def == nil || !n.Def.GetIsStateful() {
		return r, false
	}
	shared, named := n.Attrs["shared_name"]
	container, contained := n.Attrs["container"]
	if !named || !contained {
		return r, false
	}
	r = Resource{Container: string(container.GetS()), Kind: kindOf(n.Op), Name: string(shared.GetS())}
	if r.Name == "" && namedByNode(n) {
		r.Name = n.Name
	}
	return r, r.Name != "" && r.Name != anonymousName
}

// kindOf is the kind of resource that an op owns.
func kindOf(op string) string {
	base := strings.TrimRight(op, "0123456789")
	if base != op {
		op = strings.TrimSuffix(base, "V")
	}
	for _, k := range []struct{ suffix, kind string }{
		{"Queue", "Queue"}, {"HashTable", "Table"}, {"HashTableOfTensors", "Table"}, {"Reader", "Reader"},
		{"ConditionalAccumulator", "Accumulator"}, {"SparseToTensorsMap", "SparseTensorsMap"},
		{"SparseFromTensorsMap", "SparseTensorsMap"},
	} {
		if strings.HasSuffix(op, k.suffix) {
			return k.kind
		}
	}
	switch op {
	case "Stage", "Unstage", "StagePeek", "StageSize", "StageClear":
		return "Stage"
	}
	for _, p := range []string{"OrderedMap", "Map"} {
		switch strings.TrimPrefix(op, p) {
		case "Stage", "Unstage", "UnstageNoKey", "Peek", "Size", "IncompleteSize", "Clear":
			return p + "Stage"
		}
	}
	return op
}

// namedByNode tells whether the resource of n has the node's name where it has no shared_name;
// other resources without one belong to their kernel alone.
func namedByNode(n *graph.Node) bool {
	switch n.Op {
	case "Variable", "VariableV2", "VarHandleOp", "MutexV2", "SummaryWriter", "Stage", "MapStage", "OrderedMapStage":
		return true
	}
	return n.Attrs["use_node_name_sharing"].GetB()
}

// owner is a member that owns a named resource and may live on any task.
type owner struct {
	member   int32
	resource Resource
}

// bringHome asks for the homes of the named resources that nothing pins to a task, and sends
// their groups there. The first resource of a group decides; the others follow it, unless they
// live elsewhere already.
func (p *placer) bringHome() error {
	if p.Home == nil {
		return nil
	}
	leads, followers, err := p.homeless()
	if err != nil {
		return err
	}
	if err := p.settle(leads); err != nil {
		return err
	}
	for i := range followers {
		c, err := p.candidates(followers[i].member)
		if err != nil {
			return err
		}
		followers[i].resource.Default = p.devices.devices[c[0]].Name
	}
	return p.settle(followers)
}

// homeless lists the owners whose groups are not pinned to a task: the first of each group,
// with the device that it would get by itself, and the others.
func (p *placer) homeless() (leads, followers []owner, err error) {
	seen := map[int32]bool{}
	for i, n := range p.nodes {
		if err := p.check(); err != nil {
			return nil, nil, err
		}
		r, ok := resourceOf(n)
		if !ok {
			continue
		}
		o := owner{int32(i), r}
		root := p.root(o.member)
		if s := p.members[root].requested; s.Job != "" || s.Task >= 0 {
			continue
		}
		if seen[root] {
			followers = append(followers, o)
			continue
		}
		seen[root] = true
		c, err := p.candidates(o.member)
		if err != nil {
			return nil, nil, err
		}
		o.resource.Default = p.devices.devices[c[0]].Name
		leads = append(leads, o)
	}
	return leads, followers, nil
}

// settle asks for the homes of the owners' resources and narrows their groups to them.
func (p *placer) settle(owners []owner) error {
	if len(owners) == 0 {
		return nil
	}
	resources := make([]Resource, len(owners))
	for i, o := range owners {
		resources[i] = o.resource
	}
	homes, err := p.Home(resources)
	if err != nil {
		return err
	}
	if len(homes) != len(owners) {
		return status.Internalf("Asked for the homes of %d resources, got %d", len(owners), len(homes))
	}
	for i, o := range owners {
		if err := p.moveTo(o, homes[i]); err != nil {
			return attach(err, p.members[o.member].node)
		}
	}
	return nil
}

// moveTo narrows the group of an owner to the home of its resource.
func (p *placer) moveTo(o owner, home string) error {
	n := p.members[o.member].node
	s, err := p.parse(home)
	if err != nil {
		return status.Internalf("The home of resource '%s' is no device name: %s", o.resource.Name, err)
	}
	if _, ok := p.devices.byName[s.String()]; !ok {
		return status.InvalidArgumentf("Cannot assign a device for operation %s: {{node %s}} uses resource '%s' of container "+
			"'%s', which lives on %s, but available devices are [ %s ]. Make sure that the session's device filters include "+
			"it.", n.Name, n.Name, o.resource.Name, o.resource.Container, home, p.devices.sortedNames())
	}
	m := &p.members[p.root(o.member)]
	if _, err = s.Merge(*m.resource, p.SoftPlacement); err == nil {
		_, err = s.Merge(*m.requested, p.SoftPlacement)
	}
	if err != nil {
		return status.InvalidArgumentf("Cannot assign a device for operation %s: {{node %s}} uses resource '%s' of container "+
			"'%s', which lives on %s, where its group cannot be: %s", n.Name, n.Name, o.resource.Name, o.resource.Container,
			home, err)
	}
	if group := p.members[p.root(o.member)].types; group != 0 && group&p.devices.kinds[p.devices.byName[s.String()]] == 0 {
		return status.InvalidArgumentf("Cannot assign a device for operation %s: {{node %s}} uses resource '%s' of container '%s', which lives "+
			"on %s, but not all ops that use it have kernels for %s devices.%s", n.Name, n.Name, o.resource.Name, o.resource.Container,
			home, s.Type, p.explain(p.root(o.member)))
	}
	// A type and index that the client asked for yield, if they may, to those of the home.
	m.resource, m.requested = s, s
	return nil
}
