package port

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	handshakeTimeout = 5 * time.Second // of a connection, including its first byte
	stopTimeout      = 5 * time.Second // of Stop, if its context has no deadline
	endTimeout       = 3 * time.Second // for handlers to return after their connections are closed
	freePortTries    = 32
)

// Config configures a port.
type Config struct {
	// Address is the task's host:port, exactly as in the cluster spec: peers compare it. If the port
	// is 0, Listen chooses one that is free for TCP and UDP.
	Address string
	// Bind, if set, is the host:port to bind in place of Address, for a server that is reached
	// through a forwarded port. If it is empty, the host of Address is bound.
	Bind string
	// Credentials, if set, encrypt every TCP connection, both accepted and dialled. Callers
	// without TLS receive an error that says so. UDP is not covered: gossip has its own key.
	Credentials Credentials
	// Holder, if set, returns a description of the process that serves an address that is in use. It is part of the error.
	Holder func(ctx context.Context, address string) string
	// Closed, if set, is called with the number of every accepted connection that ends (see
	// ConnectionOf). It must not block.
	Closed func(connection uint64)
	// RequestMemory bounds the bytes of the requests that the port is receiving, AnswerMemory those of the answers
	// that its clients have not read. 0 means 8 GiB.
	RequestMemory, AnswerMemory int64
	// Resolve, if set, returns the actor.Process behind a PID of another address, or false if there is none.
	Resolve func(pid *actor.PID) (actor.Process, bool)
	// Expects are the methods, by path, that are not unary and that will be added before Services.Open. Their early calls wait for that, as those of
	// all unary methods do; what an early call of another path is cannot be known.
	Expects map[string]Shape
	Network network.Network // nil: the machine's
	Logger  *slog.Logger    // nil: slog.Default()
}

// Credentials encrypt and authenticate a port's connections. All methods may be called concurrently.
type Credentials interface {
	// Server returns the configuration for accepted connections, which speak one of the protocols (ALPN).
	Server(protocols ...string) *tls.Config
	// Client returns the configuration for a connection to the port at an address.
	Client(address string, protocols ...string) *tls.Config
	// Gossips returns nil if the other end of a connection may take part in the gossip, else the reason why not.
	Gossips(tls.ConnectionState) error
	// Watch closes an accepted connection when its other end is no longer trusted, until forget is called.
	Watch(conn io.Closer, state tls.ConnectionState) (forget func(), err error)
}

// Port is a listening port with its actor system. All methods may be called concurrently.
type Port struct {
	address  string
	config   Config
	log      *slog.Logger
	services *Services
	http     *http2.Server
	mux      *mux
	udp      net.PacketConn
	system   *actor.ActorSystem

	stopping sync.Once
}

// Listen binds the port and begins to accept connections. Services answer after Services().Open(). Listen returns FAILED_PRECONDITION if
// the port is in use, and INVALID_ARGUMENT for a bad address.
func Listen(config Config) (*Port, error) {
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Network == nil {
		config.Network = network.System
	}
	host, number, err := spec.SplitAddress(config.Address)
	if err != nil {
		return nil, err
	}
	bind := config.Bind
	if bind == "" {
		bind = config.Address
	}
	if _, _, err := spec.SplitAddress(bind); err != nil {
		return nil, err
	}
	tries := 1
	local, err := net.ResolveTCPAddr("tcp", bind)
	if err != nil {
		return nil, status.InvalidArgumentf("Could not find the address of this server, %s: %v. Name a host of this machine in the cluster spec, or give the address to bind.", bind, err)
	}
	if local.Port == 0 {
		tries = freePortTries
	}
	for {
		p, err := listen(config, host, number, local)
		tries--
		if err == nil || tries == 0 {
			return p, taken(config, local, err)
		}
	}
}

