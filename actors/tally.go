package actors

import (
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// tally counts what a task has done since its start.
type tally struct {
	opened, closed, expired atomic.Int64 // sessions
	begun, done, parts      atomic.Int64 // steps, and parts of other masters'
	failed                  [codes]atomic.Int64
	steps, plans            view.Durations
	remote                  view.Durations // from the end of a step's own part to that of the last other task's
}

// codes is how many codes errors have.
const codes = int(status.Unauthenticated) + 1

// stepEnded counts the end of a step of the session that began at a time in nanoseconds since 1970. An error that a client
// meets as a matter of course, the end of its input, is no event.
func (s *Session) stepEnded(id uint64, began int64, err error) {
	t := s.task
	t.traces.took(view.StepEvent, "step "+view.StepName(id), id, s.handle, began)
	t.tally.steps.Add(time.Duration(time.Now().UnixNano() - began))
	if err == nil {
		t.tally.done.Add(1)
		s.stepsDone.Add(1)
		return
	}
	s.stepsFailed.Add(1)
	e := status.From(err)
	if c := int(e.Code); c > 0 && c < codes {
		t.tally.failed[c].Add(1)
	}
	s.lastError.Store(&e.Message)
	if e.Code != status.OutOfRange {
		t.Events.Add("step failed", view.StepName(id), s.name()+": "+view.Line(err.Error()))
	}
}

// totals is the tally as a message.
func (t *tally) totals() *view.Totals {
	out := &view.Totals{SessionsOpened: t.opened.Load(), SessionsClosed: t.closed.Load(), SessionsExpired: t.expired.Load(),
		StepsBegun: t.begun.Load(), StepsDone: t.done.Load(), PartsBegun: t.parts.Load(),
		StepsFailed: map[string]int64{}, StepSeconds: t.steps.Histogram(), PlanSeconds: t.plans.Histogram(), RemoteSeconds: t.remote.Histogram()}
	for c := range t.failed {
		if n := t.failed[c].Load(); n > 0 {
			out.StepsFailed[status.Code(c).String()] = n
		}
	}
	return out
}
