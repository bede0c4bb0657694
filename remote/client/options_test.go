package client

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// unimplemented returns the address of a gRPC server that knows no method.
func unimplemented(t *testing.T, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(opts...)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// certificate creates a certificate for example.org and the pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"example.org"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLS(t *testing.T) {
	own, pool := certificate(t)
	address := unimplemented(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own}})))
	for _, c := range []struct {
		name   string
		config *tls.Config
		code   status.Code
		text   string
	}{
		{"trusted", &tls.Config{RootCAs: pool, ServerName: "example.org"}, status.Unimplemented, ""},
		{"another name", &tls.Config{RootCAs: pool}, status.Unavailable, "certificate"},
		{"unknown authority", &tls.Config{ServerName: "example.org"}, status.Unavailable, "certificate"},
	} {
		client, err := Dial(t.Context(), "grpc://"+address, WithTLS(c.config))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(t.Context())
		if _, err := client.Status(t.Context()); status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v: %v", c.name, status.CodeOf(err), err)
		}
	}
}

// The errors of a client whose idea of a server's security is wrong say what the server does.
func TestServersThatAreSecuredOtherwise(t *testing.T) {
	own, pool := certificate(t)
	strict := unimplemented(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert})))
	for address, want := range map[string]string{
		unimplemented(t):                     "the server ended the TLS handshake, as one without certificates does: ",
		strict:                               "the server takes certificates only, as one that knows no tokens does: remote error: tls: certificate required",
		hangUp(t, (*net.TCPConn).CloseWrite): "the server ended the TLS handshake, as one without certificates does: EOF",
		hangUp(t, func(c *net.TCPConn) error { return c.SetLinger(0) }): "the server ended the TLS handshake, as one without certificates does: ",
	} {
		client, err := Dial(t.Context(), "grpc://"+address, WithTLS(&tls.Config{RootCAs: pool, ServerName: "example.org"}))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(t.Context())
		_, err = client.Status(t.Context())
		if status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "grpc://"+address+": "+want) || strings.Contains(err.Error(), "rpc error") {
			t.Errorf("%v: %v, want %s", status.CodeOf(err), err, want)
		}
	}
}

// hangUp returns the address of a server that reads the first bytes of each connection and ends it.
func hangUp(t *testing.T, end func(*net.TCPConn) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, err = c.Read(make([]byte, 1<<16))
			if err := errors.Join(err, end(c.(*net.TCPConn)), c.Close()); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// TestTLSWithoutHTTP2 calls a server that speaks TLS, but not HTTP/2.
func TestTLSWithoutHTTP2(t *testing.T) {
	own, pool := certificate(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).HandshakeContext(t.Context())
			_ = c.Close()
		}
	}()
	defer func() { l.Close(); <-done }()
	c, err := Dial(t.Context(), "grpc://"+l.Addr().String(), WithTLS(&tls.Config{RootCAs: pool, ServerName: "example.org"}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Status(t.Context()); status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "HTTP/2") {
		t.Error(err)
	}
}

func TestInterceptorsDialersAndLoggers(t *testing.T) {
	address := unimplemented(t)
	var calls []string
	intercept := func(name string) Option {
		return WithInterceptor(func(ctx context.Context, method string, call func(context.Context) error) error {
			calls = append(calls, name+" "+method)
			err := call(ctx)
			calls = append(calls, name+" "+status.CodeOf(err).String())
			return err
		})
	}
	var dialled []string
	var log bytes.Buffer
	c, err := Dial(t.Context(), "grpc://nowhere.invalid:1", intercept("outer"), intercept("inner"),
		WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		WithDialer(func(ctx context.Context, to string) (net.Conn, error) {
			dialled = append(dialled, to)
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Status(t.Context()); status.CodeOf(err) != status.Unimplemented {
		t.Error(err)
	}
	if want := []string{"outer /troupe.v1.Operator/Status", "inner /troupe.v1.Operator/Status", "inner UNIMPLEMENTED", "outer UNIMPLEMENTED"}; !slices.Equal(calls, want) {
		t.Errorf("%q", calls)
	}
	if !slices.Equal(dialled, []string{"nowhere.invalid:1"}) || !strings.Contains(log.String(), "connected to the server") {
		t.Errorf("%q, %s", dialled, log.String())
	}
}

// from is a connection from an address.
type from struct {
	net.Conn
	address net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.address }

// TestOnThisMachine checks on which connections a token is sent in clear.
func TestOnThisMachine(t *testing.T) {
	for _, c := range []struct {
		address net.Addr
		want    bool
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, true},
		{&net.TCPAddr{IP: net.IPv6loopback}, true},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, false},
		{&net.UnixAddr{Name: "/run/troupe"}, true},
		{&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, false}, // of a kind that is not known
	} {
		if got := onThisMachine(from{address: c.address}); got != c.want {
			t.Errorf("%v: %v", c.address, got)
		}
	}
}

// TestCallsMoveToAnotherConnection checks that a call that a connection does not take is made on another one.
func TestCallsMoveToAnotherConnection(t *testing.T) {
	address, dialled := unimplemented(t), 0
	c, err := Dial(t.Context(), "grpc://"+address, WithDialer(func(ctx context.Context, to string) (net.Conn, error) {
		dialled++
		return (&net.Dialer{}).DialContext(ctx, "tcp", to)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for before := range 3 {
		if _, err := c.Status(t.Context()); status.CodeOf(err) != status.Unimplemented {
			t.Error(err)
		}
		if dialled != before+1 {
			t.Errorf("%d connections, want %d", dialled, before+1)
		}
		c.line.conn.Load().Retire() // as after the server has said that it shuts down
	}
}

// TestCloseWhileConnecting checks that Close ends a connecting call at once, and may be called again.
func TestCloseWhileConnecting(t *testing.T) {
	dialling := make(chan struct{})
	c, err := Dial(t.Context(), "grpc://127.0.0.1:1", WithDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		close(dialling)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := c.Status(t.Context()); ended <- err }()
	<-dialling
	for range 2 {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; status.CodeOf(err) != status.Cancelled || errors.Is(err, context.Canceled) {
		t.Errorf("%v: %v", status.CodeOf(err), err)
	}
	if _, err := c.Status(t.Context()); status.CodeOf(err) != status.Cancelled {
		t.Errorf("a closed client: %v", err)
	}
}

// TestCausesOfUnavailable checks that calls' errors wrap the system's errors.
func TestCausesOfUnavailable(t *testing.T) {
	c, err := Dial(t.Context(), "grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	_, err = c.Status(t.Context())
	var failed *net.OpError
	if status.CodeOf(err) != status.Unavailable || !errors.As(err, &failed) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := c.Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestTokensAreNotSentInTheClear checks that a token leaves the machine only over TLS.
func TestTokensAreNotSentInTheClear(t *testing.T) {
	sent := make(chan int, 1)
	c, err := Dial(t.Context(), "grpc://10.0.0.1:2222", WithToken("troupe_secret"), WithDialer(func(context.Context, string) (net.Conn, error) {
		here, there := net.Pipe() // its address does not belong to this machine
		go func() {
			n, _ := there.Read(make([]byte, 100)) // an error is expected
			sent <- n
		}()
		return here, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Devices(t.Context()); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "not encrypted") {
		t.Errorf("%v", err)
	}
	if n := <-sent; n != 0 {
		t.Errorf("%d bytes were sent", n)
	}
	for _, bad := range []string{"", "a b", "a\r\nx: y", strings.Repeat("a", 10_000)} {
		if _, err := Dial(t.Context(), "grpc://10.0.0.1:2222", WithToken(bad)); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}
