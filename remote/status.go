package remote

import (
	"slices"

	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/internal/membership"
	"github.com/troupe-run/troupe/remote/spec"
)

// TaskStatus is what this task knows of a task of the cluster.
type TaskStatus = client.TaskStatus

// specForOthers returns the cluster spec for others. Once another task has been met, this task's address in it is the one by which others reach it.
func (n *Node) specForOthers() *spec.Spec {
	if l := n.linked.Load(); l != nil && l.Called() != n.self.Address {
		if s, err := n.spec.WithAddress(n.self.Job, n.self.Index, l.Called()); err == nil {
			return s
		}
	}
	return n.spec
}

// Status returns what this task knows of all declared tasks, in order, without asking them: at the start of a cluster, tasks may be up that
// it has not learned of yet.
func (n *Node) Status() []TaskStatus {
	var out []TaskStatus
	for _, t := range n.spec.Tasks() {
		if s, ok := n.statusOf(t.Name()); ok {
			out = append(out, s)
		}
	}
	return out
}

// statusOf returns what this task knows of a declared task; false while the node starts.
func (n *Node) statusOf(task string) (TaskStatus, bool) {
	gossiped, linked, ok := n.sightings(task)
	if !ok {
		return TaskStatus{}, false
	}
	s := merge(gossiped, linked).TaskStatus
	if known := n.task.Cluster.Known(task); known != nil && task != n.self.Name() {
		s.Devices = slices.Clone(known)
	}
	return s, true
}

// seenByGossip reports whether gossip has met a process of a task.
func (n *Node) seenByGossip(task string) bool {
	gossip := n.gossiping.Load()
	if gossip == nil {
		return false
	}
	m, ok := gossip.Member(task)
	return ok && m.Health != membership.NeverSeen
}

// sighting is what is known of a task. leaving is set while the process is up that has announced its end.
type sighting struct {
	TaskStatus
	leaving bool
}

// gossipStatus returns what gossip knows of a task.
func (n *Node) gossipStatus(m membership.Member) TaskStatus {
	s := TaskStatus{Task: m.Task.Name(), Address: m.Task.Address, State: m.Health.String(), Since: m.Since, Reason: m.Reason,
		Boot: m.Boot, Devices: slices.Clone(m.Devices)}
	if m.Task == n.self {
		s.Address = n.links.Called()
		s.Devices = n.task.Describe()
	}
	return s
}
