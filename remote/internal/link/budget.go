package link

import "sync"

// The bounds of the tensors that wait to be sent, in bytes. A tensor for a peer to which nothing
// else waits always has room, so that one which is larger than the bounds goes alone, and a peer
// that is slow holds nobody up for ever.
const (
	maxQueued    = 256 << 20 // to one peer
	maxQueuedAll = 1 << 30   // to all peers of the task
)

// budget is what all peers of a task may have waiting.
type budget struct {
	mu     sync.Mutex
	used   int64
	askers map[*share]struct{} // shares with somebody who waits for room
}

// share is one peer's part of the budget.
type share struct {
	budget *budget
	used   int64
	gone   bool // the peer is down: who asks is to learn that from Push
	asks   []ask
}

// ask waits for room.
type ask struct {
	n     int64
	ready func()
}

func (b *budget) queued() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// queued is what waits for the peer.
func (s *share) queued() int64 {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.used
}

// room tells whether n bytes more may wait; where they may not, ready is called once when they may.
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

// fits tells whether n bytes more may wait, beyond what was promised to others of the peer and of
// the task. budget.mu is held.
func (s *share) fits(n, promised, promisedAll int64) bool {
	used := s.used + promised
	return used == 0 || used+n <= maxQueued && s.budget.used+promisedAll+n <= maxQueuedAll
}

// take counts n bytes that wait from now on.
func (s *share) take(n int64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.used += n
	s.budget.used += n
}

// give counts n bytes that wait no longer, and calls whoever has room now.
func (s *share) give(n int64) {
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

// wake takes off who has room, in the order in which they asked. budget.mu is held.
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

// end calls everybody: the peer is down.
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
