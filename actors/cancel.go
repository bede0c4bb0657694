package actors

import (
	"context"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// cancelStep cancels a step of one of the task's sessions for somebody who is not its client.
func (t *Task) cancelStep(m *wire.CancelStep) *wire.StepCancelled {
	for _, s := range t.sessionsOf.all() {
		st := s.runningStep(m.GetStep())
		if st == nil {
			continue
		}
		out := &wire.StepCancelled{Known: true, Session: s.name(), Cancelled: m.GetOwner() == "" || m.GetOwner() == s.rights.Owner}
		if out.Cancelled {
			by := view.Line(m.GetBy())
			t.Events.Add("step cancelled", view.StepName(st.id), s.name()+": by "+by)
			st.fail(status.Errorf(status.Cancelled, "The step was cancelled by an operator: %s", by))
		}
		return out
	}
	return &wire.StepCancelled{}
}

// runningStep finds a step that runs, whose memory is not used again; nil if there is none.
func (s *Session) runningStep(id uint64) *step {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.steps[id]
	if st != nil {
		st.mu.Lock()
		st.shared = true
		st.mu.Unlock()
	}
	return st
}

// CancelStep cancels a step whose master a task is, which answers within ctx. by names who cancels it to the step's client. Steps of
// other owners are not cancelled, unless owner is empty: see Rights. known tells that it is a step of the task's.
func (t *Task) CancelStep(ctx context.Context, task string, step uint64, by, owner string) (session string, known, cancelled bool, err error) {
	a, err := ask[*wire.StepCancelled](ctx, t, task, masterName, &wire.CancelStep{Step: step, By: by, Owner: owner})
	if err != nil {
		return "", false, false, err
	}
	return a.GetSession(), a.GetKnown(), a.GetCancelled(), nil
}
