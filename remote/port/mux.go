package port

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/remote/http2"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// streamHandoff bounds how long a gossip stream waits for the gossip to take it.
const streamHandoff = 2 * time.Second

// ALPN protocols of a port with TLS.
const (
	protoHTTP2  = "h2"
	protoHTTP1  = "http/1.1" // whose clients are told that they are wrong here
	protoGossip = "memberlist"
)

// mux is the transport credentials of the server of the actor library, which accepts all
// connections. gRPC lets them shake hands on each, and so they see its first byte before HTTP/2
// does. Only the remoting's connections stay with that server.
type mux struct {
	insecure credentials.TransportCredentials
	tls      *tls.Config // nil for plain connections
	streams  *streams
	serving  *serving
	accepted *conns
	http     *http2.Server
	last     *atomic.Uint64 // the number of the last connection that http got
}

// ConnectionOf is the number of the connection that a call to this process came over, which no
// other connection of the port has had or will have; 0 where there is none.
func ConnectionOf(ctx context.Context) uint64 {
	p, _ := http2.PeerOf(ctx)
	return p.Connection
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

func newMux(config *tls.Config, http *http2.Server) *mux {
	m := &mux{http: http, last: &atomic.Uint64{}, insecure: insecure.NewCredentials(), streams: &streams{accepted: make(chan net.Conn), quit: make(chan struct{})},
		serving: &serving{seen: make(chan struct{})}, accepted: newConns()}
	if config != nil {
		m.tls = config.Clone()
		m.tls.NextProtos = []string{protoHTTP2, protoRemoting, protoGossip, protoHTTP1}
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
	if m.tls != nil {
		return m.sortTLS(c, first[:])
	}
	if first[0] == remotingMark {
		return m.insecure.ServerHandshake(c)
	}
	dup, err := detach(c.Conn)
	if err != nil {
		return nil, nil, err
	}
	if b := first[0]; 'A' <= b && b <= 'Z' { // HTTP/2's preface, or a request of HTTP/1
		m.http.Serve(dup, first[:], m.last.Add(1), nil)
	} else {
		m.streams.give(&peeked{Conn: dup, first: first[:]})
	}
	return nil, nil, credentials.ErrConnDispatched
}

// sortTLS shakes hands and goes by what the client wants to speak.
func (m *mux) sortTLS(c *conn, first []byte) (net.Conn, credentials.AuthInfo, error) {
	raw := &peeked{Conn: c, first: first}
	conn := tls.Server(raw, m.tls)
	if err := conn.Handshake(); err != nil {
		return nil, nil, err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == protoRemoting {
		return conn, tlsInfo(conn), nil
	}
	dup, err := detach(c.Conn)
	if err != nil {
		return nil, nil, err
	}
	raw.Conn = dup
	if state.NegotiatedProtocol == protoGossip {
		m.streams.give(conn)
	} else {
		m.http.Serve(conn, nil, m.last.Add(1), &state)
	}
	return nil, nil, credentials.ErrConnDispatched
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
