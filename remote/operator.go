package remote

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

var _ wire.OperatorServer = (*Node)(nil)

// mayList rejects callers that may not see the server's state. In the returned context, they see only what they may use.
func (n *Node) mayList(ctx context.Context) (context.Context, error) {
	caller, err := gateway.CallerOf(ctx, n.config.Guard)
	if err == nil {
		err = caller.May(access.ListState)
	}
	return access.WithRights(ctx, caller.Rights()), err
}

// maxLooks bounds the calls that look at tasks at the same time, of which half may be one client's: an answer may take tens of megabytes, here and on each
// task that is asked for its part. Others wait for their turn.
const maxLooks = 8

// mayLook waits until the call whose context is ctx may look at tasks; leave ends that.
func (n *Node) mayLook(ctx context.Context) (leave func(), err error) {
	p, _ := http2.PeerOf(ctx)
	return n.looks.Enter(ctx, http2.ClientOf(p))
}

// mayUseActors rejects callers outside the cluster that may not use the program's actors.
func (n *Node) mayUseActors(ctx context.Context) error { return n.may(ctx, access.UseActors) }

func (n *Node) may(ctx context.Context, a access.Action) error {
	caller, err := gateway.CallerOf(ctx, n.config.Guard)
	if err == nil {
		err = caller.May(a)
	}
	return err
}

// ClusterStatus returns Status as a message, after looking for tasks that this one has not learned of yet, for at most 2 s.
func (n *Node) ClusterStatus(ctx context.Context) *wire.ClusterStatus {
	by := access.Looker(ctx)
	out := &wire.ClusterStatus{Task: n.Self().Name(), Spec: n.SpecForOthers().String(), Exposed: n.Exposed()}
	for _, s := range n.LocateAll(ctx) {
		t := &wire.TaskStatus{Task: s.Task, Address: s.Address, State: s.State, Reason: s.Reason, Boot: s.Boot}
		if !s.Since.IsZero() {
			t.Since = s.Since.UnixNano()
		}
		for _, d := range s.Devices {
			if by.ShowsDevice(d.Name) {
				t.Devices = append(t.Devices, wire.DeviceOf(d))
			}
		}
		out.Tasks = append(out.Tasks, t)
	}
	return out
}

// CancelStep cancels a step, wherever its master is: it asks all tasks that can be reached. A caller that may not cancel others' steps may
// cancel those of its own sessions. It waits for at most 2 s.
func (n *Node) CancelStep(ctx context.Context, q *wire.CancelStepRequest) (*wire.CancelStepAnswer, error) {
	caller, err := gateway.CallerOf(ctx, n.config.Guard)
	if err != nil {
		return nil, err
	}
	return n.cancelAs(ctx, &caller, caller.NameOf(ctx), q.GetStep())
}

// Cancel is CancelStep for a caller that does not come over the task's port. It returns the name of the step's session and the task that is
// its master.
func (n *Node) Cancel(ctx context.Context, by access.Peer, step uint64) (session, master string, err error) {
	caller, err := gateway.CallerAt(by, n.config.Guard)
	if err != nil {
		return "", "", err
	}
	a, err := n.cancelAs(ctx, &caller, caller.NameAt(by.Address), step)
	return a.GetSession(), a.GetMaster(), err
}

// Reset closes all sessions of the task and empties containers on all tasks of its cluster, the default ones if no names are given, for a
// caller that does not come over the task's port. Errors: PERMISSION_DENIED, UNAUTHENTICATED, and those of tasks that cannot be reset.
func (n *Node) Reset(ctx context.Context, by access.Peer, containers []string) error {
	caller, err := gateway.CallerAt(by, n.config.Guard)
	if err != nil {
		return err
	}
	return n.gateway.Reset(ctx, &caller, caller.NameAt(by.Address), containers)
}

// MaxDrain bounds how long a draining task may allow its steps to run.
const MaxDrain = time.Hour

// DrainTask makes a task of the cluster end. It waits at most 2 s for the task's answer, and does not wait for its end.
func (n *Node) DrainTask(ctx context.Context, q *wire.DrainRequest) (*wire.DrainAnswer, error) {
	caller, err := gateway.CallerOf(ctx, n.config.Guard)
	if err != nil {
		return nil, err
	}
	return &wire.DrainAnswer{}, n.drainAs(ctx, &caller, caller.NameOf(ctx), q.GetTask(), time.Duration(q.GetWithin()))
}

// Drain is DrainTask for a caller that does not come over the task's port.
func (n *Node) Drain(ctx context.Context, by access.Peer, task string, within time.Duration) error {
	caller, err := gateway.CallerAt(by, n.config.Guard)
	if err != nil {
		return err
	}
	return n.drainAs(ctx, &caller, caller.NameAt(by.Address), task, within)
}

