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
	"github.com/troupe-run/troupe/remote/internal/wire"
)

var _ wire.OperatorServer = (*Node)(nil)

// mayList refuses callers that may not see what the server has.
func (n *Node) mayList(ctx context.Context) error { return n.may(ctx, access.ListState) }

// mayUseActors refuses processes outside the cluster that may not exchange messages with the program's actors.
func (n *Node) mayUseActors(ctx context.Context) error { return n.may(ctx, access.UseActors) }

func (n *Node) may(ctx context.Context, a access.Action) error {
	caller, err := gateway.CallerOf(ctx, n.config.Guard)
	if err == nil {
		err = caller.May(a)
	}
	return err
}

// ClusterStatus is Status as a message, for who looks after the cluster from elsewhere.
func (n *Node) ClusterStatus() *wire.ClusterStatus {
	out := &wire.ClusterStatus{Task: n.self.Name(), Spec: n.spec.String(), Exposed: n.exposed()}
	for _, s := range n.Status() {
		t := &wire.TaskStatus{Task: s.Task, Address: s.Address, State: s.State, Reason: s.Reason, Boot: s.Boot}
		if !s.Since.IsZero() {
			t.Since = s.Since.UnixNano()
		}
		for _, d := range s.Devices {
			t.Devices = append(t.Devices, &wire.Device{Name: d.Name, Type: d.Type, MemoryLimit: d.MemoryLimit, Incarnation: d.Incarnation,
				Description: d.Description})
		}
		out.Tasks = append(out.Tasks, t)
	}
	return out
}

// CancelStep cancels a step, wherever its master is: all tasks that are up are asked. A caller who may not cancel the steps of others may
// cancel those of its own sessions. It waits for 2 s at most.
func (n *Node) CancelStep(ctx context.Context, q *wire.CancelStepRequest) (*wire.CancelStepAnswer, error) {
	caller, err := gateway.CallerOf(ctx, n.config.Guard)
	if err != nil {
		return nil, err
	}
	return n.cancelAs(ctx, &caller, caller.NameOf(ctx), q.GetStep())
}

// Cancel is CancelStep for a caller that does not come over the task's port. It gives the name of the step's session and the task that is
// its master.
func (n *Node) Cancel(ctx context.Context, by access.Peer, step uint64) (session, master string, err error) {
	caller, err := gateway.CallerAt(by, n.config.Guard)
	if err != nil {
		return "", "", err
	}
	a, err := n.cancelAs(ctx, &caller, caller.NameAt(by.Address), step)
	return a.GetSession(), a.GetMaster(), err
}

// Reset closes all sessions of the task and empties containers on all tasks of its cluster, without names the default ones, for a caller
// that does not come over the task's port. Errors: PERMISSION_DENIED, UNAUTHENTICATED, and those of tasks that cannot be reset.
func (n *Node) Reset(ctx context.Context, by access.Peer, containers []string) error {
	caller, err := gateway.CallerAt(by, n.config.Guard)
	if err != nil {
		return err
	}
	return n.gateway.Reset(ctx, &caller, caller.NameAt(by.Address), containers)
}

// MaxDrain bounds how long a task that drains may let its steps run.
const MaxDrain = time.Hour

// DrainTask has a task of the cluster end. It waits for the task's answer for 2 s at most, and not for its end.
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

// drainAs has a task end for a caller, whom by names to people.
func (n *Node) drainAs(ctx context.Context, caller *gateway.Caller, by, task string, within time.Duration) error {
	if err := caller.May(access.DrainTasks); err != nil {
		return err
	}
	if within < 0 || within > MaxDrain {
		return status.InvalidArgumentf("A task drains for at most %v, not %v", MaxDrain, within)
	}
	if _, known := n.spec.ByName(task); !known {
		return status.Errorf(status.NotFound, "the cluster has no task %s: it is %v", view.Line(task), n.spec)
	}
	asked, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := n.task.Drain(asked, task, within, by); err != nil {
		return err
	}
	caller.Drained(task)
	return nil
}

// cancelAs cancels a step for a caller, whom by names to the step's client.
func (n *Node) cancelAs(ctx context.Context, caller *gateway.Caller, by string, step uint64) (*wire.CancelStepAnswer, error) {
	owner, others, err := caller.MayCancel()
	if err != nil {
		return nil, err
	}
	detail := fmt.Sprintf("step %d", step)
	asked, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	a, known, failures := n.cancelStep(asked, step, by, owner)
	switch {
	case a != nil:
		n.log.Info("a step was cancelled by an operator", "step", step, "session", a.Session, "task", a.Master, "by", by)
		caller.Cancelled(fmt.Sprintf("%s of session %s on %s", detail, a.Session, a.Master), nil)
		return a, nil
	case known:
		caller.Cancelled(detail, others)
		return nil, others
	case len(failures) > 0:
		return nil, status.Errorf(status.Unavailable, "step %d runs on no task that answers, and these do not: %s", step, strings.Join(failures, "; "))
	}
	return nil, status.Errorf(status.NotFound, "step %d runs on no task: it has ended, or never began", step)
}

// cancelStep asks all tasks to cancel a step. The answer is nil if none has: the step may be known and somebody else's, or its master may be
// among those that do not answer.
func (n *Node) cancelStep(ctx context.Context, step uint64, by, owner string) (a *wire.CancelStepAnswer, known bool, failures []string) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	ask := func(name string, of *actors.Task) {
		asked.Go(contain.Func(n.log, "The end of a step on "+name, func() {
			session, knows, cancelled, err := of.CancelStep(ctx, name, step, by, owner)
			mu.Lock()
			defer mu.Unlock()
			switch known = known || knows; {
			case err != nil:
				failures = append(failures, err.Error())
			case cancelled:
				a = &wire.CancelStepAnswer{Session: session, Master: name}
			}
		}, nil))
	}
	for _, guest := range n.declare.Tasks() {
		ask(guest.Name(), guest)
	}
	for _, s := range n.Status() {
		if s.State == "up" {
			ask(s.Task, n.task)
		}
	}
	asked.Wait()
	slices.Sort(failures)
	return a, known, failures
}

// TaskActors lists the task's actors, the runtime's and the program's, for who looks after it from elsewhere.
func (n *Node) TaskActors() *wire.TaskActors {
	out := &wire.TaskActors{Task: n.self.Name()}
	list := append(roles.List(n.port.System()), n.cast.List()...)
	slices.SortFunc(list, func(a, b roles.Status) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	for _, a := range list {
		s := &wire.ActorStatus{Name: publicActor(a.Name), Kind: a.Kind, State: a.State, Handled: a.Handled, Waiting: int64(a.Waiting),
			Panics: a.Panics, Since: a.Since.UnixNano()}
		if a.Kind == devices.ExecutorKind {
			s.Device = deviceState(n.task.DeviceState(a.Name))
		}
		out.Actors = append(out.Actors, s)
	}
	return out
}

// deviceState is an executor's state as a message for the operator; nil of one that has stopped.
func deviceState(s *devices.State) *wire.DeviceState {
	if s == nil {
		return nil
	}
	return &wire.DeviceState{Lost: s.Lost, Losses: s.Losses, Incarnation: s.Attributes.Incarnation, PartsRunning: s.PartsRunning, PartsDone: s.PartsDone,
		PartsFailed: s.PartsFailed, PartsRefused: s.PartsRefused, Programs: s.Programs, MemoryLimit: s.Attributes.MemoryLimit,
		MemoryInUse: s.Memory.InUse, MemoryPeak: s.Memory.Peak, MemoryIdle: s.Memory.Idle}
}
