package http2

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
)

// client groups the connections that the server attributes to the same client: those with the same certificate, or else
// from the same address.
type client struct {
	key string

	conns int // guarded by Server.mu

	receiving int64 // bytes of its requests; guarded by Server.receiving

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
