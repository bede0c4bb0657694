package access

import (
	"context"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A client may see what it may use: its own sessions, with their steps and errors, and the containers and devices that its rule allows. A
// client that may use the sessions of others, or cancel their steps, sees those, too. The rest describes the state of the tasks and is
// shown to everybody who may look.

type rightsKey struct{}

// WithRights returns a context for a call by a caller with the given rights: the call shows only what they may see.
func WithRights(ctx context.Context, r *Rights) context.Context {
	return context.WithValue(ctx, rightsKey{}, r)
}

// Looker returns the rights of the caller in ctx: nil, which sees everything, if WithRights was not called, as within the process.
func Looker(ctx context.Context) *Rights {
	r, _ := ctx.Value(rightsKey{}).(*Rights)
	return r
}

// SeesAll reports whether the rights show everything.
func (r *Rights) SeesAll() bool {
	return r == nil || r.sees("") && (r.scope == nil || len(r.scope.Containers.Deny)+len(r.scope.Devices.Deny) == 0 && !r.scope.Containers.Restricts && !r.scope.Devices.Restricts)
}

// View returns a key that differs between callers that may see different things. It is the same for all that see everything.
func (r *Rights) View() string {
	if r.SeesAll() {
		return ""
	}
	return r.who.String() + " by " + r.Rule() + " "
}

// sees reports whether what belongs to a client is shown. who is the client as identities are written, possibly with its address.
func (r *Rights) sees(who string) bool {
	if r == nil || r.May(OtherSessions) == nil || r.May(CancelSteps) == nil {
		return true
	}
	own := r.who.String()
	return who == own || strings.HasPrefix(who, own+" at ")
}

// The kinds of the runtime's actors: those whose names do not come from clients, and those whose names do.
var (
	openKinds   = []string{"master", "worker", "directory", "device"}
	clientKinds = []string{"session", "container", "queue"}
)

// ShowsActor reports whether the actor of the given kind and name is shown. Kinds that are not the runtime's are the program's.
func (r *Rights) ShowsActor(kind, name string) bool {
	if device, ok := strings.CutPrefix(name, kind); ok && kind == "device" && !r.ShowsDevice(device) {
		return false
	}
	return r.sees("") || slices.Contains(openKinds, kind) || !slices.Contains(clientKinds, kind) && r.May(UseActors) == nil
}

// ShowsDevice reports whether the device with the given full name is shown.
func (r *Rights) ShowsDevice(device string) bool {
	return r == nil || r.scope.Device(device) == nil
}

// Show removes what is not shown, and all but limit entries of each section; 0 means no limit.
func (r *Rights) Show(c *view.Cluster, limit int64) {
	if r.SeesAll() {
		return
	}
	for _, t := range c.GetTasks() {
		r.showTask(t, int(limit))
	}
}

func (r *Rights) showTask(t *view.Task, limit int) {
	job, _, err := spec.ParseTaskName(t.Task)
	if err != nil {
		job = t.Task // neither a task nor a container has that name
	}
	t.Sessions = some(t.Sessions, limit, func(s *view.Session) bool { return r.sees(s.Who) })
	t.Steps = some(t.Steps, limit, func(s *view.Step) bool { return r.sees(s.Who) })
	t.Events = slices.DeleteFunc(t.Events, func(e *view.Event) bool { return e.Who != "" && !r.sees(e.Who) })
	if limit > 0 && len(t.Events) > limit {
		t.Events = t.Events[len(t.Events)-limit:] // the latest
	}
	t.Actors = some(t.Actors, limit, func(a *view.Actor) bool { return r.ShowsActor(a.Kind, a.Name) })
	if r.May(UseActors) != nil && !r.sees("") {
		t.Asks, t.Held = nil, nil
	}
	t.Devices = some(t.Devices, limit, func(d *view.Device) bool { return r.ShowsDevice(d.Name) })
	t.Resources = some(t.Resources, limit, func(v *view.Resource) bool {
		if v.Who != "" { // a session's own, in any container
			return r.sees(v.Who)
		}
		return r.ShowsDevice(v.Device) && r.scope.Container(v.Container, job) == nil
	})
	if !r.sees("") {
		for _, v := range t.Resources {
			v.HeldBy = nil
			withoutOrigins(v.ProtoReflect())
		}
	}
	clear(t.Omitted) // it counts entries that are not shown
}

// some returns the shown entries, at most limit.
func some[E any](all []E, limit int, shown func(E) bool) []E {
	all = slices.DeleteFunc(all, func(e E) bool { return !shown(e) })
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all
}

// withoutOrigins removes from a message which steps of which sessions have used something.
func withoutOrigins(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap():
		case f.Message().FullName() == (*view.Origin)(nil).ProtoReflect().Descriptor().FullName():
			m.Clear(f)
		case f.IsList():
			for i := range v.List().Len() {
				withoutOrigins(v.List().Get(i).Message())
			}
		default:
			withoutOrigins(v.Message())
		}
		return true
	})
}

// ShowGraph reports whether the graph of a session is shown.
func (r *Rights) ShowGraph(g *view.Graph) bool { return r.sees(g.GetWho()) }

// ShowTrace removes the steps that are not shown from a trace, with all that belongs to them. What belongs to a step of which neither the
// whole nor a part was recorded is not shown.
func (r *Rights) ShowTrace(t *view.Trace) {
	if r.sees("") {
		return
	}
	shown := map[uint64]bool{}
	for _, of := range t.GetTasks() {
		for _, e := range of.Events {
			if e.Step != 0 && r.ShowsStep(e) {
				shown[e.Step] = true
			}
		}
	}
	for _, of := range t.GetTasks() {
		of.Events = slices.DeleteFunc(of.Events, func(e *view.TraceEvent) bool { return !shown[e.Step] && !r.ShowsStep(e) })
	}
}

// ShowsStep reports whether an event of a step, a part or a plan belongs to a client whose sessions are shown.
func (r *Rights) ShowsStep(e *view.TraceEvent) bool { return r.sees(e.GetWho()) }

// Widest returns the query for as much as Show needs to leave enough shown entries.
func Widest(q *view.Query, most int64) *view.Query {
	wide := proto.Clone(q).(*view.Query)
	wide.Limit = most
	return wide
}
