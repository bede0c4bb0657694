package http2

import (
	"errors"
	"slices"
	"time"
)

const (
	// maxConnections bounds the connections of a server, unless the system's limit of open files is lower. An idle one
	// takes 25 KiB.
	maxConnections = 1 << 16
	// idleBatch: when there are too many connections, 1/idleBatch of them is closed at once.
	idleBatch = 64
	// headerTimeout is how long a header list that comes in parts may take.
	headerTimeout = 10 * time.Second
)

var (
	errTooManyConnections = errors.New("http2: there are too many connections, and this one was idle")
	errSlow               = errors.New("http2: a header list did not come in time")
	errNotRead            = errors.New("http2: the client does not read its answers, and others need the memory")
)

// CloseIdle closes idle connections, for example when the process cannot open more files. It returns their number.
func (s *Server) CloseIdle() int {
	s.mu.Lock()
	idle := s.idleLocked()
	s.mu.Unlock()
	s.closeAll(idle, errTooManyConnections)
	return len(idle)
}

// closeAll closes connections that idleLocked has removed.
func (s *Server) closeAll(conns []*serverConn, why error) {
	for _, c := range conns {
		c.shut(why)
		s.closed(c)
	}
}

// idleLocked removes and returns some of the connections without calls, of the client with the most connections or, if it has
// none, of any client: first those that never had a call, then those that have been quiet longest. The caller closes them.
func (s *Server) idleLocked() []*serverConn {
	var most *client
	for _, c := range s.clients {
		if most == nil || c.conns > most.conns {
			most = c
		}
	}
	var idle []*serverConn
	for _, of := range []*client{most, nil} {
		for c := range s.conns {
			if (of == nil || c.client == of) && c.idle() {
				idle = append(idle, c)
			}
		}
		if len(idle) > 0 {
			break
		}
	}
	slices.SortFunc(idle, func(a, b *serverConn) int {
		if x, y := a.called.Load(), b.called.Load(); x != y {
			if y {
				return -1
			}
			return 1
		}
		return int(a.in.at.Load() - b.in.at.Load())
	})
	idle = idle[:min(len(idle), 1+len(s.conns)/idleBatch)]
	for _, c := range idle {
		s.dropLocked(c)
	}
	return idle
}

// idle reports whether a connection has no call. A connection whose mu is held counts as busy.
func (c *serverConn) idle() bool {
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	return !c.exclusive && !c.busy && len(c.streams) == 0 && c.running == 0
}

// unread adds n to the bytes of answers that wait for the client to read. n is negative for bytes that no longer wait. mu is held.
func (c *serverConn) unread(n int64) {
	c.unsent += n
	c.server.unsent.Add(n)
	if n < 0 {
		c.taken -= n
	}
}

// takesAnswer reports whether there is memory for one more answer. If there is not, it closes the connection with the most
// unread bytes, of those whose clients have stopped reading, and returns true if there is one. mu is held.
func (c *serverConn) takesAnswer(size int64) bool {
	s := c.server
	if sum := s.unsent.Load(); sum == 0 || sum+size <= s.maxUnsentAll || size <= smallPiece {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var most *serverConn
	for other := range s.conns {
		if n := other.owes.Load(); other != c && n > 0 && (most == nil || n > most.owes.Load()) {
			most = other
		}
	}
	if most == nil {
		return false
	}
	most.owes.Store(0)
	s.work.Go(func() { most.shut(errNotRead) }) // mu of two connections must not be held at once
	return true
}
