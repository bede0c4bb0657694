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
	done, parts             atomic.Int64 // steps without an error, and parts of other masters' steps
	failed                  [codes]atomic.Int64
	steps, plans            view.Durations
	remote                  view.Durations // from the end of a step's own part to that of its last part on another task
}

// codes is the number of status codes.
const codes = int(status.Unauthenticated) + 1

// timedSteps is the sampling interval of steps that run through on their caller's goroutine: one in timedSteps is timed and counts for all.
// Reading the clock takes a tenth of the time of such a step.
const timedSteps = 16

// stepEnded counts the end of a step of the session. began is in nanoseconds since 1970; quick marks a step that ran through without
// waiting. An error that clients expect, the end of their input, is no event.
func (s *Session) stepEnded(id uint64, began int64, quick bool, err error) {
	t := s.task
	t.traces.took(view.StepEvent, "", id, s.handle, s.rights.Who, began)
	if err == nil {
		t.tally.done.Add(1)
		times := int64(1)
		if done := s.stepsDone.Add(1); quick {
			if done%timedSteps != 1 {
				return
			}
			times = timedSteps
		}
		t.tally.steps.Add(time.Duration(s.usedNow()-began), times)
		return
	}
	t.tally.steps.Add(time.Duration(s.usedNow()-began), 1)
	s.stepsFailed.Add(1)
	e := status.From(err)
	if c := int(e.Code); c > 0 && c < codes {
		t.tally.failed[c].Add(1)
	}
	s.lastError.Store(&e.Message)
	if e.Code != status.OutOfRange {
		t.Events.AddOf(s.rights.Who, "step failed", view.StepName(id), s.name()+": "+view.Line(err.Error()))
	}
}

// refused records that a limit refused something to a client. What a policy refuses is recorded where the policy is asked.
func (t *Task) refused(who, kind, subject string, err error) {
	if status.CodeOf(err) == status.ResourceExhausted {
		t.Events.AddSomeOf(who, kind, subject, view.Line(err.Error()))
	}
}

// totals returns the tally as a message.
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
