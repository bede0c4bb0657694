package remote

import (
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

var _ wire.OperatorServer = (*Node)(nil)

// ClusterStatus is Status as a message, for who looks after the cluster from elsewhere.
func (n *Node) ClusterStatus() *wire.ClusterStatus {
	out := &wire.ClusterStatus{Task: n.self.Name(), Spec: n.spec.String()}
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

// TaskActors lists the task's actors for who looks after it from elsewhere.
func (n *Node) TaskActors() *wire.TaskActors {
	out := &wire.TaskActors{Task: n.self.Name()}
	for _, a := range roles.List(n.port.System()) {
		out.Actors = append(out.Actors, &wire.ActorStatus{Name: a.Name, Kind: a.Kind, State: a.State, Handled: a.Handled, Waiting: int64(a.Waiting),
			Panics: a.Panics, Since: a.Since.UnixNano()})
	}
	return out
}
