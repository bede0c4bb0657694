package actors

import (
	"context"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// cancelStep cancels a step of one of the task's sessions for a requester that is not its client.
func (t *Task) cancelStep(m *wire.CancelStep) *wire.StepCancelled {
	st := t.steps.master(m.GetStep())
	if st == nil {
		return &wire.StepCancelled{}
	}
	s := st.session
	out := &wire.StepCancelled{Known: true, Session: s.name(), Cancelled: m.GetOwner() == "" || m.GetOwner() == s.rights.Owner}
	if out.Cancelled {
		by := view.Line(m.GetBy())
		t.Events.AddOf(s.rights.Who, "step cancelled", view.StepName(st.id), s.name()+": by "+by)
		st.fail(status.Errorf(status.Cancelled, "The step was cancelled by an operator: %s", by))
	}
	return out
}

// CancelStep cancels a step whose master is the given task, which must answer within ctx. by names the requester to the step's client. If
// owner is not empty, only that owner's steps are cancelled: see Rights. known reports whether the master runs the step.
func (t *Task) CancelStep(ctx context.Context, task string, step uint64, by, owner string) (session string, known, cancelled bool, err error) {
	a, err := ask[*wire.StepCancelled](ctx, t, task, masterName, &wire.CancelStep{Step: step, By: by, Owner: owner})
	if err != nil {
		return "", false, false, err
	}
	return a.GetSession(), a.GetKnown(), a.GetCancelled(), nil
}
