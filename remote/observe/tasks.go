package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
)

// Task is a task of this process. Its methods are safe for concurrent use.
type Task interface {
	// See returns the state of the task, or of its whole cluster, in bounded time.
	See(ctx context.Context, q *view.Query) *view.Cluster
	// Graph returns a page of the graph of a session of any task of the cluster, in bounded time.
	Graph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error)
	// Trace records what runs on the task or its cluster, for as long as the query says.
	Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error)
	// Cancel cancels a step of any task of the cluster, Reset empties containers on all of them, and Drain makes one of them end, in bounded
	// time. by is the requester. Errors: PERMISSION_DENIED, UNAUTHENTICATED.
	Cancel(ctx context.Context, by access.Peer, step uint64) (session, master string, err error)
	Reset(ctx context.Context, by access.Peer, containers []string) error
	Drain(ctx context.Context, by access.Peer, task string, within time.Duration) error
	// Refused records an event for a refused request. It does not block.
	Refused(e access.Event)
}

// Tasks are the tasks of a process that share an endpoint. The zero value has none. Its methods are safe for concurrent use.
type Tasks struct {
	mu  sync.Mutex
	all []*member
}

// member is a declared task.
type member struct {
	name    string
	task    Task // nil until it serves
	leaving bool
}

// Declare announces that the process will serve a task of that name. Until it does, the process is not ready.
func (t *Tasks) Declare(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, &member{name: name})
}

// Serve announces that a declared task serves.
func (t *Tasks) Serve(name string, task Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.findLocked(name); m != nil {
		m.task = task
	}
}

// Leave announces that a task is about to stop: it can still be seen, but is no longer ready.
func (t *Tasks) Leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.findLocked(name); m != nil {
		m.leaving = true
	}
}

// Remove announces that a task has stopped, and reports whether it was the last.
func (t *Tasks) Remove(name string) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(m *member) bool { return m.name == name })
	return len(t.all) == 0
}

func (t *Tasks) findLocked(name string) *member {
	if i := slices.IndexFunc(t.all, func(m *member) bool { return m.name == name }); i >= 0 {
		return t.all[i]
	}
	return nil
}

// serving returns the tasks that can be seen.
func (t *Tasks) serving() []Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Task
	for _, m := range t.all {
		if m.task != nil {
			all = append(all, m.task)
		}
	}
	return all
}

// unready returns the names of the tasks that do not serve, or no longer do. Without tasks, ok is false.
func (t *Tasks) unready() (names []string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.all {
		if m.task == nil || m.leaving {
			names = append(names, m.name)
		}
	}
	return names, len(t.all) > 0
}

// See returns the state of the first serving task, or with q.Cluster that of its whole cluster. UNAVAILABLE means that no task of the
// process serves.
func (t *Tasks) See(ctx context.Context, q *view.Query) (*view.Cluster, error) {
	first, err := t.first()
	if err != nil {
		return nil, err
	}
	return first.See(ctx, q), nil
}

// Refused makes the first serving task record the refusal of a request; without one, it is not recorded.
func (t *Tasks) Refused(e access.Event) {
	if first, err := t.first(); err == nil {
		first.Refused(e)
	}
}

// Graph returns a page of a session's graph from the first serving task. Its errors are that task's, and See's.
func (t *Tasks) Graph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error) {
	first, err := t.first()
	if err != nil {
		return nil, err
	}
	return first.Graph(ctx, q)
}

// Trace makes the first serving task record what runs. Its errors are that task's, and See's.
func (t *Tasks) Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error) {
	first, err := t.first()
	if err != nil {
		return nil, err
	}
	return first.Trace(ctx, q)
}

func (t *Tasks) first() (Task, error) {
	all := t.serving()
	if len(all) == 0 {
		return nil, status.Errorf(status.Unavailable, "no task of this process serves")
	}
	return all[0], nil
}
