package port

import (
	"net"
	"sync"
)

// conns are open connections that say nothing for as long as they like: Stop closes them under their readers.
type conns struct {
	limit  int
	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

func newConns(limit int) *conns { return &conns{limit: limit, open: map[net.Conn]struct{}{}} }

// add notes a connection; false, and a closed connection, after close. Beyond the limit any other one is closed for it:
// those of honest clients are seldom among them, since they stay for a moment only.
func (s *conns) add(c net.Conn) bool {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		if len(s.open) >= s.limit {
			for other := range s.open {
				delete(s.open, other)
				_ = other.Close() // its reader meets the error
				break
			}
		}
		s.open[c] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		_ = c.Close() // nobody has used it yet: its error would tell nothing
	}
	return !closed
}

// forget leaves a connection to its owner; false where close was first.
func (s *conns) forget(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.open[c]
	delete(s.open, c)
	return there
}

// close refuses new connections and ends the open ones.
func (s *conns) close() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		_ = c.Close() // its reader meets the error
	}
}