// drainAs makes a task end for a caller, which by names for people.
func (n *Node) drainAs(ctx context.Context, caller *gateway.Caller, by, task string, within time.Duration) error {
	if err := caller.May(access.DrainTasks); err != nil {
		return err
	}
	if within < 0 || within > MaxDrain {
		return status.InvalidArgumentf("A task drains for at most %v, not %v", MaxDrain, within)
	}
	if _, known := n.Spec().ByName(task); !known {
		return status.Errorf(status.NotFound, "the cluster has no task %s: it is %v", view.Line(task), n.Spec())
	}
	asked, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := n.task.Drain(asked, task, within, by); err != nil {
		return err
	}
	caller.Drained(task)
	return nil
}

// cancelAs cancels a step for a caller, which by names for the step's client.
func (n *Node) cancelAs(ctx context.Context, caller *gateway.Caller, by string, step uint64) (*wire.CancelStepAnswer, error) {
	owner, others, err := caller.MayCancel()
	if err != nil {
		return nil, err
	}
	detail := fmt.Sprintf("step %d", step)
	a, known, missed, failures := n.cancelStep(ctx, step, by, owner)
	switch {
	case a != nil:
		n.Log().Info("a step was cancelled by an operator", "step", step, "session", a.Session, "task", a.Master, "by", by)
		caller.Cancelled(fmt.Sprintf("%s of session %s on %s", detail, a.Session, a.Master), nil)
		return a, nil
	case known:
		caller.Cancelled(detail, others)
		return nil, others
	case len(failures) > 0:
		return nil, status.Errorf(status.Unavailable, "step %d does not run on any task that answered; these did not answer: %s", step, strings.Join(failures, "; "))
	}
	where := "on no task"
	if len(missed) > 0 {
		where = "on no task that can be reached (" + strings.Join(missed, "; ") + ")"
	}
	return nil, status.Errorf(status.NotFound, "step %d runs %s: it has ended, or never began", step, where)
}

// cancelStep asks all tasks to cancel a step, until ctx ends and for at most lookTime. It returns a nil answer if none did: the step may be
// known but belong to somebody else, or its master may be among the tasks that are missed because they are not up, or that fail.
func (n *Node) cancelStep(ctx context.Context, step uint64, by, owner string) (a *wire.CancelStepAnswer, known bool, missed, failures []string) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	ask := func(name string, of *actors.Task) {
		session, knows, cancelled, err := of.CancelStep(ctx, name, step, by, owner)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			failures = append(failures, err.Error())
		case cancelled:
			a = &wire.CancelStepAnswer{Session: session, Master: name}
		}
		if known = known || knows; known {
			cancel() // stop looking for the others
		}
	}
	what := "The end of a step on "
	for _, guest := range n.declare.Tasks() {
		asked.Go(contain.Func(n.Log(), what+guest.Name(), func() { ask(guest.Name(), guest) }, nil))
	}
	for _, s := range n.Status() {
		asked.Go(contain.Func(n.Log(), what+s.Task, func() {
			if s := n.Locate(ctx, s); s.State == view.StateUp {
				ask(s.Task, n.task)
			} else {
				mu.Lock()
				defer mu.Unlock()
				missed = append(missed, fmt.Sprintf("%s is %s: %s", s.Task, s.State, s.Reason))
			}
		}, nil))
	}
	asked.Wait()
	slices.Sort(missed)
	slices.Sort(failures)
	return a, known, missed, failures
}

// TaskActors lists the actors of the runtime and of the program on this task, for remote operators.
func (n *Node) TaskActors(ctx context.Context) *wire.TaskActors {
	by := access.Looker(ctx)
	out := &wire.TaskActors{Task: n.Self().Name()}
	list := append(roles.List(n.Port().System()), n.Cast().List()...)
	slices.SortFunc(list, func(a, b roles.Status) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	for _, a := range list {
		if !by.ShowsActor(a.Kind, a.Name) {
			continue
		}
		s := &wire.ActorStatus{Name: publicActor(a.Name), Kind: a.Kind, State: a.State, Handled: a.Handled, Waiting: int64(a.Waiting),
			Panics: a.Panics, Restarts: a.Restarts, Since: a.Since.UnixNano()}
		if a.Kind == devices.ExecutorKind {
			s.Device = deviceState(n.task.DeviceState(a.Name))
		}
		out.Actors = append(out.Actors, s)
	}
	return out
}

// deviceState returns an executor's state as a message for operators; nil for an executor that has stopped.
func deviceState(s *devices.State) *wire.DeviceState {
	if s == nil {
		return nil
	}
	return &wire.DeviceState{Lost: s.Lost, Losses: s.Losses, Incarnation: s.Attributes.Incarnation, PartsRunning: s.PartsRunning, PartsDone: s.PartsDone,
		PartsFailed: s.PartsFailed, PartsRefused: s.PartsRefused, Programs: s.Programs, MemoryLimit: s.Attributes.MemoryLimit,
		MemoryInUse: s.Memory.InUse, MemoryPeak: s.Memory.Peak, MemoryIdle: s.Memory.Idle}
}
