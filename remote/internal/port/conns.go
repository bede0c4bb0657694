package port

import (
	"net"
	"sync"
)

// conns are open connections that may be silent for any time. close closes them while they are being read.
type conns struct {
	limit  int
	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

func newConns(limit int) *conns { return &conns{limit: limit, open: map[net.Conn]struct{}{}} }

// add adds a connection. After close, it closes the connection and returns false. Beyond the limit, it closes an arbitrary other
// connection. That is rarely an honest client's, because those stay here only for a moment.
func (s *conns) add(c net.Conn) bool {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		if len(s.open) >= s.limit {
			for other := range s.open {
				delete(s.open, other)
				_ = other.Close() // its reader gets the error
				break
			}
		}
		s.open[c] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		_ = c.Close() // unused so far: the error does not matter
	}
	return !closed
}

// forget removes a connection. It returns false if the connection was closed here before.
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
		_ = c.Close() // its reader gets the error
	}
}
