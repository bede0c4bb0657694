package actors

import (
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
