package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// alpn is the ALPN name of HTTP/2.
const alpn = "h2"

// line is the single connection to a server. It is established when a call needs it.
type line struct {
	address string
	config  *config
	conn    atomic.Pointer[http2.Client]
	turn    chan struct{}   // held by the call that replaces the connection
	life    context.Context // ends when the line is closed
	end     context.CancelFunc
}

func (l *line) init(address string, config *config) {
	l.address, l.config, l.turn = address, config, make(chan struct{}, 1)
	l.life, l.end = context.WithCancel(context.Background())
}

// call makes a call. If the server has not seen it, because it is shutting down or the connection was already lost, call retries once on
// another connection.
func (l *line) call(ctx context.Context, method string, request [][]byte, read func(*http2.Answer) error) error {
	conn, err := l.connected(ctx, nil)
	for again := true; err == nil; again = false {
		if err = conn.Call(ctx, method, request, read); !errors.Is(err, http2.ErrNotSent) {
			return err
		}
		if !again {
			return status.Errorf(status.Unavailable, "the server takes no calls")
		}
		conn, err = l.connected(ctx, conn)
	}
	return err
}

// connected returns a connection other than broken.
func (l *line) connected(ctx context.Context, broken *http2.Client) (*http2.Client, error) {
	if c := l.conn.Load(); c != nil && c != broken {
		return c, nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, status.From(ctx.Err())
	}
	defer func() { <-l.turn }()
	old := l.conn.Load()
	if old != nil && old != broken {
		return old, nil
	}
	if l.life.Err() != nil {
		return nil, errClosed
	}
	if old != nil {
		l.config.log.Debug("the connection to the server was lost", "address", l.address)
	}
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.conn.Store(c)
	if l.life.Err() != nil { // closed in the meantime
		l.drop()
		return nil, errClosed
	}
	l.config.log.Debug("connected to the server", "address", l.address)
	if old != nil {
		old.Retire()
	}
	return c, nil
}

// connect establishes a connection. It is aborted when ctx ends or the line is closed.
func (l *line) connect(ctx context.Context) (*http2.Client, error) {
	dialing, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	nc, err := l.config.dial(dialing, l.address)
	if err != nil {
		return nil, l.unreachable(ctx, err)
	}
	if l.config.authorization != nil && l.config.tls == nil && !onThisMachine(nc) {
		return nil, errors.Join(errTokenInClear, nc.Close())
	}
	scheme := "http"
	if l.config.tls != nil {
		if nc, err = l.secure(dialing, nc); err != nil {
			return nil, l.unreachable(ctx, err)
		}
		scheme = "https"
	}
	c, err := http2.NewClient(dialing, nc, scheme, l.address)
	if err != nil {
		err = wire.FromGRPC(err)
		if l.config.tls != nil {
			err = uncertified(err)
		}
		return nil, l.unreachable(ctx, err)
	}
	if l.config.authorization != nil {
		c.Authorize(l.config.authorization)
	}
	return c, nil
}

// errTokenInClear is the error of a client with a token whose connection is not encrypted.
var errTokenInClear = status.Errorf(status.FailedPrecondition, "the token is not sent: the connection leaves this machine and is not encrypted. Use WithCredentials or WithTLS (--tls-ca)")

// onThisMachine reports whether a connection leads to a process of this machine.
func onThisMachine(nc net.Conn) bool {
	switch a := nc.RemoteAddr().(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// secure encrypts a connection, of which it takes ownership.
func (l *line) secure(ctx context.Context, plain net.Conn) (net.Conn, error) {
	config := l.config.tls()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(l.address)
		if err != nil {
			return nil, errors.Join(err, plain.Close())
		}
		config.ServerName = host
	}
	nc := tls.Client(plain, config)
	if err := nc.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // the handshake's error is the one to report
		return nil, withoutTLS(err)
	}
	if got := nc.ConnectionState().NegotiatedProtocol; got != alpn {
		return nil, errors.Join(status.Errorf(status.Unavailable, "the server does not offer HTTP/2 over TLS: ALPN negotiated %q", got), nc.Close())
	}
	return nc, nil
}

// withoutTLS explains the error of a handshake that a server without certificates ends: it takes its first bytes for something else.
func withoutTLS(err error) error {
	var plain tls.RecordHeaderError
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, &plain) {
		return status.Errorf(status.Unavailable, "the server ended the TLS handshake, as one without certificates does: %w", err)
	}
	return err
}

// uncertified explains the error of a connection that the server closed because the client has shown no certificate. In TLS 1.3, the client
// learns of that after the handshake, by an alert that crypto/tls has no exported value for.
func uncertified(err error) error {
	if strings.Contains(err.Error(), "tls: certificate required") {
		return status.Errorf(status.Unavailable, "the server takes certificates only, as one that knows no tokens does: %w", err)
	}
	return err
}

func (l *line) unreachable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.From(ctx.Err())
	case l.life.Err() != nil:
		return errClosed
	}
	return status.Errorf(status.Unavailable, "%w", err)
}

var errClosed = status.Errorf(status.Cancelled, "The client was closed")

// drop closes the current connection, if any.
func (l *line) drop() {
	if c := l.conn.Swap(nil); c != nil {
		_ = c.Close() // always nil
	}
}

// close closes the connection at once, and waits for a call that is connecting until ctx ends.
func (l *line) close(ctx context.Context) error {
	l.end()
	l.drop()
	select {
	case l.turn <- struct{}{}:
	default:
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
	<-l.turn
	return nil
}
