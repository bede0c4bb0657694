package link

import "sync"

// Bounds, in bytes, of the tensors that wait to be sent. If nothing waits for a peer, a tensor for it
// always has room. Thus a tensor larger than the bounds is sent alone, and a slow peer does not block
// the others indefinitely.
const (
	maxQueued    = 256 << 20 // to one peer
	maxQueuedAll = 1 << 30   // to all peers of the task
)

// budget accounts for the tensors that wait for all peers of a task.
type budget struct {
	mu     sync.Mutex
	used   int64
	askers map[*share]struct{} // shares with callers that wait for room
}

// share is one peer's part of the budget.
type share struct {
	budget *budget
	used   int64
	gone   bool // the peer is down: there is always room, and Push returns the error
	asks   []ask
}

// ask is a caller that waits for room.
type ask struct {
	n     int64
	ready func()
}

func (b *budget) queued() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// queued returns the bytes that wait for the peer.
func (s *share) queued() int64 {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.used
}

// room reports whether n more bytes may wait. If not, ready is called once, when they may.
func (s *share) room(n int64, ready func()) bool {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.gone || len(s.asks) == 0 && s.fits(n, 0, 0) {
		return true
	}
	s.asks = append(s.asks, ask{n, ready})
	if b.askers == nil {
		b.askers = map[*share]struct{}{}
	}
	b.askers[s] = struct{}{}
	return false
}

// fits reports whether n more bytes may wait, beyond the bytes promised to other callers of the peer and of
// the task. budget.mu is held.
func (s *share) fits(n, promised, promisedAll int64) bool {
	used := s.used + promised
	return used == 0 || used+n <= maxQueued && s.budget.used+promisedAll+n <= maxQueuedAll
}

// reserve adds n bytes that wait.
func (s *share) reserve(n int64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.used += n
	s.budget.used += n
}

// release subtracts n bytes that no longer wait, and calls the callers that have room now.
func (s *share) release(n int64) {
	b := s.budget
	b.mu.Lock()
	s.used -= n
	b.used -= n
	var calls []func()
	promised := int64(0)
	s.wake(&calls, &promised)
	for other := range b.askers {
		if other != s {
			other.wake(&calls, &promised)
		}
	}
	b.mu.Unlock()
	for _, ready := range calls {
		ready()
	}
}

// wake moves the callers that have room, in the order in which they asked, from asks to calls. budget.mu is held.
func (s *share) wake(calls *[]func(), promisedAll *int64) {
	promised := int64(0)
	for len(s.asks) > 0 && s.fits(s.asks[0].n, promised, *promisedAll) {
		promised += s.asks[0].n
		*promisedAll += s.asks[0].n
		*calls = append(*calls, s.asks[0].ready)
		s.asks = s.asks[1:]
	}
	if len(s.asks) == 0 {
		s.asks = nil
		delete(s.budget.askers, s)
	}
}

// end calls all waiting callers, because the peer is down.
func (s *share) end() {
	b := s.budget
	b.mu.Lock()
	asks := s.asks
	s.asks, s.gone = nil, true
	delete(b.askers, s)
	b.mu.Unlock()
	for _, a := range asks {
		a.ready()
	}
}
