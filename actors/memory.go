package actors

import (
	"cmp"
	"sync"

	"github.com/troupe-run/troupe/graph/tensor"
)

// clientMemory holds the memory quotas of clients on a task. A client's quota stays as long as any of its memory is in use, such as a
// variable, so closing sessions does not make room for more.
type clientMemory struct {
	mu  sync.Mutex // guards all: sessions open and end on the goroutines of their calls
	all map[string]*clientQuota
}

type clientQuota struct {
	*tensor.Quota
	sessions int
}

// clientPart returns the part of the process's memory that a client may use, unless the operator sets another limit: three quarters.
func clientPart(limit int64) int64 { return limit / 4 * 3 }

// open returns the quota of a client that opens a session.
func (m *clientMemory) open(client string, limit int64) *tensor.Quota {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, c := range m.all {
		if c.sessions == 0 && c.InUse() == 0 {
			delete(m.all, name)
		}
	}
	c := m.all[client]
	if c == nil {
		c = &clientQuota{Quota: tensor.NewQuota(limit, "client "+client, "--client-memory, WithClientMemory or client_bytes in a policy raises it")}
		if m.all == nil {
			m.all = map[string]*clientQuota{}
		}
		m.all[client] = c
	}
	c.sessions++
	return c.Quota
}

// close records the end of a client's session.
func (m *clientMemory) close(client string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[client].sessions--
}

// least returns the smaller of two limits; 0 means no limit.
func least(a, b int64) int64 {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// limitMemory bounds the memory of a session on this task, by its client's quota and its own.
func (s *workerSession) limitMemory(r Rights) {
	t := s.task
	own := tensor.NewQuota(least(t.SessionMemory, r.SessionBytes), "session", "--session-memory, WithSessionMemory or session_bytes in a policy raises it")
	own.Join(tensor.Process)
	quotas := []*tensor.Quota{own}
	if r.Client != "" {
		limit := cmp.Or(least(t.ClientMemory, r.ClientBytes), clientPart(tensor.Process.Limit()))
		quotas = []*tensor.Quota{t.clients.open(r.Client, limit), own}
	}
	s.client, s.memory, s.stepMemory = r.Client, own, least(t.StepMemory, r.StepBytes)
	for i, d := range s.devices {
		for _, q := range quotas {
			d = d.Within(q)
		}
		s.devices[i] = d
	}
}

// endMemory undoes limitMemory. Memory that is still in use continues to count.
func (s *workerSession) endMemory() {
	s.memory.Leave()
	if s.client != "" {
		s.task.clients.close(s.client)
	}
}
