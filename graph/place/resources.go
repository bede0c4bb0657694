package place

import (
	"hash/fnv"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// Resource is a named resource, which all sessions that use its name share.
type Resource struct {
	// Container is the op's container; "" for the default one.
	Container string
	// Kind distinguishes resources that may have the same name in one container: Variable for reference variables, VarHandleOp, Queue,
	// Table, Reader, and otherwise the op without its version.
	Kind string
	Name string
	// Default is the full name of the device on which this session would create the resource.
	Default string
}

// resourceOf returns the named resource that n owns; ok is false if it owns none.
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
	// A name that is not UTF-8 cannot be sent to another task; the kernel rejects it.
	return r, r.Name != "" && r.Name != graph.AnonymousName && utf8.ValidString(r.Container) && utf8.ValidString(r.Name)
}

// kindOf returns the kind of resource that an op owns.
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

// namedByNode reports whether the resource of n has the node's name if it has no shared_name. Other resources without a shared_name are
// private to their kernel.
func namedByNode(n *graph.Node) bool {
	switch n.Op {
	case "Variable", "VariableV2", "VarHandleOp", "MutexV2", "SummaryWriter", "Stage", "MapStage", "OrderedMapStage":
		return true
	}
	return n.Attrs["use_node_name_sharing"].GetB()
}

// asksForNone reports whether a request for s counts as no device request. A CPU without an index counts as none: TensorFlow's Python
// class FIFOQueue requests it whatever the user wrote.
func asksForNone(s Spec) bool {
	if s.Type == "CPU" && s.Index < 0 {
		s.Type = ""
	}
	return s.IsOpen()
}

// owner is a member that owns a named resource and may live on any task.
type owner struct {
	member   int32
	resource Resource
}

// moveToHomes looks up the homes of the named resources that request no device, and moves their groups there. The first resource of a group
// decides; the others follow it, unless they already live elsewhere.
func (p *placer) moveToHomes() error {
	if p.Home == nil {
		return nil
	}
	leads, followers, err := p.ownersWithoutDevice()
	if err != nil {
		return err
	}
	if err := p.narrowToHomes(leads); err != nil {
		return err
	}
	for i := range followers {
		c, err := p.candidates(followers[i].member)
		if err != nil {
			return err
		}
		followers[i].resource.Default = p.devices.devices[c[0]].Name
	}
	return p.narrowToHomes(followers)
}

// ownersWithoutDevice lists the owners whose groups request no device: the first of each group, with the proposed device, and the others.
func (p *placer) ownersWithoutDevice() (leads, followers []owner, err error) {
	var all []owner
	own := map[int32]bool{}   // groups that are pinned, or that the client wants on the master's task
	files := map[int32]bool{} // groups that work with files
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
		if s := p.members[root].requested; s.Job != "" || s.Task >= 0 || n.Requested != "" && !asksForNone(*p.specs[n.Requested]) {
			own[root] = true
			continue
		}
		files[root] = files[root] || worksWithFiles(r.Kind)
		all = append(all, o)
	}
	seen := map[int32]bool{}
	for _, o := range all {
		root := p.root(o.member)
		switch {
		case own[root]:
			continue
		case seen[root]:
			followers = append(followers, o)
			continue
		}
		seen[root] = true
		c, err := p.candidates(o.member)
		if err != nil {
			return nil, nil, err
		}
		o.resource.Default = p.devices.devices[c[0]].Name
		if home, ok := p.stableHome(o.resource, c); ok && !files[root] {
			o.resource.Default = home
		}
		leads = append(leads, o)
	}
	return leads, followers, nil
}

// stableHome returns the best candidate device on a stable task. The task is chosen by the resource's name, among those that have a
// candidate, with a ranking that all masters compute alike.
func (p *placer) stableHome(r Resource, candidates []int) (home string, ok bool) {
	on := func(task string) string {
		for _, c := range candidates {
			if d := p.devices.devices[c].Name; strings.HasPrefix(d, task+"/") {
				return d
			}
		}
		return ""
	}
	task := First(p.Stable, r.Container, r.Name, func(task string) bool { return on(task) != "" })
	if task == "" {
		return "", false
	}
	return on(task), true
}

// First returns the admitted task with the highest rank for a container and name, or "" if no task is admitted.
func First(tasks []string, container, name string, admitted func(task string) bool) (found string) {
	best := uint64(0)
	for _, task := range tasks {
		rank := rankOf(task, container, name)
		if (found == "" || rank > best) && admitted(task) {
			best, found = rank, task
		}
	}
	return found
}

// rankOf ranks a task for a container and name. The task with the highest rank is chosen, so that adding or removing a task affects only
// the names that choose that task (rendezvous hashing).
func rankOf(task, container, name string) uint64 {
	sum := fnv.New64a()
	for _, p := range [...]string{task, container, name} {
		_, _ = io.WriteString(sum, p+"\xff") // does not fail; no name has such a byte
	}
	// The last bytes must affect the highest bits (the finalizer of MurmurHash3).
	h := sum.Sum64()
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// worksWithFiles reports whether resources of a kind read or write files, which may exist on only one machine.
func worksWithFiles(kind string) bool {
	switch kind {
	case "Reader", "Table", "SummaryWriter":
		return true
	}
	return strings.Contains(kind, "Iterator")
}

// narrowToHomes looks up the homes of the owners' resources and narrows their groups to them.
func (p *placer) narrowToHomes(owners []owner) error {
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
		home := homes[i]
		if _, seen := p.devices.byName[home]; !seen && p.Filtered {
			p.warn("The session's device filters hide " + home + ", where resource '" + o.resource.Name + "' of container '" + o.resource.Container +
				"' lives: the session has one of its own, on " + o.resource.Default)
			home = o.resource.Default
		}
		if err := p.moveTo(o, home); err != nil {
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
			"'%s', which lives on %s, but available devices are [ %s ].", n.Name, n.Name, o.resource.Name, o.resource.Container, home, p.devices.sortedNames())
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
	if p.members[p.root(o.member)].calls && len(p.devices.candidates(*s, 0, true)) == 0 {
		return status.InvalidArgumentf("Cannot assign a device for operation %s: {{node %s}} uses resource '%s' of container '%s', which lives "+
			"on %s, but %s", n.Name, n.Name, o.resource.Name, o.resource.Container, home,
			p.lackFunctions([]int{p.devices.byName[s.String()]}, p.callerIn(p.root(o.member))))
	}
	// The home's type and index replace those that the client requested, if these may yield.
	m.resource, m.requested = s, s
	return nil
}
