package actors

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/internal/view"
)

// Limits on what a look at a task lists.
const (
	maxListed     = 1000 // entries of a section, if the query sets no limit
	maxStepWaits  = 64   // kernels of a step on one task
	maxStepNames  = 32   // fetches and targets of a step
	maxAheadNodes = 64   // uses and edges of a step on one task
)

// Look returns what can be seen of the task, except for its process, its links and the state of the cluster. It asks the containers,
// which answer in bounded time, and holds no lock for long.
func (t *Task) Look(q *view.Query) *view.Task {
	l := &look{task: t, query: q, limit: int(q.GetLimit()), out: &view.Task{Task: t.name,
		Process: &view.Process{Boot: strconv.FormatUint(t.Boot, 16), Clock: time.Now().UnixNano()}, Totals: t.tally.totals(), Omitted: map[string]int64{}}}
	l.out.Totals.StepsBegun += int64(t.steps.masters())
	for _, c := range t.eager.all() {
		l.out.Totals.EagerContexts++
		l.out.Totals.EagerHandles += int64(c.handles.count())
		l.out.Totals.EagerFunctions += int64(c.library.count())
	}
	if l.limit <= 0 {
		l.limit = maxListed
	}
	l.limit = min(l.limit, view.MostListed)
	if l.wants("resources") || l.wants("steps") {
		l.findResources()
	}
	if l.wants("steps") {
		l.steps()
	}
	if l.wants("sessions") {
		l.sessions()
	}
	l.resources()
	if l.wants("devices") {
		l.devices()
	}
	if l.wants("events") {
		events, others := t.Events.After(q.GetEventsAfter(), l.limit)
		l.out.Events = events
		l.omit("events", others)
	}
	return l.out
}

// See is Look plus everything else that the process knows of the task.
func (t *Task) See(q *view.Query) *view.Task {
	seen := t.Look(q)
	if t.Complete != nil {
		t.Complete(q, seen)
	}
	return seen
}

// look is one look at a task.
type look struct {
	task  *Task
	query *view.Query
	limit int
	out   *view.Task

	found  []*view.Resource
	ids    map[containers.Resource]*view.Resource
	byID   map[string]*view.Resource
	needed map[*view.Resource]bool // resources that steps wait for
}

func (l *look) wants(section string) bool {
	return len(l.query.GetSections()) == 0 || slices.Contains(l.query.GetSections(), section)
}

func (l *look) omit(section string, n int) {
	if n > 0 {
		l.out.Omitted[section] = int64(n)
	}
}

// capped returns the first entries of a section and counts the others as omitted.
func capped[E any](l *look, section string, all []E) []E {
	if len(all) > l.limit {
		l.omit(section, len(all)-l.limit)
		all = all[:l.limit]
	}
	return all
}

// findResources lists the containers of the task's devices, and those of sessions with state of their own.
func (l *look) findResources() {
	l.ids, l.byID, l.needed = map[containers.Resource]*view.Resource{}, map[string]*view.Resource{}, map[*view.Resource]bool{}
	for _, d := range l.task.Devices {
		l.list(d, "", "")
	}
	for _, r := range l.task.shared.all() {
		if v := l.byID[l.idOf(r)]; v != nil {
			v.Shared = true
		}
	}
	l.task.mu.Lock()
	sessions := slices.Collect(maps.Values(l.task.sessions))
	l.task.mu.Unlock()
	for _, s := range sessions {
		if s.isolated {
			for _, d := range s.devices {
				l.list(d, "session "+view.SessionName(s.handle)+" ", s.who)
			}
		}
	}
}

// list lists the containers of a device. Those of a session with its own state belong to its client, who.
func (l *look) list(d devices.Device, owner, who string) {
	entries, err := d.Resources().List()
	if err != nil {
		l.task.Log.Warn("some containers did not list their contents", "device", d.Name(), "error", err)
	}
	for _, e := range entries {
		v := l.add(d.Name(), owner+e.Container, e.Kind, e.Name, e.Resource)
		v.Who = who
		if handle := view.PrivateTo(e.Name); who == "" && handle != "" {
			v.Who = l.task.clientOf(handle)
		}
	}
}

// clientOf returns the client of a session, for display; a dash if the task no longer has the session.
func (t *Task) clientOf(handle string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[handle]; s != nil {
		return s.who
	}
	return "-"
}

// idOf returns the id of a resource that has its home on the task.
func (l *look) idOf(r *wire.Resource) string {
	container := r.Container
	for _, d := range l.task.Devices {
		if d.Name() == r.Device {
			container = cmp.Or(container, d.Resources().DefaultContainer())
		}
	}
	return view.ResourceID(r.Device, container, cmp.Or(kindOfHome(r.Kind), r.Kind), r.Name)
}

