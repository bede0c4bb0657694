package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
)

// DefaultTimeout bounds every call without a deadline, except a session's steps and what actors are asked: the other calls compute nothing.
// WithTimeout changes it.
const DefaultTimeout = 30 * time.Second

// Option changes how a client reaches its server. If an option cannot be honoured, Dial returns an error that names it.
type Option func(*config) error

// Interceptor runs around every call to the server: method is its full name, such as /tensorflow.MasterService/RunStep, and call makes it.
// An interceptor calls call once, or not at all if it returns an error instead. Its result is the caller's error. Interceptors run
// concurrently.
type Interceptor func(ctx context.Context, method string, call func(context.Context) error) error

// config is the result of a client's options.
type config struct {
	tls func() *tls.Config // of a new connection; nil: plain
	// authorization returns the header value for the current token; nil means none.
	authorization func() string
	dial          func(ctx context.Context, address string) (net.Conn, error)
	timeout       time.Duration
	intercept     []Interceptor
	log           *slog.Logger
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

// WithCredentials encrypts the connection with the credentials' certificate, if any, and their authorities, and requires the server to be a
// task of a Troupe cluster. Connections made after a reload use the new credentials.
func WithCredentials(credentials *access.Credentials) Option {
	return func(c *config) error {
		if credentials == nil {
			return status.InvalidArgumentf("WithCredentials needs credentials: they are nil")
		}
		c.tls = func() *tls.Config { return credentials.Client(alpn) }
		return nil
	}
}

// WithTLS encrypts the connection with any configuration, such as one for a proxy in front of the server. The server name is the target's
// host unless the configuration has one.
func WithTLS(configuration *tls.Config) Option {
	return func(c *config) error {
		if configuration == nil {
			return status.InvalidArgumentf("WithTLS needs a configuration: it is nil")
		}
		fixed := configuration.Clone()
		if !slices.Contains(fixed.NextProtos, alpn) {
			fixed.NextProtos = append(slices.Clone(fixed.NextProtos), alpn)
		}
		c.tls = fixed.Clone
		return nil
	}
}

// WithToken sends a token with each call; see access.NewToken. It is sent only over TLS or within this machine: other calls fail with
// FAILED_PRECONDITION.
func WithToken(token string) Option {
	return func(c *config) error {
		header, err := access.Authorization(token)
		if err != nil {
			return status.InvalidArgumentf("WithToken: %v", err)
		}
		c.authorization = func() string { return header }
		return nil
	}
}

// WithTokenFile is WithToken with the token that the file contains at the time of each call. The caller closes the file after the client.
func WithTokenFile(file *access.TokenFile) Option {
	return func(c *config) error {
		if file == nil {
			return status.InvalidArgumentf("WithTokenFile needs a file: it is nil")
		}
		c.authorization = file.Authorization
		return nil
	}
}

// WithDialer replaces how connections to the target's address (host:port) are made, for example to use a tunnel. dial must return when its
// context ends.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(c *config) error {
		if dial == nil {
			return status.InvalidArgumentf("WithDialer needs a function: it is nil")
		}
		c.dial = dial
		return nil
	}
}

// WithTimeout bounds calls whose context has no deadline, instead of DefaultTimeout. It does not bound steps and calls of
// actors.
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

// WithLogger makes the client log, at level Debug, when it connects and when a connection was lost. By default a client logs nothing.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) error {
		if log == nil {
			return status.InvalidArgumentf("WithLogger needs a logger: it is nil")
		}
		c.log = log
		return nil
	}
}
