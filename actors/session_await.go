package actors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/view"
)

// Tasks of a cluster start one after the other, perhaps minutes apart. A change of a session that needs a task which has never been seen
// fails at once with unseen, so that it neither holds up the session's other changes nor keeps its turn of the processors. apply waits for
// the task, and then makes the change anew.

// unseen is the error of work that needs tasks which have never been seen and are still expected.
type unseen struct{ tasks []string }

// Error names the tasks.
func (e *unseen) Error() string { return "never seen: " + strings.Join(e.tasks, ", ") }

// unseen returns an error that wraps those of the tasks that have never been seen and are still expected; nil if there are none.
func (t *Task) unseen(tasks []string) error {
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(task string) bool { return task == t.name || !t.Cluster.Unseen(task) })
	if len(tasks) == 0 {
		return nil
	}
	return &unseen{tasks}
}

// apply has the actor make a change, and waits for it or for ctx, and for the tasks that have never been seen and that the change needs.
// After an error, the work may still be in progress, and its results must not be read.
func (s *Session) apply(ctx context.Context, m *change) error {
	for {
		err := s.applyOnce(ctx, m)
		var missing *unseen
		if !errors.As(err, &missing) {
			return err
		}
		if err := s.await(ctx, missing.tasks); err != nil {
			return err
		}
	}
}

// await waits for tasks that have never been seen.
func (s *Session) await(ctx context.Context, tasks []string) error {
	ctx, cancel := context.WithCancel(view.Await(ctx, "session "+s.name()))
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	defer s.awaits.add(tasks)()
	err := parallel(ctx, tasks, func(ctx context.Context, task string) error {
		_, err := s.task.Cluster.Peer(ctx, task)
		return err
	})
	if err != nil && s.life.Err() != nil {
		return errClosed()
	}
	return err
}

// awaits are the tasks that a session waits for, and how many of its calls do.
type awaits struct {
	mu    sync.Mutex // guards the fields below: calls of the session's clients add to them
	tasks map[string]int
	since time.Time
}

// add counts a call that waits, until done is called.
func (a *awaits) add(tasks []string) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tasks) == 0 {
		a.tasks, a.since = map[string]int{}, time.Now()
	}
	for _, task := range tasks {
		a.tasks[task]++
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, task := range tasks {
			if a.tasks[task]--; a.tasks[task] == 0 {
				delete(a.tasks, task)
			}
		}
	}
}

// look returns the tasks in order, and since when a call waits in nanoseconds since 1970; 0 without one.
func (a *awaits) look() (tasks []string, since int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tasks) == 0 {
		return nil, 0
	}
	return sortedKeys(a.tasks), a.since.UnixNano()
}
