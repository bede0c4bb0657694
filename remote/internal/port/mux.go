package port

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/troupe-run/troupe/remote/internal/http2"
)

const (
	// streamHandoff bounds how long a gossip stream waits for the gossip to take it.
	streamHandoff = 2 * time.Second
	// maxAcceptPause bounds the wait after a connection could not be accepted.
	maxAcceptPause = time.Second
)

// ALPN protocols of a port with TLS.
const (
	protoHTTP2  = "h2"
	protoHTTP1  = "http/1.1" // whose clients are told that they are wrong here
	protoGossip = "memberlist"
)

// mux accepts the port's connections and sorts them by their first byte, or with TLS by their protocol.
type mux struct {
	listener net.Listener
	tls      *tls.Config // nil for plain connections
	streams  *streams
	sorting  *conns // connections that have no owner yet
	http     *http2.Server
	log      *slog.Logger
	quit     chan struct{}
	work     sync.WaitGroup
	last     uint64 // the number of the last connection; the accepting goroutine's
}

// ConnectionOf is the number of the connection that a call to this process came over, which no
// other connection of the port has had or will have; 0 where there is none.
func ConnectionOf(ctx context.Context) uint64 {
	p, _ := http2.PeerOf(ctx)
	return p.Connection
}

// streams hands gossip connections over to whoever gossips.
type streams struct {
	accepted chan net.Conn
	quit     chan struct{}
	once     sync.Once
}

func newMux(config *tls.Config, listener net.Listener, http *http2.Server, log *slog.Logger) *mux {
	m := &mux{listener: listener, http: http, log: log, streams: &streams{accepted: make(chan net.Conn), quit: make(chan struct{})}, sorting: newConns(), quit: make(chan struct{})}
	if config != nil {
		m.tls = config.Clone()
		m.tls.NextProtos = []string{protoHTTP2, protoGossip, protoHTTP1}
	}
	m.work.Go(m.accept)
	return m
}

// accept takes connections until the listener is closed.
func (m *mux) accept() {
	pause := 5 * time.Millisecond
	for {
		c, err := m.listener.Accept()
		if err == nil {
			pause = 5 * time.Millisecond
			m.last++
			number := m.last
			m.work.Go(func() { m.take(c, number) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Such as too many open files: it may pass.
		m.log.Warn("a connection could not be accepted", "error", err)
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-m.quit:
		}
		wait.Stop()
		pause = min(2*pause, maxAcceptPause)
	}
}

// close ends the accepting; the channel is closed when no connection is without an owner any more.
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
	if m.tls != nil {
		return m.sortTLS(c, first[:], number)
	}
	if err := m.release(c); err != nil {
		return err
	}
	if b := first[0]; 'A' <= b && b <= 'Z' { // HTTP/2's preface, or a request of HTTP/1
		m.http.Serve(c, first[:], number, nil)
	} else {
		m.streams.give(&peeked{Conn: c, first: first[:]})
	}
	return nil
}

// sortTLS shakes hands and goes by what the client wants to speak.
func (m *mux) sortTLS(raw net.Conn, first []byte, number uint64) error {
	conn := tls.Server(&peeked{Conn: raw, first: first}, m.tls)
	if err := conn.Handshake(); err != nil {
		return err
	}
	if err := m.release(raw); err != nil {
		return err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == protoGossip {
		m.streams.give(conn)
	} else {
		m.http.Serve(conn, nil, number, &state)
	}
	return nil
}

// release takes a connection from the sorted ones to its owner, who closes it.
func (m *mux) release(c net.Conn) error {
	if !m.sorting.forget(c) {
		return net.ErrClosed
	}
	return c.SetDeadline(time.Time{})
}

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
