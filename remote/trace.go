package remote

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
)

// Bounds of a trace, and how it is collected.
const (
	maxTraces    = 4                      // that a task collects at a time
	maxSteps     = 10000                  // of a trace
	defaultTrace = 1 << 17                // events of a task
	readEvery    = 250 * time.Millisecond // what tasks have recorded
	readTime     = 10 * time.Second       // for what is left when the window is over
)

// Trace records what runs on this task, or on all tasks of the cluster that are up, and gives it by this task's clock. It takes as
// long as the query says, or until its steps have ended, and ends early with ctx, which is no error. Errors: INVALID_ARGUMENT,
// and RESOURCE_EXHAUSTED if the task collects too many traces already. Tasks that could not be traced say so in their part.
func (n *Node) Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error) {
	switch long := time.Duration(q.GetDuration()); {
	case long <= 0 || long > actors.MaxTraceTime:
		return nil, status.InvalidArgumentf("A trace of %v is asked for; it takes more than 0 s and up to %v", long, actors.MaxTraceTime)
	case q.GetSteps() < 0 || q.GetSteps() > maxSteps:
		return nil, status.InvalidArgumentf("A trace of %d steps is asked for; it has up to %d", q.GetSteps(), maxSteps)
	case q.GetSteps() > 0 && q.GetStep() != 0:
		return nil, status.InvalidArgumentf("A trace is of one named step or of a number of steps, not of both")
	case q.GetMaxEvents() < 0 || q.GetMaxEvents() > actors.MaxTraceEvents:
		return nil, status.InvalidArgumentf("A trace of %d events of each task is asked for; it has up to %d", q.GetMaxEvents(), actors.MaxTraceEvents)
	}
	if n.traces.Add(1) > maxTraces {
		n.traces.Add(-1)
		return nil, status.Errorf(status.ResourceExhausted, "%d traces are being collected, which is the limit: try again when they have ended", maxTraces)
	}
	defer n.traces.Add(-1)

	var tasks []string
	for _, s := range n.Status() {
		if s.Task == n.self.Name() || q.GetCluster() && s.State == "up" {
			tasks = append(tasks, s.Task)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.GetDuration()))
	defer cancel()
	c := &collection{node: n, steps: q.GetSteps(), step: q.GetStep(), stop: cancel, ask: &view.TraceQuery{Window: rand.Uint64(), Duration: q.GetDuration(),
		Step: q.GetStep(), MaxEvents: cmp.Or(q.GetMaxEvents(), defaultTrace), MaxBytes: int64(actors.MaxTraceBytes / len(tasks))}}
	out := &view.Trace{Task: n.self.Name(), Began: time.Now().UnixNano(), Tasks: make([]*view.TaskTrace, len(tasks))}
	c.opening.Add(len(tasks))
	var work sync.WaitGroup
	for i, task := range tasks {
		out.Tasks[i] = &view.TaskTrace{Task: task}
		work.Go(contain.Func(n.log, "A trace of "+task, func() { c.collect(ctx, out.Tasks[i]) }, nil))
	}
	work.Go(func() {
		c.opening.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.began = time.Now().UnixNano()
		c.countLocked()
	})
	work.Wait()
	out.Ended = time.Now().UnixNano()
	c.choose(out)
	return out, nil
}

// collection is a trace that is being collected.
type collection struct {
	node    *Node
	ask     *view.TraceQuery
	step    uint64
	steps   int64
	stop    context.CancelFunc
	opening sync.WaitGroup // of the tasks' windows

	mu    sync.Mutex
	began int64 // when all windows were open; 0 while they are not
	ended []endedStep
}

// endedStep is a step that has ended, and when it began by the collecting task's clock.
type endedStep struct {
	step  uint64
	began int64
}

// collect opens a window on a task, reads what it records until ctx ends, and closes it.
func (c *collection) collect(ctx context.Context, t *view.TaskTrace) {
	opened := sync.OnceFunc(c.opening.Done)
	defer opened()
	if !c.query(ctx, t, &view.TraceQuery{}) {
		return
	}
	opened()
	every := time.NewTicker(readEvery)
	defer every.Stop()
	for answers := true; answers && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-every.C:
			answers = c.query(ctx, t, &view.TraceQuery{Read: true}) // it fails, too, for a ctx that is about to end
		}
	}
	// What is left is read though ctx has ended, the asking client's too: the task shall not keep it.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
	defer cancel()
	t.Reason = ""
	for more := true; more; more = t.More {
		if !c.query(last, t, &view.TraceQuery{Read: true}) {
			break
		}
	}
	t.More = false
	c.query(last, t, &view.TraceQuery{Close: true})
}

// query asks the task, takes over what it answers, and tells whether it did.
func (c *collection) query(ctx context.Context, t *view.TaskTrace, q *view.TraceQuery) bool {
	open := !q.Read && !q.Close
	q.Window = c.ask.Window
	if open {
		q = c.ask
	}
	asked := time.Now()
	a, err := c.node.task.AskTrace(ctx, t.Task, q)
	if err != nil {
		if ctx.Err() == nil || open {
			t.Reason = status.From(err).Message
		}
		return !open && ctx.Err() != nil
	}
	if a.Reason != "" {
		t.Reason = a.Reason
		return false
	}
	if trip := time.Since(asked); t.Clock == 0 || int64(trip/2) < t.OffsetError {
		t.Offset, t.OffsetError = a.Clock-asked.UnixNano()-int64(trip/2), int64(trip/2)
	}
	if t.Task == c.node.self.Name() {
		t.Offset, t.OffsetError = 0, 0
	}
	t.Clock, t.More = a.Clock, a.More
	if q.Read {
		t.Dropped = a.Dropped
	}
	t.Events = append(t.Events, a.Events...)
	c.count(a.Events, t.Offset)
	return true
}

// count notes the steps that have ended, and ends the window when they are those that are wanted.
func (c *collection) count(events []*view.TraceEvent, offset int64) {
	if c.steps == 0 && c.step == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		if e.Kind == view.StepEvent {
			c.ended = append(c.ended, endedStep{e.Step, e.Begin - offset})
		}
	}
	c.countLocked()
}

func (c *collection) countLocked() {
	if c.step != 0 && len(c.ended) > 0 || c.steps > 0 && int64(len(c.wantedLocked())) >= c.steps {
		c.stop()
	}
}

// wantedLocked are the first steps, as many as are wanted, that began when all windows were open and have ended.
func (c *collection) wantedLocked() map[uint64]bool {
	if c.began == 0 {
		return nil
	}
	slices.SortFunc(c.ended, func(a, b endedStep) int { return cmp.Compare(a.began, b.began) })
	wanted := map[uint64]bool{}
	for _, e := range c.ended {
		if e.began >= c.began && int64(len(wanted)) < c.steps {
			wanted[e.step] = true
		}
	}
	return wanted
}

// choose leaves the events of the steps that are wanted, with times by the collecting task's clock, in order.
func (c *collection) choose(out *view.Trace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := c.wantedLocked()
	for _, t := range out.Tasks {
		if c.steps > 0 && len(wanted) > 0 {
			t.Events = slices.DeleteFunc(t.Events, func(e *view.TraceEvent) bool { return e.Step != 0 && !wanted[e.Step] })
		}
		for _, e := range t.Events {
			e.Begin -= t.Offset
		}
		slices.SortStableFunc(t.Events, func(a, b *view.TraceEvent) int { return cmp.Compare(a.Begin, b.Begin) })
	}
}
