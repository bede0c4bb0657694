package remote

import (
	"cmp"
	"context"
	"slices"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/internal/roles"
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

// TaskActors lists the task's actors, the runtime's and the program's, for who looks after it from elsewhere.
func (n *Node) TaskActors() *wire.TaskActors {
	out := &wire.TaskActors{Task: n.self.Name()}
	list := append(roles.List(n.port.System()), n.cast.List()...)
	slices.SortFunc(list, func(a, b roles.Status) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	for _, a := range list {
		s := &wire.ActorStatus{Name: a.Name, Kind: a.Kind, State: a.State, Handled: a.Handled, Waiting: int64(a.Waiting),
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
