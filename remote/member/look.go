package member

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/link"
)

// lookTime bounds the wait for other tasks, unless the caller's context ends earlier.
const lookTime = 2 * time.Second

// lookMargin is how much of the caller's time is left, at most, when the wait for other tasks ends, so that the answer arrives in time.
const lookMargin = 200 * time.Millisecond

// See returns the state of this task, or of the whole cluster, including tasks that this one has not learned of yet. Tasks that are up but
// do not answer in time are silent. Callers see only what they may use (access.Looker). See waits for at most 2 s, and until shortly before
// ctx ends.
func (m *Member) See(ctx context.Context, q *view.Query) *view.Cluster {
	by, limit := access.Looker(ctx), q.GetLimit()
	if !by.SeesAll() {
		q = access.Widest(q, view.MostListed)
	}
	wait := lookTime
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, left-min(lookMargin, left/4))
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	out := &view.Cluster{Task: m.self.Name(), Spec: m.SpecForOthers().String(), Exposed: m.Exposed()}
	all := m.Status()
	if only := q.GetTasks(); len(only) > 0 {
		all = slices.DeleteFunc(all, func(s TaskStatus) bool { return !slices.Contains(only, s.Task) })
	}
	out.Tasks = make([]*view.Task, len(all))
	var asked sync.WaitGroup
	for i, s := range all {
		asked.Go(contain.Func(m.log, "A look at "+s.Task, func() { out.Tasks[i] = m.seeTask(ctx, s, q) }, nil))
	}
	asked.Wait()
	out.Clock = time.Now().UnixNano()
	by.Show(out, limit)
	return out
}

// seeTask returns the state of one task of the cluster, as far as the query asks for it.
func (m *Member) seeTask(ctx context.Context, s TaskStatus, q *view.Query) *view.Task {
	t := &view.Task{Task: s.Task}
	if of := q.GetEventsAfterOf(); len(of) > 0 || len(q.GetTasks()) > 0 { // each task gets only its own part of the query
		after := q.GetEventsAfter()
		if len(of) > 0 {
			after = of[s.Task]
		}
		q = &view.Query{Sections: q.Sections, Cluster: q.Cluster, Detail: q.Detail, Step: q.Step, Limit: q.Limit, EventsAfter: after}
	}
	if s.Task == m.self.Name() {
		t = m.work.Roles.See(q)
	} else if q.GetCluster() {
		if s = m.Locate(ctx, s); s.State == stateUp {
			seen, err := m.work.Roles.Ask(ctx, s.Task, q)
			if err != nil {
				s.State, s.Reason = view.StateSilent, err.Error()
			} else {
				t = seen
			}
		}
	}
	t.Task, t.Address, t.State, t.Reason = s.Task, s.Address, s.State, s.Reason
	if !s.Since.IsZero() {
		t.Since = s.Since.UnixNano()
	}
	return t
}

// Graph returns a page of a session's graph. Errors: NOT_FOUND for a task that the cluster does not have and for a session whose master the
// task is not, UNAVAILABLE for a task that is not up. It waits for another task until ctx ends, but at most 2 s.
func (m *Member) Graph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error) {
	task := cmp.Or(q.GetTask(), m.self.Name())
	g, err := m.graph(ctx, task, q)
	if err != nil {
		return nil, err
	}
	if !g.Known || !access.Looker(ctx).ShowGraph(g) {
		return nil, status.Errorf(status.NotFound, "%s has no session %q: it may have ended", task, q.GetSession())
	}
	return g, nil
}

