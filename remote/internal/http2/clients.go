package http2

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
)

// client is whom the server takes connections for the same client's: those with the same certificate, or else from the
// same address.
type client struct {
	key string

	conns int // guarded by Server.mu

	receiving int64 // bytes that its requests take; guarded by Server.receiving

	// Guarded by turns.mu.
	waiting []*worker // its connections that wait for a turn
	queued  bool      // among turns.clients
}

// clientLocked gives the client that a connection is of, and counts the connection; the caller holds mu.
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

// ClientOf tells clients apart: it is the fingerprint of the certificate, or else the address.
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