func (l *look) add(device, container, kind, name string, r containers.Resource) *view.Resource {
	v := &view.Resource{Id: view.ResourceID(device, container, kind, name), Device: device, Container: container, Kind: kind, Name: view.PublicName(name)}
	l.ids[r], l.byID[v.Id] = v, v
	l.found = append(l.found, v)
	return v
}

// resources describes the listed resources that are not omitted, and all that steps wait for.
func (l *look) resources() {
	if l.ids == nil {
		return
	}
	all := l.found
	if !l.wants("resources") {
		all = slices.DeleteFunc(all, func(v *view.Resource) bool { return !l.needed[v] })
	}
	if left := len(all) - l.limit; left > 0 {
		first := slices.Clone(all[:l.limit])
		for _, v := range all[l.limit:] {
			if l.needed[v] {
				first = append(first, v)
				left--
			}
		}
		all = first
		l.omit("resources", left)
	}
	shown := make(map[*view.Resource]bool, len(all))
	for _, v := range all {
		shown[v] = true
	}
	for r, v := range l.ids {
		if !shown[v] {
			continue
		}
		v.Description = containers.Describe(r)
		if s, ok := r.(interface{ Show(*view.Resource) }); ok {
			s.Show(v)
		}
	}
	l.out.Resources = all
}

func (l *look) devices() {
	for _, d := range l.task.Devices {
		s := l.task.executors[d.Name()].State()
		if s == nil {
			continue
		}
		a := s.Attributes
		l.out.Devices = append(l.out.Devices, &view.Device{Name: a.Name, Type: a.Type, Description: a.Description, Incarnation: strconv.FormatUint(a.Incarnation, 16),
			Lost: s.Lost, Losses: s.Losses, PartsRunning: s.PartsRunning, PartsDone: s.PartsDone, PartsFailed: s.PartsFailed, PartsRefused: s.PartsRefused,
			Programs: s.Programs, MemoryLimit: a.MemoryLimit, MemoryInUse: s.Memory.InUse, MemoryPeak: s.Memory.Peak, MemoryIdle: s.Memory.Idle})
	}
}

// sessions lists the open sessions, oldest first.
func (l *look) sessions() {
	all := l.task.sessionsOf.all()
	slices.SortFunc(all, func(a, b *Session) int {
		return cmp.Or(cmp.Compare(a.opened, b.opened), cmp.Compare(a.handle, b.handle))
	})
	for _, s := range capped(l, "sessions", all) {
		l.out.Sessions = append(l.out.Sessions, s.look())
	}
}

// look describes a session.
func (s *Session) look() *view.Session {
	v := &view.Session{Name: s.name(), Who: s.rights.Who, Opened: s.opened, Used: s.used.Load(), LeaseEnds: s.leaseEnds.Load(),
		Plans: int64(s.plans.Load().count()), StepsDone: s.stepsDone.Load(), StepsFailed: s.stepsFailed.Load()}
	if g := s.graph.Load(); g != nil {
		v.Nodes = int64(len(g.Nodes))
	}
	if e := s.lastError.Load(); e != nil {
		v.LastError = view.Line(*e)
	}
	if w := s.working.Load(); w != nil {
		v.Working, v.WorkingSince = w.what, w.since
	}
	v.Awaits, v.AwaitsSince = s.awaits.look()
	if c := s.eager; c != nil {
		v.Eager = &view.EagerContext{Id: c.id, Handles: int64(c.handles.count()), Functions: int64(c.library.count()), Task: c.names.client}
		v.Eager.KeepAlive = int64(c.keep)
	}
	v.ChangesWaiting, v.Steps = s.changesWaiting.Load(), int64(s.task.steps.count(s))
	s.mu.Lock()
	defer s.mu.Unlock()
	v.Callables, v.PartialRuns = int64(len(s.callables)), int64(len(s.partials))
	v.Tasks = sortedKeys(s.reached)
	return v
}

