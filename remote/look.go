package remote

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/link"
)

// lookTime bounds how long other tasks are waited for, where the caller's context does not end earlier.
const lookTime = 2 * time.Second

// lookMargin is what is left of the caller's time at most when the wait for other tasks ends, for the answer to arrive in time.
const lookMargin = 200 * time.Millisecond

// See looks at this task, or at all of the cluster. Tasks that are up and do not answer in time are silent. It waits for 2 s at
// most, and until a moment before ctx ends.
func (n *Node) See(ctx context.Context, q *view.Query) *view.Cluster {
	wait := lookTime
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, left-min(lookMargin, left/4))
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	out := &view.Cluster{Task: n.self.Name(), Spec: n.spec.String(), Exposed: n.exposed()}
	all := n.Status()
	if only := q.GetTasks(); len(only) > 0 {
		all = slices.DeleteFunc(all, func(s TaskStatus) bool { return !slices.Contains(only, s.Task) })
	}
	out.Tasks = make([]*view.Task, len(all))
	var asked sync.WaitGroup
	for i, s := range all {
		asked.Go(contain.Func(n.log, "A look at "+s.Task, func() { out.Tasks[i] = n.seeTask(ctx, s, q) }, nil))
	}
	asked.Wait()
	out.Clock = time.Now().UnixNano()
	return out
}

// seeTask looks at one task of the cluster, as far as the query asks for it.
func (n *Node) seeTask(ctx context.Context, s TaskStatus, q *view.Query) *view.Task {
	t := &view.Task{Task: s.Task}
	if of := q.GetEventsAfterOf(); len(of) > 0 || len(q.GetTasks()) > 0 { // what is of the other tasks is not sent to each
		after := q.GetEventsAfter()
		if len(of) > 0 {
			after = of[s.Task]
		}
		q = &view.Query{Sections: q.Sections, Cluster: q.Cluster, Detail: q.Detail, Step: q.Step, Limit: q.Limit, EventsAfter: after}
	}
	switch {
	case s.Task == n.self.Name():
		t = n.task.See(q)
	case q.GetCluster() && s.State == "up":
		seen, err := n.task.Ask(ctx, s.Task, q)
		if err != nil {
			s.State, s.Reason = "silent", err.Error()
		} else {
			t = seen
		}
	}
	t.Task, t.Address, t.State, t.Reason = s.Task, s.Address, s.State, s.Reason
	if !s.Since.IsZero() {
		t.Since = s.Since.UnixNano()
	}
	return t
}

// Graph gives a page of the graph of a session. Errors: NOT_FOUND for a task that the cluster does not have and for a session whose
// master the task is not, UNAVAILABLE for a task that is not up. It waits for another task until ctx ends at most, and 2 s.
func (n *Node) Graph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error) {
	task := cmp.Or(q.GetTask(), n.self.Name())
	g, err := n.graph(ctx, task, q)
	if err != nil {
		return nil, err
	}
	if !g.Known {
		return nil, status.Errorf(status.NotFound, "%s has no session %q: it may have ended", task, q.GetSession())
	}
	return g, nil
}

func (n *Node) graph(ctx context.Context, task string, q *view.GraphQuery) (*view.Graph, error) {
	if task == n.self.Name() {
		return n.task.Graph(q), nil
	}
	for _, s := range n.Status() {
		switch {
		case s.Task != task:
		case s.State != "up":
			return nil, status.Errorf(status.Unavailable, "%s is %s: %s", task, s.State, s.Reason)
		default:
			ctx, cancel := context.WithTimeout(ctx, lookTime)
			defer cancel()
			return n.task.AskGraph(ctx, q)
		}
	}
	return nil, status.Errorf(status.NotFound, "the cluster has no task %q", task)
}

// complete adds to what was seen of the task what only the node knows.
func (n *Node) complete(q *view.Query, t *view.Task) {
	wants := func(section string) bool {
		return len(q.GetSections()) == 0 || slices.Contains(q.GetSections(), section)
	}
	t.Process = n.process()
	t.Totals.ClientConnections = int64(n.port.Connections())
	for _, k := range slices.Concat(roles.Kinds(n.port.System()), n.cast.Kinds()) {
		t.Totals.Actors = append(t.Totals.Actors, &view.ActorKind{Kind: k.Kind, Actors: int64(k.Actors), Waiting: int64(k.Waiting), Handled: k.Handled, Panics: k.Panics})
	}
	stats := n.links.Stats()
	t.Totals.BytesSent, t.Totals.BytesReceived = stats.BytesSent+stats.BytesLent, stats.BytesReceived+stats.BytesRead
	if wants("links") {
		for _, task := range n.spec.Tasks() {
			if task != n.self {
				t.Links = append(t.Links, n.linkTo(task.Name()))
			}
		}
	}
	if wants("actors") {
		t.Actors = n.actors()
	}
}

func (n *Node) linkTo(task string) *view.Link {
	l := &view.Link{Task: task}
	st, err := n.links.State(task)
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

// actors lists the task's actors, the runtime's and the program's, by kind and name.
func (n *Node) actors() []*view.Actor {
	list := append(roles.List(n.port.System()), n.cast.List()...)
	slices.SortFunc(list, func(a, b roles.Status) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	out := make([]*view.Actor, len(list))
	for i, a := range list {
		out[i] = &view.Actor{Name: publicActor(a.Name), Kind: a.Kind, State: a.State, Handled: a.Handled, Waiting: int64(a.Waiting), Panics: a.Panics, Since: a.Since.UnixNano()}
	}
	return out
}

// publicActor is the name of an actor without the handle of its session, which gives the right to use it.
func publicActor(name string) string {
	if handle, ok := strings.CutPrefix(name, "session/"); ok {
		return "session/" + view.SessionName(handle)
	}
	return name
}
