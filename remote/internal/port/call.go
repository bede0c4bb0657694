package port

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// Call makes a unary call of another task's port, such as /troupe.v1.Link/Greet, on a separate connection. Errors are
// those of graph/status. If the port cannot be reached, the error is UNAVAILABLE.
func (p *Port) Call(ctx context.Context, address, method string, request, answer proto.Message) error {
	return p.dialer().call(ctx, address, method, request, answer)
}

// Connect opens a connection for calls to another task, which may be one of TensorFlow's. Errors are those of Call. The caller must close it.
func (p *Port) Connect(ctx context.Context, address string) (*http2.Client, error) {
	return p.dialer().reach(ctx, address, http2.NewClient)
}

// Caller returns the equivalent of Port.Call for a process that has no port yet. The credentials may be nil. If the network is nil,
// it is the machine's.
func Caller(n network.Network, credentials Credentials) func(ctx context.Context, address, method string, request, answer proto.Message) error {
	if n == nil {
		n = network.System
	}
	return dialer{n, credentials}.call
}

// dialer opens connections to other tasks' ports. Without credentials they are not encrypted.
type dialer struct {
	network     network.Network
	credentials Credentials
}

func (p *Port) dialer() dialer { return dialer{p.config.Network, p.config.Credentials} }

func (d dialer) call(ctx context.Context, address, method string, request, answer proto.Message) error {
	b, err := proto.Marshal(request)
	if err != nil {
		return status.Internalf("The request %s cannot be sent: %v", method, err)
	}
	c, err := d.reach(ctx, address, http2.NewCaller)
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.Call(ctx, method, [][]byte{b}, func(a *http2.Answer) error {
		r := wire.ReadFrom(a, a.Size())
		b, err := r.Next(r.End())
		if err == nil {
			err = proto.Unmarshal(b, answer)
		}
		if err != nil {
			return status.Internalf("The answer of %s to %s cannot be read: %v", address, method, err)
		}
		return nil
	})
	if errors.Is(err, http2.ErrNotSent) {
		return status.Errorf(status.Unavailable, "%s takes no calls", address)
	}
	return wire.FromGRPC(err)
}

// greeting is http2.NewClient, or http2.NewCaller.
type greeting func(ctx context.Context, nc net.Conn, scheme, authority string) (*http2.Client, error)

// reach is connect with the errors of Call.
func (d dialer) reach(ctx context.Context, address string, greet greeting) (*http2.Client, error) {
	c, err := d.connect(ctx, address, greet)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, status.From(ctx.Err())
	}
	return nil, unreached(address, err)
}

func (d dialer) connect(ctx context.Context, address string, greet greeting) (*http2.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	nc, err := d.dial(ctx, address, ProtoHTTP2)
	if err != nil {
		return nil, err
	}
	return greet(ctx, nc, schemeOf(d.credentials), address)
}

// dial opens a connection to another task's port. If it is encrypted, it speaks proto.
func (d dialer) dial(ctx context.Context, address, proto string) (net.Conn, error) {
	began := time.Now()
	c, err := d.network.Dial(ctx, address)
	if err == nil {
		distance.Connected(ctx, time.Since(began))
	}
	if err != nil || d.credentials == nil {
		return c, err
	}
	config := d.credentials.Client(address, proto)
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return secure, nil
}

// unreached returns the error for a connection that failed: UNAUTHENTICATED if the other end's certificate could not be
// verified, else UNAVAILABLE.
func unreached(address string, err error) error {
	var bad *tls.CertificateVerificationError
	if errors.As(err, &bad) || status.CodeOf(err) == status.Unauthenticated {
		return status.Errorf(status.Unauthenticated, "%s is not trusted: %v", address, err)
	}
	return status.Errorf(status.Unavailable, "%w", err)
}

func schemeOf(credentials Credentials) string {
	if credentials == nil {
		return "http"
	}
	return "https"
}