func (m *Member) graph(ctx context.Context, task string, q *view.GraphQuery) (*view.Graph, error) {
	if task == m.self.Name() {
		return m.work.Roles.Graph(q), nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := m.Find(ctx, task, false); err != nil {
		return nil, err
	}
	return m.work.Roles.AskGraph(ctx, q)
}

// Complete adds to the state of the task what the member knows: its process, links and actors.
func (m *Member) Complete(q *view.Query, t *view.Task) {
	wants := func(section string) bool {
		return len(q.GetSections()) == 0 || slices.Contains(q.GetSections(), section)
	}
	t.Process = m.process()
	t.Totals.ClientConnections = int64(m.port.Connections())
	for _, k := range slices.Concat(roles.Kinds(m.port.System()), m.cast.Kinds()) {
		t.Totals.Actors = append(t.Totals.Actors, &view.ActorKind{Kind: k.Kind, Actors: int64(k.Actors), Waiting: int64(k.Waiting), Handled: k.Handled, Panics: k.Panics, Restarts: k.Restarts})
	}
	stats := m.links.Stats()
	t.Totals.BytesSent, t.Totals.BytesReceived = stats.BytesSent+stats.BytesLent, stats.BytesReceived+stats.BytesRead
	if wants("links") {
		for _, task := range m.spec.Tasks() {
			if task != m.self {
				t.Links = append(t.Links, m.linkTo(task.Name()))
			}
		}
	}
	if wants("actors") {
		t.Actors = m.actors()
	}
	if wants("asks") {
		m.asks(int(q.GetLimit()), t)
	}
}

// asks lists the requests to programs' actors that have not been answered.
func (m *Member) asks(limit int, t *view.Task) {
	if limit <= 0 || limit > view.MostListed {
		limit = view.MostListed
	}
	made, all := m.cast.Asks(limit)
	for _, a := range made {
		v := &view.Ask{Id: a.ID, Actor: a.By, Blocks: a.Blocks, ToTask: a.To.Task, To: a.To.Name, Type: a.Type, Began: a.Began.UnixNano()}
		if a.Forwards != (cast.Ref{}) {
			v.Forwards = &view.Asked{Task: a.Forwards.Task, Id: a.Forwards.Name}
		}
		t.Asks = append(t.Asks, v)
	}
	held, more := m.cast.Held(limit)
	for _, h := range held {
		t.Held = append(t.Held, &view.Held{Ask: &view.Asked{Task: h.Asker.Task, Id: h.Asker.Name}, Actor: h.Actor.Name, State: h.State,
			ActorState: h.Actor.State, Waiting: int64(h.Actor.Waiting)})
	}
	if omitted := all - len(made) + more - len(held); omitted > 0 {
		t.Omitted["asks"] = int64(omitted)
	}
}

func (m *Member) linkTo(task string) *view.Link {
	l := &view.Link{Task: task}
	st, err := m.links.State(task)
	if err != nil {
		l.State, l.Reason = "none", err.Error()
		return l
	}
	l.Reason, l.Queued = st.Reason, st.Queued
	l.RoundTrip = int64(st.RoundTrip)
	l.MessagesSent, l.MessagesReceived, l.BytesSent, l.BytesReceived = st.MessagesSent, st.MessagesReceived, st.BytesSent, st.BytesReceived
	switch {
	case st.Health == link.Up:
		l.State = "up"
	case st.Reason != "":
		l.State = "down"
	case !st.Accepted.IsZero():
		l.State, st.Since = "accepted", st.Accepted
	default:
		l.State = "none" // nothing has needed it
	}
	if !st.Since.IsZero() {
		l.Since = st.Since.UnixNano()
	}
	if st.Stalled > 0 {
		l.StalledSince = time.Now().Add(-st.Stalled).UnixNano()
	}
	return l
}

// actors lists the actors of the runtime and of the program on this task, by kind and name.
func (m *Member) actors() []*view.Actor {
	list := append(roles.List(m.port.System()), m.cast.List()...)
	slices.SortFunc(list, func(a, b roles.Status) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	out := make([]*view.Actor, len(list))
	for i, a := range list {
		out[i] = &view.Actor{Name: publicActor(a.Name), Kind: a.Kind, State: a.State, Handled: a.Handled, Waiting: int64(a.Waiting), Panics: a.Panics, Restarts: a.Restarts, Since: a.Since.UnixNano()}
	}
	return out
}

// publicActor returns the name of an actor without the handle of the session that owns it: the handle grants the use of the session.
func publicActor(name string) string {
	if queue, ok := strings.CutPrefix(name, "queue/"); ok {
		return "queue/" + view.PublicName(queue)
	}
	if handle, ok := strings.CutPrefix(name, "session/"); ok {
		return "session/" + view.SessionName(handle)
	}
	return name
}
