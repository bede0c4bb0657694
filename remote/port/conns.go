package port

import (
	"context"
	"net"
	"sync"
)

// conns are open connections. Some of their owners would wait without a bound, or for longer
// than a stop may take, for a peer that says nothing: the remoting's actors for those that they
// dialled, gRPC's server for those that it accepted. So Stop closes the connections under them.
type conns struct {
	gauge *gauge
	mu    sync.Mutex
	open  map[*conn]struct{}
}

func newConns() *conns { return &conns{gauge: newGauge(), open: map[*conn]struct{}{}} }

// add counts a connection until it is closed; false, and a closed connection, after close.
func (s *conns) add(raw net.Conn) (*conn, bool) {
	c := &conn{Conn: raw, set: s}
	if !s.gauge.enter() {
		// Nobody has used it yet: its error would tell nothing.
		_ = raw.Close()
		return nil, false
	}
	s.mu.Lock()
	s.open[c] = struct{}{}
	s.mu.Unlock()
	return c, true
}

// dial opens a counted connection.
func (s *conns) dial(ctx context.Context, address string) (net.Conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if c, ok := s.add(raw); ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// close refuses new connections and ends the open ones; the channel is closed when all are gone.
func (s *conns) close() <-chan struct{} {
	gone := s.gauge.close()
	s.mu.Lock()
	var open []*conn
	for c := range s.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // its owner closes it too, and then meets the error
	}
	return gone
}

// conn is a counted connection.
type conn struct {
	net.Conn
	set  *conns
	once sync.Once
}

// Close closes the connection, and stops counting it.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.forget()
	return err
}

func (c *conn) forget() {
	c.once.Do(func() {
		c.set.mu.Lock()
		delete(c.set.open, c)
		c.set.mu.Unlock()
		c.set.gauge.leave()
	})
}
