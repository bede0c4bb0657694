package remote

import (
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
)

// TaskStatus is what this task knows of one of the cluster's.
type TaskStatus = client.TaskStatus

// devicesOf lists a task's devices; local are those of this one.
func devicesOf(infos []actors.DeviceInfo, local bool) []client.Device {
	var devices []client.Device
	for _, d := range infos {
		devices = append(devices, client.Device{Name: d.Name, Type: d.Type, MemoryLimit: d.MemoryLimit, Incarnation: d.Incarnation,
			Description: d.Description, Local: local})
	}
	return devices
}

// Status tells what this task knows of all declared tasks, in order. A task's link knows best
// while there is one, since it notices a loss at once; gossip knows of all.
func (n *Node) Status() []TaskStatus {
	var out []TaskStatus
	for _, m := range n.gossip.View() {
		s := n.gossipStatus(m)
		if st, err := n.links.State(s.Task); err == nil { // not the own task
			merge(&s, st)
			if known := n.task.Cluster.Known(s.Task); known != nil {
				s.Devices = devicesOf(known, false)
			}
		}
		out = append(out, s)
	}
	return out
}

// gossipStatus is what gossip tells of a task.
func (n *Node) gossipStatus(m membership.Member) TaskStatus {
	s := TaskStatus{Task: m.Task.Name(), Address: m.Task.Address, State: m.Health.String(), Since: m.Since, Reason: m.Reason,
		Boot: m.Boot, Devices: devicesOf(deviceInfos(m.Devices), false)}
	if m.Task == n.self {
		s.Devices = devicesOf(n.task.Describe(), true)
	}
	return s
}

// merge takes over what a link knows better than gossip.
func merge(s *TaskStatus, st link.State) {
	switch {
	case st.Health == link.Up && s.State != "up":
		s.State, s.Since, s.Boot, s.Reason = "up", st.Since, st.Boot, ""
	case st.Health == link.Down && st.Reason != "" && st.Since.After(s.Since) && (s.Boot == st.Boot || s.Boot == 0):
		s.State, s.Since, s.Boot, s.Reason = "down", st.Since, st.Boot, st.Reason
	case st.Health == link.NeverSeen && s.State == membership.NeverSeen.String():
		s.Reason = st.Reason
	}
}
