package http2

import (
	"errors"
	"slices"
	"time"
)

const (
	// maxConnections bounds the connections of a server whose files the system does not limit to fewer. An idle one
	// takes 25 KiB.
	maxConnections = 1 << 16
	// crowdBatch is which part of the connections is closed at once where there are too many.
	crowdBatch = 64
	// headerTimeout is how long a header list may take that comes in parts.
	headerTimeout = 10 * time.Second
)

var (
	errCrowded = errors.New("http2: there are too many connections, and this one was idle")
	errSlow    = errors.New("http2: a header list did not come in time")
	errNotRead = errors.New("http2: the client does not read its answers, and others need the memory")
)

// CloseIdle closes connections that nobody uses, as for a process that can open no more files. It gives how many.
func (s *Server) CloseIdle() int {
	s.mu.Lock()
	idle := s.idleLocked()
	s.mu.Unlock()
	s.closeAll(idle, errCrowded)
	return len(idle)
}

// closeAll closes connections that were dropped.
func (s *Server) closeAll(conns []*serverConn, why error) {
	for _, c := range conns {
		c.shut(why)
		s.closed(c)
	}
}

// idleLocked drops a part of the connections without calls, of the client that has most of all, and else of any: first
// those that never had a call, then those that have been quiet for the longest time. The caller closes them.
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
	idle = idle[:min(len(idle), 1+len(s.conns)/crowdBatch)]
	for _, c := range idle {
		s.dropLocked(c)
	}
	return idle
}

// idle tells whether a connection has no call. One that somebody is at now has one.
func (c *serverConn) idle() bool {
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	return !c.exclusive && !c.busy && len(c.streams) == 0 && c.running == 0
}

// unread counts bytes of answers that wait for the client to read, those that left as a negative number. mu is held.
func (c *serverConn) unread(n int64) {
	c.unsent += n
	c.server.unsent.Add(n)
	if n < 0 {
		c.taken -= n
	}
}

// takesAnswer tells whether the answers of all clients leave memory for one more. Where they do not, a client that
// stopped reading is given up, the one that owes the reading of most. mu is held.
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
