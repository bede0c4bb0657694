package port

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
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
	numbers  *numbers
	accepted *conns
}

// numbers gives the accepted connections their numbers and tells when one ends.
type numbers struct {
	last   atomic.Uint64
	closed func(number uint64) // nil for nobody
}

// numbered is the AuthInfo of an accepted connection.
type numbered struct {
	credentials.AuthInfo
	number uint64
}

// ConnectionOf is the number of the connection that a call to this process came over, which no
// other connection of the port has had or will have; 0 where there is none.
func ConnectionOf(ctx context.Context) uint64 {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return 0
	}
	n, _ := p.AuthInfo.(numbered)
	return n.number
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

func newMux(config *tls.Config, closed func(number uint64)) *mux {
	m := &mux{insecure: insecure.NewCredentials(), streams: &streams{accepted: make(chan net.Conn), quit: make(chan struct{})},
		serving: &serving{seen: make(chan struct{})}, numbers: &numbers{closed: closed}, accepted: newConns()}
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
	c, ok := m.accepted.add(raw)
	if !ok {
		return nil, nil, net.ErrClosed
	}
	rw, info, err := m.sort(c)
	if err != nil {
		c.forget() // gRPC closes what it accepted, or it has another owner now
	}
	return rw, info, err
}

func (m *mux) sort(c *conn) (net.Conn, credentials.AuthInfo, error) {
	var first [1]byte
	if _, err := c.Read(first[:]); err != nil {
		return nil, nil, err
	}
	number := m.numbers.last.Add(1)
	accepted := &peeked{Conn: c, first: first[:]}
	accepted.closed = func() {
		if m.numbers.closed != nil {
			m.numbers.closed(number)
		}
	}
	shake := m.insecure.ServerHandshake
	switch {
	case m.tls != nil:
		shake = func(net.Conn) (net.Conn, credentials.AuthInfo, error) { return m.shakeTLS(c, accepted) }
		fallthrough
	case first[0] == 'P': // of PRI * HTTP/2.0
		conn, info, err := shake(accepted)
		return conn, numbered{info, number}, err
	}
	dup, err := detach(c.Conn)
	if err != nil {
		return nil, nil, err
	}
	m.streams.give(&peeked{Conn: dup, first: first[:]})
	return nil, nil, credentials.ErrConnDispatched
}

func (m *mux) shakeTLS(raw *conn, c *peeked) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(c, m.tls)
	if err := conn.Handshake(); err != nil {
		return nil, nil, err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == protoGossip {
		dup, err := detach(raw.Conn)
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
	first  []byte
	once   sync.Once
	closed func() // told of the first Close; nil for nobody
}

// Close closes the connection.
func (p *peeked) Close() error {
	err := p.Conn.Close()
	if p.closed != nil {
		p.once.Do(p.closed)
	}
	return err
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
