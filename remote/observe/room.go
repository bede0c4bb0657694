package observe

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxConnections bounds the endpoint's connections. Beyond it, each new connection closes an idle one: the oldest of the address that has
	// the most.
	maxConnections = 128
	// probeConnections is how many more connections are accepted, only for health checks, while all others are in use. Each gets one answer.
	// Beyond it, the oldest is closed.
	probeConnections = 32
)

// room is a listener that bounds its connections, and never makes one wait.
type room struct {
	net.Listener

	mu    sync.Mutex
	conns map[*roomConn]struct{}
}

func newRoom(l net.Listener) *room {
	return &room{Listener: l, conns: map[*roomConn]struct{}{}}
}

// roomConn is one of a room's connections.
type roomConn struct {
	net.Conn
	room *room
	host string
	// probes means that the connection is only for health checks.
	probes bool

	// Guarded by the room's lock.
	since  time.Time // of its last answer, or its start
	active bool      // a request has begun to arrive
}

// Accept accepts a connection, and makes room for it.
func (r *room) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a := &roomConn{Conn: c, room: r, since: time.Now()}
	if host, _, err := net.SplitHostPort(c.RemoteAddr().String()); err == nil {
		a.host = host
	}
	if old := r.admit(a); old != nil {
		_ = old.Close() // there is nobody to report an error to
	}
	return a, nil
}

// admit counts a connection. The caller must close the connection that it returns, if any.
func (r *room) admit(c *roomConn) (old *roomConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	usual, resting := 0, map[string]int{}
	for o := range r.conns {
		if o.probes {
			continue
		}
		if usual++; !o.active {
			resting[o.host]++
		}
	}
	if usual >= maxConnections {
		old = r.oldest(func(o *roomConn) bool { return !o.probes && !o.active }, resting)
		c.probes = old == nil
	}
	if c.probes && len(r.conns)-usual >= probeConnections {
		old = r.oldest(func(o *roomConn) bool { return o.probes }, nil)
	}
	if old != nil {
		delete(r.conns, old)
	}
	r.conns[c] = struct{}{}
	return old
}

// oldest returns the oldest connection of a kind, among those of the host that has the most.
func (r *room) oldest(of func(*roomConn) bool, most map[string]int) (found *roomConn) {
	for o := range r.conns {
		switch {
		case !of(o):
		case found == nil, most[o.host] > most[found.host], most[o.host] == most[found.host] && o.since.Before(found.since):
			found = o
		}
	}
	return found
}

// Close closes the connection and frees its place.
func (c *roomConn) Close() error {
	c.room.mu.Lock()
	delete(c.room.conns, c)
	c.room.mu.Unlock()
	return c.Conn.Close()
}

// roomConnOf returns the connection of a room behind a server's connection.
func roomConnOf(c net.Conn) *roomConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	a, _ := c.(*roomConn)
	return a
}

// changed is the server's ConnState hook.
func (r *room) changed(c net.Conn, state http.ConnState) {
	if a := roomConnOf(c); a != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		a.active = state == http.StateActive
		a.since = time.Now()
	}
}

type probesKey struct{}

// context is the server's ConnContext hook.
func (r *room) context(ctx context.Context, c net.Conn) context.Context {
	if a := roomConnOf(c); a != nil && a.probes {
		return context.WithValue(ctx, probesKey{}, true)
	}
	return ctx
}

// within answers only health checks on connections that are reserved for them.
func within(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Context().Value(probesKey{}) != nil {
			w.Header().Set("Connection", "close")
			if !probe(q.URL.Path) {
				http.Error(w, "All connections of this endpoint are in use. Try again later.", http.StatusServiceUnavailable)
				return
			}
		}
		h.ServeHTTP(w, q)
	})
}
