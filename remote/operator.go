package remote

import (
	"context"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/member"
)

// Reset closes all sessions of the task and empties containers on all tasks of its cluster, the default ones if no names are given, for a
// caller that does not come over the task's port. Errors: PERMISSION_DENIED, UNAUTHENTICATED, and those of tasks that cannot be reset.
func (n *Node) Reset(ctx context.Context, by access.Peer, containers []string) error {
	who, err := gateway.CallerAt(by, n.config.Guard)
	if err != nil {
		return err
	}
	return n.gateway.Reset(ctx, &who, who.NameAt(by.Address), containers)
}

// complete adds to the state of the task what only the node knows.
func (n *Node) complete(q *view.Query, t *view.Task) {
	n.Complete(q, t)
	t.Data = n.data()
}

// masters returns the masters of declared clusters in this process.
func (p *propagation) masters() (all []member.Roles) {
	for _, t := range p.Tasks() {
		all = append(all, t)
	}
	return all
}

// deviceOf returns the state of an executor's device; nil for other actors.
func (n *Node) deviceOf(kind, actor string) *wire.DeviceState {
	if kind != devices.ExecutorKind {
		return nil
	}
	return deviceState(n.task.DeviceState(actor))
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
