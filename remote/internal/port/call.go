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
	return call(ctx, p.config.TLS, address, method, request, answer)
}

// Call is Port.Call without TLS, for a process that has no port yet.
func Call(ctx context.Context, address, method string, request, answer proto.Message) error {
	return call(ctx, nil, address, method, request, answer)
}

func call(ctx context.Context, config *tls.Config, address, method string, request, answer proto.Message) error {
	b, err := proto.Marshal(request)
	if err != nil {
		return status.Internalf("The request %s cannot be sent: %v", method, err)
	}
	c, err := connect(ctx, config, address)
	if err != nil {
		if ctx.Err() != nil {
			return status.From(ctx.Err())
		}
		return status.Errorf(status.Unavailable, "%v", err)
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

func connect(ctx context.Context, config *tls.Config, address string) (*http2.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	nc, err := dial(ctx, config, address, protoHTTP2)
	if err != nil {
		return nil, err
	}
	return http2.NewClient(ctx, nc, schemeOf(config), address)
}

// dial opens a connection to another task's port, which speaks proto where it is encrypted.
func dial(ctx context.Context, config *tls.Config, address, proto string) (net.Conn, error) {
	if config == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	config = config.Clone()
	config.NextProtos = []string{proto}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
}

func schemeOf(config *tls.Config) string {
	if config == nil {
		return "http"
	}
	return "https"
}
