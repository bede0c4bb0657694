package actors

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// Tensors may come before the message that starts their step, since large ones travel on a stream
// of their own. They are parked: for parkTime, and parkBytes of them in all, with arrivalBytes for
// the record of each. A step whose tensors could not be kept is refused when it comes. What comes
// for a step that has ended is dropped; the last recentSteps that ended are remembered for that.
const (
	parkTime     = 10 * time.Second
	parkBytes    = 256 << 20
	arrivalBytes = 256
	recentSteps  = 1 << 13
)

// stepTable finds the steps of a task by their ids, for what other tasks send to them.
//
// It is a table with a lock, and not state of the worker's actor: steps enter and leave it on the goroutines that run
// them, and large tensors come on the goroutines of their streams, which need nothing from the actor but the step. A
// dropped tensor costs 30 to 90 ns here; through a mailbox 170 to 330 ns and an allocation, behind the messages of all masters.
type stepTable struct {
	mu     sync.Mutex
	live   map[uint64]*taskStep
	parked map[uint64]*parking
	bytes  int              // of parked tensors
	ended  map[uint64]error // with why it cannot begin, nil for a step that was here
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
	s.live, s.parked, s.ended = map[uint64]*taskStep{}, map[uint64]*parking{}, map[uint64]error{}
	s.idle = make(chan struct{})
}

// begin enters a step and gives it what was parked for it. It refuses a step that is there already
// or has ended, and any while the task stops.
func (s *stepTable) begin(st *taskStep) error {
	id := uint64(st.ID)
	s.mu.Lock()
	refused, over := s.ended[id]
	switch {
	case refused != nil:
		s.mu.Unlock()
		return refused
	case s.closed:
		s.mu.Unlock()
		return status.Errorf(status.Unavailable, "The server of %s is shutting down", st.task.name)
	case s.live[id] != nil || over:
		s.mu.Unlock()
		return status.Errorf(status.Aborted, "Step %d was started twice on %s", id, st.task.name)
	}
	if len(s.live) >= maxSteps {
		s.mu.Unlock()
		err := tooManySteps(st.task.name, maxSteps)
		s.refuse(id, err) // with what was parked for it
		return err
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
		s.bytes -= a.size()
	}
}

// size is what an arrival takes of the room for parked tensors.
func (a arrival) size() int {
	if a.t == nil {
		return arrivalBytes
	}
	return arrivalBytes + a.t.ByteSize()
}

// end removes a step.
func (s *stepTable) end(st *taskStep) {
	id := uint64(st.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
	s.remember(id, nil)
	if s.closed && len(s.live) == 0 {
		s.closeIdle()
	}
}

// remember notes that a step is over, or cannot begin; the caller holds the lock.
func (s *stepTable) remember(id uint64, refused error) {
	delete(s.ended, s.ring[s.next])
	s.ring[s.next] = id
	s.next = (s.next + 1) % recentSteps
	s.ended[id] = refused
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
	a := arrival{key, t, dead}
	_, over := s.ended[id]
	if over || s.closed {
		s.mu.Unlock()
		a.release()
		return
	}
	if s.bytes+a.size() > parkBytes {
		s.mu.Unlock()
		a.release()
		s.refuse(id, status.Errorf(status.ResourceExhausted,
			"Tensors that came before their steps take more than %d bytes: those of step %d were dropped", parkBytes, id))
		return
	}
	p := s.parked[id]
	if p == nil {
		p = &parking{}
		p.expiry = time.AfterFunc(parkTime, contain.Func(nil, "The end of parked tensors", func() { s.expire(id, p) }, nil))
		s.parked[id] = p
	}
	p.arrived = append(p.arrived, a)
	s.bytes += a.size()
	s.mu.Unlock()
}

func (a arrival) release() {
	if a.t != nil {
		a.t.Release()
	}
}

// expire drops what was parked for a step that did not come in time.
func (s *stepTable) expire(id uint64, p *parking) {
	s.mu.Lock()
	if s.parked[id] != p {
		s.mu.Unlock()
		return
	}
	s.unpark(id)
	s.remember(id, status.Errorf(status.Aborted, "The tensors for step %d came more than %v before it and were dropped", id, parkTime))
	s.mu.Unlock()
	p.release()
}

// refuse fails a step that cannot have one of its tensors: now, or when it comes.
func (s *stepTable) refuse(id uint64, err error) {
	s.mu.Lock()
	st, p := s.live[id], s.parked[id]
	if _, over := s.ended[id]; st == nil && !over {
		s.unpark(id)
		s.remember(id, err)
	}
	s.mu.Unlock()
	if st != nil {
		st.fail(err)
	} else if p != nil {
		p.release()
	}
}

func (p *parking) release() {
	for _, a := range p.arrived {
		a.release()
	}
}

// peerDown fails the steps that exchange tensors with the lost task, which may have been under way: those of the task's
// own sessions that are named, and all of other masters'.
func (s *stepTable) peerDown(own []*taskStep, task string, err error) {
	for _, st := range own {
		if st.meets(task) {
			st.fail(err)
		}
	}
	for _, st := range s.all() {
		if st.master != task && st.master != st.task.name && st.meets(task) {
			st.fail(err)
		}
	}
}

// own are the parts of the steps of the task's own sessions.
func (s *stepTable) own() []*taskStep {
	return slices.DeleteFunc(s.all(), func(st *taskStep) bool { return st.master != st.task.name })
}

// masterDown fails the steps that the lost task began. Their master may live, and hear of it over another connection before
// it misses the one that broke: so the error names this end, too.
func (s *stepTable) masterDown(task string, err error) {
	for _, st := range s.all() {
		if st.master == task {
			e := status.From(err)
			st.fail(status.Derive(status.Errorf(e.Code, "%s (%s) lost the connection to the step's master: %s", st.task.name, st.task.System.Address(), e.Message)))
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
	parked := maps.Clone(s.parked)
	for id := range parked {
		s.unpark(id)
	}
	s.mu.Unlock()
	for _, p := range parked {
		p.release()
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
