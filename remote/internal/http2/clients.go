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

	calls atomic.Int64 // that are not over, or whose handlers run

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

// callBytes is about what a call takes that waits, be it for its request, for an event or for its client to read: a goroutine, above all. Nothing else
// counts that memory. All calls together may take as much as the requests that are being received, and those of one client half of it.
const callBytes = 16 << 10

// count counts a call of the connection from now on, until it is over and its handler has returned. It returns RESOURCE_EXHAUSTED if it is one too many,
// but counts it all the same. mu is held.
func (c *serverConn) count(s *stream) error {
	c.streams[s.id], s.uses = s, 1
	all, own := c.server.calls.Add(1), c.client.calls.Add(1)
	if most := c.server.maxCalls; all > most || own > most/2 {
		return status.Errorf(codes.ResourceExhausted, "%d calls are under way, %d of them of this client, and the limits are %d and %d: wait for some to end", all-1, own-1, most, most/2)
	}
	return nil
}

// forgetCall removes a call that is over from the connection's. mu is held.
func (c *serverConn) forgetCall(s *stream) {
	if c.streams[s.id] == s {
		delete(c.streams, s.id)
		c.uncount(s)
	}
}

// runs counts the handler of a call; ran is called when it has returned. mu is held.
func (c *serverConn) runs(s *stream) {
	c.running++
	s.uses++
}

func (c *serverConn) ran(s *stream) {
	c.running--
	c.uncount(s)
}

// uncount undoes what count or runs has counted. mu is held.
func (c *serverConn) uncount(s *stream) {
	if s.uses--; s.uses == 0 {
		c.server.calls.Add(-1)
		c.client.calls.Add(-1)
	}
}
