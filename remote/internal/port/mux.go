package port

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/remote/internal/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// streamHandoff bounds how long a gossip stream waits to be received from Streams.
	streamHandoff = 2 * time.Second
)

// ALPN protocols of a port with TLS.
const (
	ProtoHTTP2  = "h2"
	protoHTTP1  = "http/1.1" // answered with an error text
	protoGossip = "memberlist"
)

// mux accepts the port's connections and sorts them by their first byte, or with TLS by their protocol.
type mux struct {
	listener net.Listener
	trust    Credentials   // nil for plain connections
	tls      *tls.Config   // of trust
	plain    *http2.Server // answers clients without TLS that it is required; nil if it is not
	streams  *streams
	sorting  *conns // connections that have no owner yet
	http     *http2.Server
	log      *slog.Logger
	quit     chan struct{}
	work     sync.WaitGroup
}

// connections numbers the connections of all ports of the process. Numbers are unique across ports, because a declared cluster's
// master serves clients of its host's port, and is notified of closed connections of its own port.
var connections atomic.Uint64

// ConnectionOf returns the number of the connection over which a call to this process came, or 0 if
// there is none. No two connections of the process have the same number.
func ConnectionOf(ctx context.Context) uint64 {
	p, _ := http2.PeerOf(ctx)
	return p.Connection
}

// streams hands gossip connections over to the gossip.
type streams struct {
	accepted chan net.Conn
	quit     chan struct{}
	once     sync.Once
}

func newMux(trust Credentials, listener net.Listener, http *http2.Server, log *slog.Logger) *mux {
	m := &mux{listener: listener, http: http, log: log, streams: &streams{accepted: make(chan net.Conn), quit: make(chan struct{})}, sorting: newConns(maxSorting), quit: make(chan struct{})}
	if trust != nil {
		m.trust, m.tls = trust, trust.Server(ProtoHTTP2, protoGossip, protoHTTP1)
	}
	return m
}

// start begins to accept connections.
func (m *mux) start() { m.work.Go(m.accept) }

// accept accepts connections until the listener is closed.
func (m *mux) accept() {
	Accept(m.listener, m.quit, func(c net.Conn) {
		number := connections.Add(1)
		m.work.Go(func() { m.take(c, number) })
	}, func(err error) {
		closed := 0
		if noFiles(err) {
			closed = m.http.CloseIdle()
		}
		m.log.Warn("a connection could not be accepted", "error", err, "idle connections closed for it", closed)
	})
}

// close stops accepting. The channel is closed when every connection has an owner or is closed.
func (m *mux) close() <-chan struct{} {
	close(m.quit)
	if err := m.listener.Close(); err != nil {
		m.log.Warn("closing the port's listener", "error", err)
	}
	m.streams.stop()
	m.sorting.close()
	done := make(chan struct{})
	go func() {
		m.work.Wait()
		close(done)
	}()
	return done
}

func (s *streams) stop() { s.once.Do(func() { close(s.quit) }) }

// give hands the connection over, or closes it if it is not received in time.
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

// take finds an owner for a connection, in bounded time.
func (m *mux) take(raw net.Conn, number uint64) {
	if !m.sorting.add(raw) {
		return
	}
	err := raw.SetDeadline(time.Now().Add(handshakeTimeout))
	if err == nil {
		err = m.sort(raw, number)
	}
	if err != nil {
		m.log.Debug("a connection ended before it said anything of use", "peer", raw.RemoteAddr(), "error", err)
		m.sorting.forget(raw)
		raw.Close()
	}
}

func (m *mux) sort(c net.Conn, number uint64) error {
	var first [1]byte
	if _, err := c.Read(first[:]); err != nil {
		return err
	}
	b := first[0]
	isHTTP := 'A' <= b && b <= 'Z' // HTTP/2's preface, or a request of HTTP/1
	if m.tls != nil && !isHTTP {
		return m.sortTLS(c, first[:], number)
	}
	if err := m.release(c); err != nil {
		return err
	}
	switch {
	case m.tls != nil:
		m.plain.Serve(c, first[:], number, nil)
	case isHTTP:
		m.http.Serve(c, first[:], number, nil)
	default:
		m.streams.give(&peeked{Conn: c, first: first[:]})
	}
	return nil
}

// refusePlain returns a server that answers every call on a connection without TLS with an error.
func refusePlain(address string, log *slog.Logger) *http2.Server {
	text := address + " takes TLS connections with a certificate or a token only. TensorFlow's client reaches it through `troupe proxy --target " + address + "`."
	refuse := &http2.Method{Unary: func(context.Context, func(any) error) (any, error) {
		return nil, status.Error(codes.Unauthenticated, text)
	}}
	return http2.NewServer(http2.Config{Lookup: func(string) *http2.Method { return refuse }, Codec: Codec{}, Logger: log, About: text})
}

// sortTLS performs the TLS handshake and sorts the connection by its protocol.
func (m *mux) sortTLS(raw net.Conn, first []byte, number uint64) error {
	inner := &peeked{Conn: raw, first: first}
	conn := tls.Server(inner, m.tls)
	if err := conn.Handshake(); err != nil {
		return err
	}
	state := conn.ConnectionState()
	gossip := state.NegotiatedProtocol == protoGossip
	if gossip {
		if err := m.trust.Gossips(state); err != nil {
			return err
		}
	}
	if err := m.release(raw); err != nil {
		return err
	}
	if gossip {
		m.streams.give(conn) // short-lived: not watched
		return nil
	}
	forget, err := m.trust.Watch(raw, state)
	if err != nil {
		return err
	}
	inner.closed.Store(&forget)
	m.http.Serve(conn, nil, number, &state)
	return nil
}

// release removes a connection from those being sorted. Its owner closes it from then on.
func (m *mux) release(c net.Conn) error {
	if !m.sorting.forget(c) {
		return net.ErrClosed
	}
	return c.SetDeadline(time.Time{})
}

// peeked is a connection whose first byte was read already.
type peeked struct {
	net.Conn
	first  []byte
	closed atomic.Pointer[func()] // if set, called when the connection is closed
}

// NetConn returns the underlying connection.
func (p *peeked) NetConn() net.Conn { return p.Conn }

func (p *peeked) Close() error {
	if closed := p.closed.Swap(nil); closed != nil {
		(*closed)()
	}
	return p.Conn.Close()
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
