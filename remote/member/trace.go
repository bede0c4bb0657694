package member

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
)

// Limits of a trace.
const (
	maxTraces    = 4                // that a task collects at the same time
	defaultTrace = 1 << 17          // events per task
	readTime     = 10 * time.Second // for reading the remainder, once the window is over
)

// ReadEvery is the interval in which a trace reads what tasks have recorded.
const ReadEvery = 250 * time.Millisecond

// Trace records what runs on this task, or on all tasks of the cluster that can be reached within 2 s, and returns it by this task's clock.
// It runs for the query's duration or until its steps have ended. It ends early with ctx, which is not an error. Errors: INVALID_ARGUMENT,
// and RESOURCE_EXHAUSTED if the task already collects too many traces. The part of a task that could not be traced has the reason.
func (m *Member) Trace(ctx context.Context, q *view.TraceQuery) (*view.Trace, error) {
	switch long := time.Duration(q.GetDuration()); {
	case long <= 0 || long > view.MaxTraceTime:
		return nil, status.InvalidArgumentf("A trace of %v was requested; it must take more than 0 s and at most %v", long, view.MaxTraceTime)
	case q.GetSteps() < 0 || q.GetSteps() > view.MaxTraceSteps:
		return nil, status.InvalidArgumentf("A trace of %d steps was requested; the limit is %d", q.GetSteps(), view.MaxTraceSteps)
	case q.GetSteps() > 0 && q.GetStep() != 0:
		return nil, status.InvalidArgumentf("A trace is of one named step or of a number of steps, not of both")
	case q.GetMaxEvents() < 0 || q.GetMaxEvents() > view.MaxTraceEvents:
		return nil, status.InvalidArgumentf("A trace of %d events per task was requested; the limit is %d", q.GetMaxEvents(), view.MaxTraceEvents)
	}
	if m.traces.Add(1) > maxTraces {
		m.traces.Add(-1)
		return nil, status.Errorf(status.ResourceExhausted, "%d traces are being collected, which is the limit: try again when they have ended", maxTraces)
	}
	defer m.traces.Add(-1)

	out := &view.Trace{Task: m.self.Name()}
	var reached []*view.TaskTrace
	for _, s := range m.traced(ctx, q) {
		t := &view.TaskTrace{Task: s.Task}
		out.Tasks = append(out.Tasks, t)
		if s.State == stateUp {
			reached = append(reached, t)
		} else {
			t.Reason = fmt.Sprintf("it was not reached: it is %s: %s", s.State, s.Reason)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.GetDuration()))
	defer cancel()
	c := &collection{member: m, by: access.Looker(ctx), steps: q.GetSteps(), step: q.GetStep(), stop: cancel, ask: &view.TraceQuery{Window: rand.Uint64(), Duration: q.GetDuration(),
		Step: q.GetStep(), MaxEvents: cmp.Or(q.GetMaxEvents(), defaultTrace), MaxBytes: int64(view.MaxTraceBytes / len(reached))}}
	out.Began = time.Now().UnixNano()
	c.opening.Add(len(reached))
	var work sync.WaitGroup
	for _, t := range reached {
		work.Go(contain.Func(m.log, "A trace of "+t.Task, func() { c.collect(ctx, t) }, nil))
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
	c.by.ShowTrace(out)
	return out, nil
}

// traced returns the tasks to trace: this one, or all tasks of the cluster, after looking for them.
func (m *Member) traced(ctx context.Context, q *view.TraceQuery) []TaskStatus {
	if q.GetCluster() {
		return m.LocateAll(ctx)
	}
	s, _ := m.StatusOf(m.self.Name())
	return []TaskStatus{s}
}

// collection is a trace being collected.
type collection struct {
	member  *Member
	by      *access.Rights // whose steps count
	ask     *view.TraceQuery
	step    uint64
	steps   int64
	stop    context.CancelFunc
	opening sync.WaitGroup // of the tasks' windows

	mu    sync.Mutex
	began int64 // when all windows were open; 0 before that
	ended []endedStep
}

// endedStep is a step that has ended, with its start by the collecting task's clock.
type endedStep struct {
	step  uint64
	began int64
}

// collect opens a window on a task, reads what the task records until ctx ends, and closes the window.
func (c *collection) collect(ctx context.Context, t *view.TaskTrace) {
	opened := sync.OnceFunc(c.opening.Done)
	defer opened()
	if !c.query(ctx, t, &view.TraceQuery{}) {
		return
	}
	opened()
	every := time.NewTicker(ReadEvery)
	defer every.Stop()
	for answers := true; answers && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-every.C:
			answers = c.query(ctx, t, &view.TraceQuery{Read: true}) // it also fails if ctx is about to end
		}
	}
	// The rest is read even if ctx, the asking client's included, has ended: the task must not keep it.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
	defer cancel()
	t.Reason = ""
	for q := (&view.TraceQuery{Read: true, Last: true}); c.query(last, t, q) && t.More; {
		q = &view.TraceQuery{Read: true}
	}
	t.More = false
	c.query(last, t, &view.TraceQuery{Close: true})
}

// query queries the task, stores its answer, and reports whether it answered.
func (c *collection) query(ctx context.Context, t *view.TaskTrace, q *view.TraceQuery) bool {
	open := !q.Read && !q.Close
	q.Window = c.ask.Window
	if open {
		q = c.ask
	}
	asked := time.Now()
	a, err := c.member.work.Roles.AskTrace(ctx, t.Task, q)
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
	if t.Task == c.member.self.Name() {
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

// count records the steps that have ended, and ends the window once all wanted steps have.
func (c *collection) count(events []*view.TraceEvent, offset int64) {
	if c.steps == 0 && c.step == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		if e.Kind == view.StepEvent && !e.Unfinished && c.by.ShowsStep(e) {
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

// wantedLocked returns the first c.steps ended steps that began after all windows were open.
func (c *collection) wantedLocked() map[uint64]bool {
	wanted := map[uint64]bool{}
	if c.began == 0 {
		return wanted
	}
	slices.SortFunc(c.ended, func(a, b endedStep) int { return cmp.Compare(a.began, b.began) })
	for _, e := range c.ended {
		if e.began >= c.began && int64(len(wanted)) < c.steps {
			wanted[e.step] = true
		}
	}
	return wanted
}

// choose keeps the events of the wanted steps, in order, with times by the collecting task's clock. If fewer steps have ended than are
// wanted, it keeps the running ones as well.
func (c *collection) choose(out *view.Trace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := c.wantedLocked()
	if int64(len(wanted)) < c.steps {
		for _, t := range out.Tasks {
			for _, e := range t.Events {
				if e.Kind == view.StepEvent && e.Unfinished {
					wanted[e.Step] = true
				}
			}
		}
	}
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
