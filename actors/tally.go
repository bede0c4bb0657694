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
	done, parts             atomic.Int64 // steps without an error, and parts of other masters'
	failed                  [codes]atomic.Int64
	steps, plans            view.Durations
	remote                  view.Durations // from the end of a step's own part to that of the last other task's
}

// codes is how many codes errors have.
const codes = int(status.Unauthenticated) + 1

// timedSteps is of how many steps that run through on the goroutine of their call one is timed, and counts for all: reading the
// clock takes a tenth of the time of such a step.
const timedSteps = 16

// stepEnded counts the end of a step of the session that began at a time in nanoseconds since 1970; quick tells of one that ran
// through without waiting. An error that a client meets as a matter of course, the end of its input, is no event.
func (s *Session) stepEnded(id uint64, began int64, quick bool, err error) {
	t := s.task
	t.traces.took(view.StepEvent, "step", id, s.handle, began)
	if err == nil {
		t.tally.done.Add(1)
		times := int64(1)
		if done := s.stepsDone.Add(1); quick {
			if done%timedSteps != 1 {
				return
			}
			times = timedSteps
		}
		t.tally.steps.Add(time.Duration(time.Now().UnixNano()-began), times)
		return
	}
	t.tally.steps.Add(time.Duration(time.Now().UnixNano()-began), 1)
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

// refused notes that something was refused to a client because of a limit. What a policy refuses is noted where it is asked.
func (t *Task) refused(kind, subject string, err error) {
	if status.CodeOf(err) == status.ResourceExhausted {
		t.Events.AddSome(kind, subject, view.Line(err.Error()))
	}
}

// totals is the tally as a message.
func (t *tally) totals() *view.Totals {
	out := &view.Totals{SessionsOpened: t.opened.Load(), SessionsClosed: t.closed.Load(), SessionsExpired: t.expired.Load(),
		StepsDone: t.done.Load(), PartsBegun: t.parts.Load(),
		StepsFailed: map[string]int64{}, StepSeconds: t.steps.Histogram(), PlanSeconds: t.plans.Histogram(), RemoteSeconds: t.remote.Histogram()}
	for c := range t.failed {
		if n := t.failed[c].Load(); n > 0 {
			out.StepsFailed[status.Code(c).String()] = n
			out.StepsBegun += n
		}
	}
	out.StepsBegun += out.StepsDone
	return out
}
