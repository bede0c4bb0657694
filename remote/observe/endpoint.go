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
	"github.com/troupe-run/troupe/remote/internal/logs"
)

const (
	maxHeader  = 16 << 10 // bytes
	headerTime = 5 * time.Second
	readTime   = 10 * time.Second
	writeTime  = 30 * time.Second
	idleTime   = time.Minute
	// stopTime bounds Stop: answers that take longer are cut off.
	stopTime = time.Second
)

// Config says what an endpoint serves, and to whom.
type Config struct {
	// Address is the host:port to listen on. Without a host it is the loopback interface; port 0 is a free port.
	Address string
	// Tasks are the tasks of the process.
	Tasks *Tasks
	// Hosts are names under which the endpoint is reached, besides localhost, addresses and the host of Address: requests with another Host
	// header are refused.
	Hosts []string
	// Pprof enables profiles of the process.
	Pprof bool
	// Queues bounds the queues of a task that have their own metrics, the largest first; 0 means DefaultQueues.
	Queues int
	// Credentials, if set, encrypt the connections, and certificates identify callers.
	Credentials *access.Credentials
	// Guard, if set, decides who may see what.
	Guard *access.Guard
	// UI, if set, serves all other paths. The contexts of its requests are those that the acts of Tasks need.
	UI  http.Handler
	Log *slog.Logger // nil: slog.Default()

	local bool // the endpoint listens on the loopback interface
}

// open reports whether nothing restricts who may see what.
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

// CheckAddress rejects an address that is not host:port, with INVALID_ARGUMENT.
func CheckAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return status.InvalidArgumentf("the HTTP address %q is not host:port: %v", address, err)
	}
	return nil
}

// Listen binds an endpoint's address and serves until Stop. INVALID_ARGUMENT is the error for an address that cannot be bound, and for
// profiles that everybody could read.
func Listen(c Config) (*Endpoint, error) {
	c.Log = logs.Limited(c.Log)
	if err := CheckAddress(c.Address); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return nil, err
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
	e.server = &http.Server{Handler: within(Handler(c)), ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), Protocols: new(http.Protocols)}
	e.server.Protocols.SetHTTP1(true)
	if c.Credentials != nil {
		e.server.TLSConfig = serverTLS(c.Credentials)
	}
	limited := newRoom(listener)
	e.server.ConnState, e.server.ConnContext = limited.changed, limited.context
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

// serverTLS is the TLS configuration of the task's port, except that the certificate is optional: probes have none, and the handler asks
// other callers for a certificate or a token.
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

// Address returns the bound host:port.
func (e *Endpoint) Address() string { return e.listener.Addr().String() }

// URL returns the endpoint's URL.
func (e *Endpoint) URL() string {
	scheme := "http"
	if e.config.Credentials != nil {
		scheme = "https"
	}
	return scheme + "://" + e.Address() + "/"
}

// Stop stops the endpoint: it accepts no more requests, and running ones may finish until ctx ends, for at most a second. Further calls
// return the first one's result.
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