// listen makes one attempt. UDP is bound first, because it chooses the free port.
func listen(config Config, host string, number int, local *net.TCPAddr) (*Port, error) {
	udp, err := config.Network.ListenUDP(&net.UDPAddr{IP: local.IP, Port: local.Port, Zone: local.Zone})
	if err != nil {
		return nil, err
	}
	bound := udp.LocalAddr().(*net.UDPAddr).Port
	tcp, err := config.Network.ListenTCP(&net.TCPAddr{IP: local.IP, Port: bound, Zone: local.Zone})
	if err != nil {
		return nil, errors.Join(err, udp.Close())
	}
	if number == 0 {
		number = bound
	}
	p := &Port{address: net.JoinHostPort(host, strconv.Itoa(number)), config: config, log: config.Logger, udp: udp, services: newServices(config.Logger, config.Expects)}
	p.http = http2.NewServer(http2.Config{Lookup: p.services.lookup, Codec: Codec{}, Closed: config.Closed, Logger: config.Logger,
		MaxReceiving: config.RequestMemory, MaxUnsent: config.AnswerMemory, MaxConnections: connectionLimit(OpenFiles()),
		About: "This is a Troupe task (gRPC over HTTP/2). TensorFlow's client connects to it as grpc://" + p.address + "."})
	// The throttle of dead letters occupies a goroutine for this interval.
	p.system = actor.NewActorSystem(actorLogger(p.log), actor.WithDeadLetterThrottleInterval(100*time.Millisecond))
	p.system.ProcessRegistry.Address = p.address
	if config.Resolve != nil {
		p.system.ProcessRegistry.RegisterAddressResolver(config.Resolve)
	}
	p.mux = newMux(config.Credentials, tcp, p.http, p.log)
	if config.Credentials != nil {
		p.mux.plain = refusePlain(p.address, p.log)
	}
	p.mux.start()
	return p, nil
}

// Addr returns the host:port that peers use, with the chosen port in place of port 0.
func (p *Port) Addr() string { return p.address }

// Connections returns the number of open connections for calls: those of clients, and those of other tasks outside of links.
func (p *Port) Connections() int { return p.http.Connections() }

// System returns the port's actor system; its PIDs carry Addr.
func (p *Port) System() *actor.ActorSystem { return p.system }

// Services returns the port's gRPC services.
func (p *Port) Services() *Services { return p.services }

// Stop refuses new calls and waits for the running unary ones until ctx ends (5 s if it has no
// deadline). Then it ends every stream and connection and frees the port. The actors that
// send must be stopped first. The port is free even if Stop returns an error because of handlers that did not return.
func (p *Port) Stop(ctx context.Context) (err error) {
	p.stopping.Do(func() { err = p.stop(ctx) })
	return err
}

func (p *Port) stop(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stopTimeout)
		defer cancel()
	}
	p.services.Open() // calls that still wait for Open are refused at once
	p.services.health.set(false, true)
	accepting := p.mux.close()
	err := errors.Join(p.http.Stop(ctx, endTimeout), p.udp.Close())
	if p.mux.plain != nil {
		err = errors.Join(err, p.mux.plain.Stop(ctx, endTimeout))
	}
	limit := time.NewTimer(endTimeout)
	defer limit.Stop()
	select {
	case <-accepting:
	case <-limit.C:
		return errors.Join(err, status.Errorf(status.DeadlineExceeded, "Some connections to %s had not ended %v after the port was closed.", p.address, endTimeout))
	}
	p.system.Shutdown()
	return err
}

// taken explains why a port could not be bound, and what to do.
func taken(config Config, local *net.TCPAddr, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		who := "Another process holds the port, perhaps an earlier server of this task."
		if config.Holder != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if holder := config.Holder(ctx, config.Address); holder != "" {
				who = "It is held by " + holder + "."
			}
		}
		return status.Errorf(status.FailedPrecondition, "Could not start the server at %s: port %d is taken. %s Stop that process (`ss -lptun 'sport = :%d'` shows it), or give this task another port in the cluster spec.",
			config.Address, local.Port, who, local.Port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return status.Errorf(status.FailedPrecondition, "Could not start the server at %s: %s is not an address of this machine. Start the task on the machine that the cluster spec names, or give the address to bind.", config.Address, local.IP)
	case errors.Is(err, syscall.EACCES):
		return status.Errorf(status.PermissionDenied, "Could not start the server at %s: this user may not bind port %d. Choose a port above 1023 in the cluster spec.", config.Address, local.Port)
	}
	return status.Errorf(status.FailedPrecondition, "Could not start the server at %s: %v.", config.Address, err)
}
