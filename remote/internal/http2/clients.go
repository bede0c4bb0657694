package http2

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// client groups the connections that the server attributes to the same client: those with the same certificate, or else
// from the same address.
type client struct {
	key string

	conns int // guarded by Server.mu

	receiving int64 // bytes of its requests; guarded by Server.receiving

	calls atomic.Int64 // bytes of its calls: see takeBytes

	// Guarded by turns.mu.
	waiting []*worker // its connections that wait for a turn
	queued  bool      // among turns.clients
}

// clientLocked returns the client of a new connection, and counts the connection. mu is held.
func (s *Server) clientLocked(p Peer) *client {
	key := ClientOf(p)
	c := s.clients[key]
	if c == nil {
		c = &client{key: key}
		s.clients[key] = c
	}
	c.conns++
	return c
}

// ClientOf returns a key that identifies a client: the fingerprint of the certificate, or else the address.
func ClientOf(p Peer) string {
	if p.TLS != nil && len(p.TLS.VerifiedChains) > 0 {
		key := sha256.Sum256(p.TLS.VerifiedChains[0][0].Raw)
		return hex.EncodeToString(key[:])
	}
	if a, ok := p.Address.(*net.TCPAddr); ok {
		return a.IP.String()
	}
	if p.Address == nil {
		return ""
	}
	return p.Address.String()
}

// Calls that wait, be it for their requests, for an event or for their clients to read, take memory that nothing else counts. All of them together may
// take as much as the requests that are being received, and those of one client half of that. Connections that have many keep a quarter of their client's
// part free for those that have few: they may be programs of their own.
const (
	// openBytes is about what a call takes from its headers on, and runningBytes what it takes more while its handler runs: a goroutine, above all.
	openBytes    = 1 << 10
	runningBytes = 15 << 10
	// fewCalls is the number of calls up to which a connection has few.
	fewCalls = 16
)

// count makes a call one of the connection's, until forgetCall. The error is RESOURCE_EXHAUSTED. mu is held, as for the other four.
func (c *serverConn) count(s *stream) error {
	c.streams[s.id] = s
	return c.takeBytes(openBytes)
}

// forgetCall removes a call that is over from the connection's.
func (c *serverConn) forgetCall(s *stream) {
	if c.streams[s.id] == s {
		delete(c.streams, s.id)
		c.giveBytes(openBytes)
	}
}

// runs counts the handler of a call until ran. If it returns an error, RESOURCE_EXHAUSTED, the handler must not be called.
func (c *serverConn) runs() error {
	c.running++
	return c.takeBytes(runningBytes)
}

// ran records that the handler has returned, or was not called.
func (c *serverConn) ran() {
	c.running--
	c.giveBytes(runningBytes)
}

// takeBytes counts n bytes of calls, even if it returns an error.
func (c *serverConn) takeBytes(n int64) error {
	all, own, most := c.server.calls.Add(n), c.client.calls.Add(n), c.server.maxCalls/2
	if max(len(c.streams), c.running) > fewCalls {
		most -= most / 4
	}
	if all > c.server.maxCalls || own > most {
		return status.Errorf(codes.ResourceExhausted, "calls that take about %d bytes are under way, and %d bytes of them are this client's: the limits are %d and %d. Wait for some to end",
			all-n, own-n, c.server.maxCalls, most)
	}
	return nil
}

func (c *serverConn) giveBytes(n int64) {
	c.server.calls.Add(-n)
	c.client.calls.Add(-n)
}