// steps lists the steps of the task's sessions and the parts of other masters' steps, oldest first.
func (l *look) steps() {
	var all []*view.Step
	describe := map[*view.Step]func(*view.Step){}
	wanted := func(id uint64) bool { return l.query.GetStep() == 0 || l.query.GetStep() == id }
	for _, st := range l.task.steps.mastered() {
		if wanted(st.id) {
			v := &view.Step{Id: st.id, Session: st.session.name(), Who: st.session.rights.Who, Master: l.task.name, Began: st.own.Origin.Began}
			all, describe[v] = append(all, v), func(v *view.Step) { st.look(l, v) }
		}
	}
	for _, st := range l.task.steps.parts() {
		if st.master != l.task.name && wanted(uint64(st.ID)) {
			v := &view.Step{Id: uint64(st.ID), Session: view.SessionName(st.session.handle), Who: st.session.who, Master: st.master, Began: st.Origin.Began, Runs: true}
			all, describe[v] = append(all, v), func(v *view.Step) { st.look(l, v) }
		}
	}
	slices.SortFunc(all, func(a, b *view.Step) int { return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Id, b.Id)) })
	for _, v := range capped(l, "steps", all) {
		describe[v](v)
		l.out.Steps = append(l.out.Steps, v)
	}
}

// look describes what the master knows of a step, and the step's part here.
func (st *step) look(l *look, v *view.Step) {
	v.Owed = st.owing()
	st.mu.Lock()
	v.Runs = st.core.Local()
	if err := st.core.Err(); err != nil {
		v.Error = view.Line(err.Error())
	}
	st.mu.Unlock()
	sig := st.plan.pruned.Signature
	v.Fetches, v.Targets = sig.Fetches[:min(len(sig.Fetches), maxStepNames)], sig.Targets[:min(len(sig.Targets), maxStepNames)]
	v.Partial = st.partial
	if st.eager != nil {
		v.Call = st.eager.shared()
	}
	if v.Runs {
		st.own.look(l, v)
	}
}

// look describes a step's part on this task.
func (st *stepPart) look(l *look, v *view.Step) {
	st.mu.Lock()
	v.Compiling = !st.core.Known()
	if err := st.core.Err(); err != nil && v.Error == "" {
		v.Error = view.Line(err.Error())
	}
	st.mu.Unlock()
	if since := st.keeping.Load(); since != 0 {
		v.Waits = append(v.Waits, &view.Wait{Kind: view.Disk, Since: since})
	}
	seen := devices.LookAt(&st.runs, maxStepWaits, l.query.GetDetail())
	for _, w := range seen.Waits {
		v.Waits = append(v.Waits, l.wait(w))
	}
	for _, u := range seen.Uses[:min(len(seen.Uses), maxAheadNodes)] {
		id := view.ResourceID(u.Device, u.Container, u.Kind, u.Name)
		if r := l.byID[id]; r != nil {
			l.needed[r] = true
		}
		v.Uses = append(v.Uses, &view.Use{Node: u.Node.UserName(), Verb: u.Verb, Resource: id, Waits: indices(u.Waits)})
	}
	for _, e := range seen.Sends[:min(len(seen.Sends), maxAheadNodes)] {
		v.Sends = append(v.Sends, &view.Edge{Name: e.Edge, To: e.To, Waits: indices(e.Waits)})
	}
}

func indices(in []int) []int32 {
	out := make([]int32, len(in))
	for i, n := range in {
		out[i] = int32(n)
	}
	return out
}

// wait describes a kernel that has begun and not ended.
func (l *look) wait(w devices.Wait) *view.Wait {
	v := &view.Wait{Node: w.Node.UserName(), Op: w.Node.Op, Device: w.Device, Function: w.Function}
	if !w.Since.IsZero() {
		v.Since = w.Since.UnixNano()
	}
	attr := func(name string) string { return string(w.Node.Attrs[name].GetS()) }
	switch w.Kind {
	case devices.Computes:
		v.Kind = view.Computing
	case devices.AwaitsFeed:
		v.Kind = view.Feed
	case devices.AwaitsInput:
		v.Kind, v.Edge, v.From = view.Input, attr("tensor_name"), attr("send_device")
	case devices.AwaitsRoom:
		v.Kind, v.Task = view.Room, taskOf(attr("recv_device"))
	case devices.AwaitsResource:
		v.Kind, v.Text, v.Verb, v.Amount = view.Operation, w.Awaited.Text, w.Awaited.Verb, w.Awaited.Amount
		if r := w.Awaited.Resource; r != nil {
			v.Kind, v.Resource = view.OnResource, l.need(w, r)
		}
		if r := w.Awaited.Source; r != nil {
			v.Source = l.need(w, r)
		}
	}
	return v
}

// need returns the id of a resource that a kernel waits for, and marks the resource to be listed.
func (l *look) need(w devices.Wait, r containers.Resource) (id string) {
	found := l.ids[r]
	if found == nil { // of a step, or deleted
		found = l.add(w.Device, "", "unlisted", w.Node.UserName(), r)
	}
	l.needed[found] = true
	return found.Id
}
