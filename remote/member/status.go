package member

import (
	"context"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
	"github.com/troupe-run/troupe/remote/spec"
)

// TaskStatus is what this task knows of a task of the cluster.
type TaskStatus = client.TaskStatus

// SpecForOthers returns the cluster spec for others. Once another task has been met, this task's address in it is the one by which others reach it.
func (m *Member) SpecForOthers() *spec.Spec {
	if l := m.linked.Load(); l != nil && l.Called() != m.self.Address {
		if s, err := m.spec.WithAddress(m.self.Job, m.self.Index, l.Called()); err == nil {
			return s
		}
	}
	return m.spec
}

// Status returns what this task knows of all declared tasks, in order, without asking them: at the start of a cluster, tasks may be up that
// it has not learned of yet.
func (m *Member) Status() []TaskStatus {
	var out []TaskStatus
	for _, t := range m.spec.Tasks() {
		if s, ok := m.StatusOf(t.Name()); ok {
			out = append(out, s)
		}
	}
	return out
}

// StatusOf returns what this task knows of a declared task; false while the member starts and for a task that the cluster does not have.
func (m *Member) StatusOf(task string) (TaskStatus, bool) {
	s, ok := m.State(task)
	if !ok {
		return s, false
	}
	if known := m.Known(task); known != nil && task != m.self.Name() {
		s.Devices = slices.Clone(known)
	}
	return s, true
}

// seenByGossip reports whether gossip has met a process of a task.
func (m *Member) seenByGossip(task string) bool {
	gossip := m.gossiping.Load()
	if gossip == nil {
		return false
	}
	seen, ok := gossip.Member(task)
	return ok && seen.Health != membership.NeverSeen
}

// reached keeps the devices of tasks as of the last time that they were reached.
type reached struct {
	mu      sync.Mutex
	devices map[string][]device.Attributes
}

// Known returns a task's devices as of the last time it was reached, or else as gossip describes them; nil if nothing is known of them, and an empty
// list for a task that was reached and has none. Callers must not modify them.
func (m *Member) Known(task string) []device.Attributes {
	m.reached.mu.Lock()
	known := m.reached.devices[task]
	m.reached.mu.Unlock()
	gossip := m.gossiping.Load()
	if known != nil || gossip == nil { // other tasks may ask before it has begun
		return known
	}
	if seen, ok := gossip.Member(task); ok && len(seen.Devices) > 0 {
		return seen.Devices
	}
	return nil
}

// Reach returns the link to a task. It waits for a task that was never seen, while the cluster comes up.
func (m *Member) Reach(ctx context.Context, task string) (*link.Peer, error) {
	p, err := m.links.Ensure(ctx, task)
	if err != nil {
		return nil, err
	}
	m.reached.mu.Lock()
	defer m.reached.mu.Unlock()
	if m.reached.devices == nil {
		m.reached.devices = map[string][]device.Attributes{}
	}
	m.reached.devices[task] = append([]device.Attributes{}, p.Devices()...) // not nil, if it has none
	return p, nil
}

// State returns what gossip and links know of a task; false while the member starts and for a task that the cluster does not have.
func (m *Member) State(task string) (TaskStatus, bool) {
	gossiped, linked, ok := m.sightings(task)
	if !ok {
		return TaskStatus{}, false
	}
	return merge(gossiped, linked).TaskStatus, true
}

// Find looks for a task that may be up though nothing is known of it yet, within ctx and for a bounded time. UNAVAILABLE says why it is not
// up. NOT_FOUND: the cluster has no such task. mail means that messages to programs' actors will follow.
func (m *Member) Find(ctx context.Context, task string, mail bool) error {
	s, known := m.StatusOf(task)
	if !known {
		return status.Errorf(status.NotFound, "the cluster has no task %q", task)
	}
	if s = m.presence.find(ctx, s, mail); s.State != stateUp {
		return status.Errorf(status.Unavailable, "%s is %s: %s", task, s.State, s.Reason)
	}
	return nil
}

// Locate returns what is known of a task. It first asks the task whether it is up, unless it counts as up, for at most LocateTime, or a few seconds
// more for a task that is far away. The Reason of a task that is
// not up says why it could not be reached.
func (m *Member) Locate(ctx context.Context, s TaskStatus) TaskStatus {
	return m.presence.find(ctx, s, false)
}

// LocateAll calls Locate for all tasks of the cluster at the same time and returns the results in order.
func (m *Member) LocateAll(ctx context.Context) []TaskStatus { return m.presence.findAll(ctx) }

// sighting is what is known of a task. leaving is set while the process is up that has announced its end.
type sighting struct {
	TaskStatus
	leaving bool
}

// gossipStatus returns what gossip knows of a task.
func (m *Member) gossipStatus(seen membership.Member) TaskStatus {
	s := TaskStatus{Task: seen.Task.Name(), Address: seen.Task.Address, State: seen.Health.String(), Since: seen.Since, Reason: seen.Reason,
		Boot: seen.Boot, Devices: slices.Clone(seen.Devices)}
	if seen.Task == m.self {
		s.Address = m.links.Called()
		s.Devices = m.landing.describe()
	}
	return s
}
