// Package proxy forwards the plain connections of TensorFlow's client, which does not speak TLS, to a server that requires certificates. It
// runs beside the client, on the loopback interface, and lends its own identity to the programs of its user. It refuses connections of
// other users of the machine, if the system can tell whose a connection is (Linux).
//
// A connection is forwarded byte by byte; nothing is decoded. If the server cannot be reached, the proxy answers the client's calls itself,
// with the reason.
package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/logs"
	"github.com/troupe-run/troupe/remote/internal/port"
)

const (
	// dialTime bounds connecting to the server, including the handshake.
	dialTime = 10 * time.Second
	// refusing is how long the proxy answers a client when the server cannot be reached. The client then connects again.
	refusing = 5 * time.Second
	// maxConnections bounds the connections forwarded at the same time.
	maxConnections = 1024
	// piece is the maximum number of bytes copied at once.
	piece = 256 << 10
)

// Config says what to forward, and where to.
type Config struct {
	// Target is the server's host:port.
	Target string
	// Credentials are the identity that the clients get.
	Credentials *access.Credentials
	// AnyUser allows the programs of all users of the machine to use it.
	AnyUser bool
	Log     *slog.Logger // nil: slog.Default()
}

// Proxy forwards connections until it is closed. Its methods are safe for concurrent use.
type Proxy struct {
	config Config
	listen net.Listener
	work   sync.WaitGroup
	places chan struct{}
	quit   chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// Listen starts to accept connections at an address, host:port.
func Listen(ctx context.Context, address string, c Config) (*Proxy, error) {
	c.Log = logs.Limited(c.Log)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newProxy(l, c), nil
}

func newProxy(l net.Listener, c Config) *Proxy {
	p := &Proxy{config: c, listen: l, places: make(chan struct{}, maxConnections), quit: make(chan struct{}), open: map[net.Conn]struct{}{}}
	p.work.Go(p.accept)
	return p
}

// Address returns the address on which the proxy listens.
func (p *Proxy) Address() net.Addr { return p.listen.Addr() }

// Close closes all connections and waits for the proxy's goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if !p.closed {
		close(p.quit)
	}
	p.closed = true
	for c := range p.open {
		_ = c.Close() // its goroutine sees the error
	}
	p.mu.Unlock()
	err := p.listen.Close()
	p.work.Wait()
	return err
}

// accept accepts connections until the listener is closed.
func (p *Proxy) accept() {
	port.Accept(p.listen, p.quit, func(c net.Conn) {
		select {
		case p.places <- struct{}{}:
			p.work.Go(func() {
				defer func() { <-p.places }()
				p.carry(c)
			})
		default:
			p.config.Log.Warn("a connection was refused: too many are open", "limit", maxConnections)
			_ = c.Close() // nothing was sent on it
		}
	}, func(err error) { p.config.Log.Warn("a connection could not be accepted", "error", err) })
}

// hold registers a connection for Close. If Close has been called, hold closes the connection and returns false.
func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close() // nothing was sent on it
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	_ = c.Close() // everything has been sent
}

// carry serves one client until either end is gone.
func (p *Proxy) carry(client net.Conn) {
	if !p.hold(client) {
		return
	}
	defer p.drop(client)
	if !p.config.AnyUser {
		if err := sameUser(client); err != nil {
			p.config.Log.Warn("a connection was refused", "client", client.RemoteAddr(), "error", err)
			return
		}
	}
	server, err := p.dial()
	if err != nil {
		p.config.Log.Warn("the server could not be reached", "target", p.config.Target, "error", err)
		p.refuse(client, err)
		return
	}
	if !p.hold(server) {
		return
	}
	defer p.drop(server)
	var up sync.WaitGroup
	up.Go(func() { p.pump(server, client) })
	p.pump(client, server)
	up.Wait()
}

func (p *Proxy) dial() (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: p.config.Credentials.Client(port.ProtoHTTP2)}
	c, err := d.DialContext(ctx, "tcp", p.config.Target)
	if err != nil {
		return nil, err
	}
	return c.(*tls.Conn), nil
}

// pump copies one direction, and forwards its end.
func (p *Proxy) pump(to, from net.Conn) {
	buf := buffers.Get().(*[piece]byte)
	defer buffers.Put(buf)
	// Hide the methods with which io.CopyBuffer would bypass buf.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf[:])
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		if half.CloseWrite() == nil {
			return
		}
	}
	_ = to.Close() // ends the other direction, too
	_ = from.Close()
}

var buffers = sync.Pool{New: func() any { return new([piece]byte) }}

// refuse answers a client's calls, for a while, with the reason why the server cannot be reached.
func (p *Proxy) refuse(client net.Conn, why error) {
	refusal := status.Errorf(codes.Unavailable, "The proxy at %v could not reach %s: %v", client.LocalAddr(), p.config.Target, why)
	closed := make(chan struct{})
	method := &http2.Method{Unary: func(context.Context, func(any) error) (any, error) { return nil, refusal }}
	s := http2.NewServer(http2.Config{Lookup: func(string) *http2.Method { return method }, Codec: port.Codec{}, Logger: p.config.Log, About: refusal.Error(),
		Closed: func(uint64) { close(closed) }})
	s.Serve(client, nil, 1, nil)
	limit := time.NewTimer(refusing)
	defer limit.Stop()
	select {
	case <-closed:
	case <-limit.C:
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.Stop(ctx, time.Second); err != nil {
		p.config.Log.Debug("refusing a client", "error", err)
	}
}
