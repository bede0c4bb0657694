package port

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// Call makes a unary call of another task's port, such as /troupe.v1.Link/Greet, on a connection of its own. Errors are
// those of graph/status; a port that cannot be reached is UNAVAILABLE.
func (p *Port) Call(ctx context.Context, address, method string, request, answer proto.Message) error {
	return call(ctx, p.config.Credentials, address, method, request, answer)
}

// Caller gives Port.Call for a process that has no port yet. The credentials may be nil.
func Caller(credentials Credentials) func(ctx context.Context, address, method string, request, answer proto.Message) error {
	return func(ctx context.Context, address, method string, request, answer proto.Message) error {
		return call(ctx, credentials, address, method, request, answer)
	}
}

func call(ctx context.Context, credentials Credentials, address, method string, request, answer proto.Message) error {
	b, err := proto.Marshal(request)
	if err != nil {
		return status.Internalf("The request %s cannot be sent: %v", method, err)
	}
	c, err := connect(ctx, credentials, address)
	if err != nil {
		if ctx.Err() != nil {
			return status.From(ctx.Err())
		}
		return unreached(address, err)
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

func connect(ctx context.Context, credentials Credentials, address string) (*http2.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	nc, err := dial(ctx, credentials, address, ProtoHTTP2)
	if err != nil {
		return nil, err
	}
	return http2.NewClient(ctx, nc, schemeOf(credentials), address)
}

// dial opens a connection to another task's port, which speaks proto where it is encrypted.
func dial(ctx context.Context, credentials Credentials, address, proto string) (net.Conn, error) {
	if credentials == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{Config: credentials.Client(address, proto)}).DialContext(ctx, "tcp", address)
}

// unreached is the error of a connection that was not made: UNAUTHENTICATED for one whose other end is not whom its
// certificate has to name, else UNAVAILABLE.
func unreached(address string, err error) error {
	var bad *tls.CertificateVerificationError
	if errors.As(err, &bad) || status.CodeOf(err) == status.Unauthenticated {
		return status.Errorf(status.Unauthenticated, "%s is not trusted: %v", address, err)
	}
	return status.Errorf(status.Unavailable, "%v", err)
}

func schemeOf(credentials Credentials) string {
	if credentials == nil {
		return "http"
	}
	return "https"
}
