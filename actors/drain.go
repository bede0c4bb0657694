package actors

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// drain has the task's program end the task, at an operator's request.
func (t *Task) drain(m *wire.Drain) error {
	if t.End == nil {
		return status.Errorf(status.FailedPrecondition, "%s does not end when it is asked to: its program has other tasks, too, or was started without WithDrainRequests", t.Cluster.Self())
	}
	by := view.Line(m.GetBy())
	t.Events.AddOf(by, "drain", "", "by "+by)
	t.Log.Info("the task drains, as an operator asks", "by", by)
	t.End(time.Duration(m.GetWithin()))
	return nil
}

// Drain asks a task to end. The task must acknowledge within ctx. Its running steps may continue for the time within or, if that is 0, for
// as long as the task's program decides; new ones are UNAVAILABLE. by names the requester in logs and events. A task that does not end on
// request returns FAILED_PRECONDITION.
func (t *Task) Drain(ctx context.Context, task string, within time.Duration, by string) error {
	a, err := ask[*wire.Done](ctx, t, task, masterName, &wire.Drain{By: by, Within: int64(within)})
	if err != nil {
		return err
	}
	return failed(a.GetFailure())
}

// logCut names a step that is cancelled because the time to drain has ended.
func (t *Task) logCut(step uint64, session, master string, began int64, more ...any) {
	about := []any{"step", view.StepName(step), "session", session, "master", master, "seconds", time.Since(time.Unix(0, began)).Seconds()}
	t.Log.Warn("a step is cancelled: the time to drain has ended", append(about, more...)...)
}
