package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// DefaultTimeout bounds every call but a session's steps where its context has no deadline: those
// calls compute nothing. WithTimeout changes it.
const DefaultTimeout = 30 * time.Second

// Option changes how a client reaches its server. An option that cannot be honoured is an error of Dial
// that names it.
type Option func(*config) error

// Interceptor runs around every call to the server: method is its full name, such as
// /tensorflow.MasterService/RunStep, and call makes it. An interceptor calls call once, or not at all if it
// returns an error instead; its result is the caller's error. Interceptors run concurrently.
type Interceptor func(ctx context.Context, method string, call func(context.Context) error) error

// config is what the options of a client come to.
type config struct {
	tls       *tls.Config
	dial      func(ctx context.Context, address string) (net.Conn, error)
	timeout   time.Duration
	intercept []Interceptor
	log       *slog.Logger
}

func configOf(opts []Option) (*config, error) {
	c := &config{timeout: DefaultTimeout, log: slog.New(slog.DiscardHandler), dial: func(ctx context.Context, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}}
	for _, opt := range opts {
		if err := opt(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// WithTLS encrypts the connection. Troupe's servers do not speak TLS themselves: it is for a proxy before
// them. The server name is the target's host unless the configuration has one.
func WithTLS(configuration *tls.Config) Option {
	return func(c *config) error {
		if configuration == nil {
			return status.InvalidArgumentf("WithTLS needs a configuration: it is nil")
		}
		c.tls = configuration.Clone()
		if !slices.Contains(c.tls.NextProtos, alpn) {
			c.tls.NextProtos = append(slices.Clone(c.tls.NextProtos), alpn)
		}
		return nil
	}
}

// WithDialer replaces the way in which connections to the target's address (host:port) are made, such as
// one through a tunnel. dial must return when its context ends.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(c *config) error {
		if dial == nil {
			return status.InvalidArgumentf("WithDialer needs a function: it is nil")
		}
		c.dial = dial
		return nil
	}
}

// WithTimeout bounds calls whose context has no deadline, instead of DefaultTimeout. Steps are not bounded.
func WithTimeout(timeout time.Duration) Option {
	return func(c *config) error {
		if timeout <= 0 {
			return status.InvalidArgumentf("WithTimeout needs a positive time, not %v", timeout)
		}
		c.timeout = timeout
		return nil
	}
}

// WithInterceptor adds an interceptor, for tracing, metrics or limits. The first one added is the outermost.
func WithInterceptor(interceptor Interceptor) Option {
	return func(c *config) error {
		if interceptor == nil {
			return status.InvalidArgumentf("WithInterceptor needs a function: it is nil")
		}
		c.intercept = append(c.intercept, interceptor)
		return nil
	}
}

// WithLogger makes the client log, at the level Debug, when it connects and when a connection was lost. Without
// it a client logs nothing.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) error {
		if log == nil {
			return status.InvalidArgumentf("WithLogger needs a logger: it is nil")
		}
		c.log = log
		return nil
	}
}
