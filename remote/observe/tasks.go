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

// Task is a task of this process. All methods may be called concurrently.
type Task interface {
	// See looks at the task, or at all of its cluster, in bounded time.
	See(ctx context.Context, q *view.Query) *view.Cluster
	// Graph gives a page of the graph of a session of any task of the cluster, in bounded time.
	Graph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error)
	// Trace records what runs on the task or its cluster, for as long as the query says.
	Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error)
	// Cancel cancels a step of any task of the cluster, Reset empties containers on all of them, and Drain has one of them end, in
	// bounded time. by is who asks for it: PERMISSION_DENIED, UNAUTHENTICATED.
	Cancel(ctx context.Context, by access.Peer, step uint64) (session, master string, err error)
	Reset(ctx context.Context, by access.Peer, containers []string) error
	Drain(ctx context.Context, by access.Peer, task string, within time.Duration) error
	// Refused notes an event: a request that was refused. It does not block.
	Refused(e access.Event)
}

// Tasks are the tasks of a process that share an endpoint. The zero value has none. All methods may be called concurrently.
type Tasks struct {
	mu  sync.Mutex
	all []*member
}

// member is a task that has been declared.
type member struct {
	name    string
	task    Task // nil until it serves
	leaving bool
}

// Declare tells that the process is going to serve a task of that name. It is not ready until then.
func (t *Tasks) Declare(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, &member{name: name})
}

// Serve tells that a declared task serves.
func (t *Tasks) Serve(name string, task Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.findLocked(name); m != nil {
		m.task = task
	}
}

// Leave tells that a task is about to stop: it can still be seen, and is not ready any more.
func (t *Tasks) Leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.findLocked(name); m != nil {
		m.leaving = true
	}
}

// Remove tells that a task has stopped, and whether it was the last.
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

// serving are the tasks that can be seen.
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

// unready are the names of the tasks that do not serve, or not any more. Without tasks, ok is false.
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

// See looks at the first task that serves, or with q.Cluster at all of its cluster. UNAVAILABLE is the error of a process
// none of whose tasks serves.
func (t *Tasks) See(ctx context.Context, q *view.Query) (*view.Cluster, error) {
	first, err := t.first()
	if err != nil {
		return nil, err
	}
	return first.See(ctx, q), nil
}

// Refused has the first task that serves note the refusal of a request; without one, nobody does.
func (t *Tasks) Refused(e access.Event) {
	if first, err := t.first(); err == nil {
		first.Refused(e)
	}
}

// Graph asks the first task that serves for a page of a session's graph. Its errors are that task's, and See's.
func (t *Tasks) Graph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error) {
	first, err := t.first()
	if err != nil {
		return nil, err
	}
	return first.Graph(ctx, q)
}

// Trace has the first task that serves record what runs. Its errors are that task's, and See's.
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
