package port

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// streamHandoff bounds how long a gossip stream waits for the gossip to take it.
const streamHandoff = 2 * time.Second

// ALPN protocols of a port with TLS.
const (
	protoHTTP2  = "h2"
	protoGossip = "memberlist"
)

// mux is the server's transport credentials. gRPC lets them shake hands on each accepted
// connection, and so they see its first byte before HTTP/2 does.
type mux struct {
	insecure credentials.TransportCredentials
	tls      *tls.Config // nil for plain connections
	streams  *streams
	serving  *serving
}

// serving tells that connections are being accepted.
type serving struct {
	once sync.Once
	seen chan struct{}
}

// streams hands gossip connections over to whoever gossips.
type streams struct {
	accepted chan net.Conn
	quit     chan struct{}
	once     sync.Once
}

func newMux(config *tls.Config) *mux {
	m := &mux{insecure: insecure.NewCredentials(), streams: &streams{accepted: make(chan net.Conn), quit: make(chan struct{})},
		serving: &serving{seen: make(chan struct{})}}
	if config != nil {
		m.tls = config.Clone()
		m.tls.NextProtos = []string{protoHTTP2, protoGossip}
	}
	return m
}

func (s *streams) stop() { s.once.Do(func() { close(s.quit) }) }

// give hands the connection over, or closes it when nobody takes it in time.
func (s *streams) give(c net.Conn) {
	t := time.NewTimer(streamHandoff)
	defer t.Stop()
	select {
	case s.accepted <- c:
	case <-s.quit:
		c.Close()
	case <-t.C:
		c.Close()
	}
}

// ServerHandshake sorts the connection. gRPC has set a deadline on it.
func (m *mux) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	m.serving.once.Do(func() { close(m.serving.seen) })
	var first [1]byte
	if _, err := raw.Read(first[:]); err != nil {
		return nil, nil, err
	}
	switch {
	case m.tls != nil:
		return m.shakeTLS(&peeked{Conn: raw, first: first[:]})
	case first[0] == 'P': // of PRI * HTTP/2.0
		return m.insecure.ServerHandshake(&peeked{Conn: raw, first: first[:]})
	}
	c, err := detach(raw)
	if err != nil {
		return nil, nil, err
	}
	m.streams.give(&peeked{Conn: c, first: first[:]})
	return nil, nil, credentials.ErrConnDispatched
}

func (m *mux) shakeTLS(c *peeked) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(c, m.tls)
	if err := conn.Handshake(); err != nil {
		return nil, nil, err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == protoGossip {
		dup, err := detach(c.Conn)
		if err != nil {
			return nil, nil, err
		}
		c.Conn = dup
		m.streams.give(conn)
		return nil, nil, credentials.ErrConnDispatched
	}
	return conn, credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

// detach makes a second handle of the connection and closes the first: gRPC clears the
// deadlines of the first after the handshake, which would undo those of the new owner.
func detach(raw net.Conn) (net.Conn, error) {
	t, ok := raw.(*net.TCPConn)
	if !ok {
		return raw, nil
	}
	f, err := t.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dup, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	raw.Close()
	return dup, nil
}

// ClientHandshake is not used: the port dials with credentials of its own.
func (m *mux) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return m.insecure.ClientHandshake(ctx, authority, raw)
}

// Info describes the security protocol.
func (m *mux) Info() credentials.ProtocolInfo {
	if m.tls != nil {
		return credentials.NewTLS(m.tls).Info()
	}
	return m.insecure.Info()
}

// Clone shares the handover of streams.
func (m *mux) Clone() credentials.TransportCredentials { c := *m; return &c }

// OverrideServerName does nothing: it concerns clients, and gRPC has deprecated it.
func (m *mux) OverrideServerName(string) error { return nil }

// peeked is a connection whose first byte was read already.
type peeked struct {
	net.Conn
	first []byte
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
