package observe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/remote/access"
	"golang.org/x/net/netutil"
)

const (
	// maxConnections bounds the endpoint's connections; others wait to be accepted.
	maxConnections = 128
	maxHeader      = 16 << 10 // bytes
	headerTime     = 5 * time.Second
	readTime       = 10 * time.Second
	writeTime      = 30 * time.Second
	idleTime       = time.Minute
	// stopTime bounds Stop: answers that take longer are cut off.
	stopTime = time.Second
)

// Config says what an endpoint serves, and to whom.
type Config struct {
	// Address is the host:port to listen on. Without a host it is the loopback interface; 0 is a free port.
	Address string
	// Tasks are those of the process.
	Tasks *Tasks
	// Hosts are names under which the endpoint is reached, beside localhost, addresses and the host of Address: requests
	// with another Host header are refused.
	Hosts []string
	// Pprof serves profiles of the process.
	Pprof bool
	// Queues bounds the queues of a task that have metrics of their own, the largest first; 0 is DefaultQueues.
	Queues int
	// Credentials, if set, encrypt the connections, and certificates tell who calls.
	Credentials *access.Credentials
	// Guard, if set, decides who may see what.
	Guard *access.Guard
	// UI, if set, serves what has no other path. The contexts of its requests are what Tasks wants of an act.
	UI  http.Handler
	Log *slog.Logger // nil: slog.Default()

	local bool // the endpoint listens on the loopback interface
}

// open tells whether nothing says who may see what.
func (c *Config) open() bool { return c.Credentials == nil && !c.Guard.Decides() }

// Endpoint is a listening HTTP endpoint.
type Endpoint struct {
	config   Config
	listener net.Listener
	server   *http.Server
	log      *slog.Logger
	serving  sync.WaitGroup
	stop     sync.Once
	stopErr  error
}

// Listen binds an endpoint's address and serves until Stop. INVALID_ARGUMENT is the error of an address that cannot be bound, and of
// profiles that would be everybody's.
func Listen(c Config) (*Endpoint, error) {
	c.Log = cmp.Or(c.Log, slog.Default())
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return nil, status.InvalidArgumentf("the HTTP address %q is not host:port: %v", c.Address, err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port))
	if err != nil {
		return nil, status.InvalidArgumentf("the HTTP endpoint cannot listen at %s: %v", c.Address, err)
	}
	c.local = listener.Addr().(*net.TCPAddr).IP.IsLoopback()
	if c.open() && !c.local {
		if c.Pprof {
			return nil, errors.Join(status.InvalidArgumentf("profiles at %s would be everybody's who reaches it: give the server certificates, tokens or a policy, or let the HTTP endpoint listen on the loopback interface", c.Address),
				listener.Close())
		}
		c.Log.Warn("whoever reaches the HTTP endpoint sees the state of the cluster: there are no certificates, tokens or policy", "address", listener.Addr().String())
	}
	e := &Endpoint{config: c, listener: listener, log: c.Log}
	if host != "" {
		c.Hosts = append([]string{host}, c.Hosts...)
	}
	e.server = &http.Server{Handler: Handler(c), ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), Protocols: new(http.Protocols)}
	e.server.Protocols.SetHTTP1(true)
	if c.Credentials != nil {
		e.server.TLSConfig = serverTLS(c.Credentials)
	}
	limited := netutil.LimitListener(listener, maxConnections)
	e.serving.Go(contain.Func(c.Log, "The HTTP endpoint", func() { e.serve(limited) }, nil))
	return e, nil
}

func (e *Endpoint) serve(l net.Listener) {
	var err error
	if e.server.TLSConfig != nil {
		err = e.server.ServeTLS(l, "", "")
	} else {
		err = e.server.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		e.log.Error("the HTTP endpoint has ended", "address", e.Address(), "error", err)
	}
}

// serverTLS is what the task's port speaks, but that a certificate may be missing: probes have none, and the others
// are asked for one, or for a token, by the handler.
func serverTLS(k *access.Credentials) *tls.Config {
	c := k.Server("http/1.1")
	each := c.GetConfigForClient
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		one, err := each(hello)
		if err == nil {
			one.ClientAuth = tls.VerifyClientCertIfGiven
		}
		return one, err
	}
	return c
}

// Address is the host:port that is bound.
func (e *Endpoint) Address() string { return e.listener.Addr().String() }

// URL is where the endpoint is found.
func (e *Endpoint) URL() string {
	scheme := "http"
	if e.config.Credentials != nil {
		scheme = "https"
	}
	return scheme + "://" + e.Address() + "/"
}

// Stop ends the endpoint: no request is taken any more, and those that run may end until ctx does, for a second at most.
// Further calls give the first one's result.
func (e *Endpoint) Stop(ctx context.Context) error {
	e.stop.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, stopTime)
		defer cancel()
		err := e.server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			err = e.server.Close()
		}
		e.serving.Wait()
		e.stopErr = err
	})
	return e.stopErr
}
