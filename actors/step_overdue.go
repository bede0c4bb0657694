package actors

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
)

// overdue returns the error of a step that did not end in time: it says what the step waits for, and why.
func (st *step) overdue(limit time.Duration) error {
	return status.Errorf(status.DeadlineExceeded, "The step did not end within %v: %s", limit, st.why())
}

// why says in a sentence what an overdue step waits for, as far as its client may see it. It asks the other tasks, within the little time
// that is left.
func (st *step) why() string {
	ctx, cancel := context.WithTimeout(context.Background(), askMargin)
	defer cancel()
	seen := st.session.task.lookAround(ctx)
	if p := st.session.rights.Policy; p != nil {
		seen = p.Show(seen)
	}
	if r, ok := view.Why(seen, st.id); ok {
		return r.Text
	}
	return "its parts have ended, and their results are in flight"
}

// lookAround returns the steps of all tasks that answer before ctx ends, in detail, and of the others what is known of them. It asks all that
// are not known to be gone, also those that no step has needed so far.
func (t *Task) lookAround(ctx context.Context) *view.Cluster {
	tasks := t.Cluster.Tasks()
	c := &view.Cluster{Task: t.name, Tasks: make([]*view.Task, len(tasks))}
	var asked sync.WaitGroup
	for i, task := range tasks {
		known := t.sighted(task)
		c.Tasks[i] = known
		if task == t.name || known.State != view.StateUp {
			continue
		}
		asked.Go(contain.Func(t.Log, "A look at "+task, func() {
			seen, err := t.Ask(ctx, task, stepsInDetail)
			if err == nil {
				seen.State = view.StateUp
				c.Tasks[i] = seen
				return
			}
			if known := t.sighted(task); known.State != view.StateUp {
				c.Tasks[i] = known // it was lost meanwhile
				return
			}
			known.State, known.Reason = view.StateSilent, err.Error()
			if ctx.Err() != nil {
				known.Reason = fmt.Sprintf("no answer came within %v", askMargin)
			}
		}, nil))
	}
	own := t.lookLately()
	asked.Wait() // at most until ctx ends
	for i, task := range tasks {
		if task == t.name {
			c.Tasks[i] = own
		}
	}
	c.Clock = time.Now().UnixNano()
	return c
}

// sighted returns what is known of a task without asking it.
func (t *Task) sighted(task string) *view.Task {
	s := t.Cluster.State(task)
	out := &view.Task{Task: task, State: s.State, Reason: s.Reason}
	if !s.Since.IsZero() {
		out.Since = s.Since.UnixNano()
	}
	return out
}

// stepsInDetail is the query to one task whose answer shows why steps are blocked.
var stepsInDetail = view.ForWhy()

// lately caches the answer to stepsInDetail for a moment: a thousand steps that are overdue at the same time ask for the same.
type lately struct {
	mu   sync.Mutex // guards the rest: overdue steps ask on their own goroutines
	at   time.Time
	seen *view.Task
}

// lookLately answers stepsInDetail with what was seen at most a moment ago. The answer must not be changed.
func (t *Task) lookLately() *view.Task {
	const moment = 20 * time.Millisecond
	t.lately.mu.Lock()
	defer t.lately.mu.Unlock()
	if t.lately.seen == nil || time.Since(t.lately.at) > moment {
		t.lately.seen = t.Look(stepsInDetail)
		t.lately.seen.State = view.StateUp
		t.lately.at = time.Now()
	}
	return t.lately.seen
}

// A step's own deadline is before the client's, by at most answerMargin, so that the answer with the reason arrives in time. Asking the
// other tasks what the step waits for takes up to askMargin.
const (
	answerMargin = 100 * time.Millisecond
	askMargin    = 40 * time.Millisecond
)
