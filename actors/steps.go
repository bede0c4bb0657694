package actors

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Tensors may come before the message that starts their step, since large ones travel on a stream
// of their own. They are parked: for parkTime, and parkBytes of them in all. What comes for a step
// that has ended is dropped; the last recentSteps that ended are remembered for that.
const (
	parkTime    = 10 * time.Second
	parkBytes   = 256 << 20
	recentSteps = 1 << 13
)

// stepTable finds the steps of a task by their ids, for what other tasks send to them.
type stepTable struct {
	mu     sync.Mutex
	live   map[uint64]*taskStep
	parked map[uint64]*parking
	bytes  int // of parked tensors
	ended  map[uint64]struct{}
	ring   [recentSteps]uint64
	next   int
	closed bool
	idle   chan struct{} // closed when closed and the last step is gone
}

type parking struct {
	arrived []arrival
	expiry  *time.Timer
}

type arrival struct {
	key  kernels.Key
	t    *tensor.Tensor
	dead bool
}

func (s *stepTable) init() {
	s.live, s.parked, s.ended = map[uint64]*taskStep{}, map[uint64]*parking{}, map[uint64]struct{}{}
	s.idle = make(chan struct{})
}

// begin enters a step and gives it what was parked for it. It refuses a step that is there already
// or has ended, and any while the task stops.
func (s *stepTable) begin(st *taskStep) error {
	id := uint64(st.ID)
	s.mu.Lock()
	_, over := s.ended[id]
	switch {
	case s.closed:
		s.mu.Unlock()
		return status.Errorf(status.Unavailable, "The server of %s is shutting down", st.task.name)
	case s.live[id] != nil || over:
		s.mu.Unlock()
		return status.Errorf(status.Aborted, "Step %d was started twice on %s", id, st.task.name)
	}
	s.live[id] = st
	p := s.parked[id]
	s.unpark(id)
	s.mu.Unlock()
	if p != nil {
		for _, a := range p.arrived {
			st.deposit(a.key, a.t, a.dead)
		}
	}
	return nil
}

// unpark takes a parking off the table; the caller holds the lock.
func (s *stepTable) unpark(id uint64) {
	p := s.parked[id]
	if p == nil {
		return
	}
	p.expiry.Stop()
	delete(s.parked, id)
	for _, a := range p.arrived {
		if a.t != nil {
			s.bytes -= a.t.ByteSize()
		}
	}
}

// end removes a step.
func (s *stepTable) end(st *taskStep) {
	id := uint64(st.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
	delete(s.ended, s.ring[s.next])
	s.ring[s.next] = id
	s.next = (s.next + 1) % recentSteps
	s.ended[id] = struct{}{}
	if s.closed && len(s.live) == 0 {
		s.closeIdle()
	}
}

func (s *stepTable) closeIdle() {
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// find gives a running step; nil when there is none.
func (s *stepTable) find(id uint64) *taskStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

// deposit hands a tensor that arrived to its step, parks it, or drops it.
func (s *stepTable) deposit(id uint64, key kernels.Key, t *tensor.Tensor, dead bool) {
	s.mu.Lock()
	if st := s.live[id]; st != nil {
		s.mu.Unlock()
		st.deposit(key, t, dead)
		return
	}
	size := 0
	if t != nil {
		size = t.ByteSize()
	}
	_, over := s.ended[id]
	if over || s.closed || s.bytes+size > parkBytes {
		s.mu.Unlock()
		if t != nil {
			t.Release()
		}
		return
	}
	p := s.parked[id]
	if p == nil {
		p = &parking{expiry: time.AfterFunc(parkTime, func() { s.expire(id) })}
		s.parked[id] = p
	}
	p.arrived = append(p.arrived, arrival{key, t, dead})
	s.bytes += size
	s.mu.Unlock()
}

// expire drops what was parked for a step that did not come.
func (s *stepTable) expire(id uint64) {
	s.mu.Lock()
	p := s.parked[id]
	s.unpark(id)
	s.mu.Unlock()
	if p != nil {
		for _, a := range p.arrived {
			if a.t != nil {
				a.t.Release()
			}
		}
	}
}

// peerDown fails the steps whose master is the lost task. Steps whose own master is here learn of
// it from their session.
func (s *stepTable) peerDown(task string, err error) {
	for _, st := range s.all() {
		if st.master == task {
			st.fail(status.Derive(err))
		}
	}
}

func (s *stepTable) all() []*taskStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*taskStep, 0, len(s.live))
	for _, st := range s.live {
		out = append(out, st)
	}
	return out
}

// drain refuses new steps, waits for the running ones until ctx ends, and cancels what is left.
func (s *stepTable) drain(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	if len(s.live) == 0 {
		s.closeIdle()
	}
	ids := make([]uint64, 0, len(s.parked))
	for id := range s.parked {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.expire(id)
	}
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	for _, st := range s.all() {
		st.fail(status.Errorf(status.Unavailable, "The server of %s is shutting down", st.task.name))
	}
	select {
	case <-s.idle:
		return nil
	case <-time.After(2 * time.Second):
		return status.Errorf(status.DeadlineExceeded, "%d steps did not end", len(s.all()))
	}
}
