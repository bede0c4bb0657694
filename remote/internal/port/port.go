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
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	handshakeTimeout = 5 * time.Second // of a connection, from its first byte
	stopTimeout      = 5 * time.Second // of Stop, if its context has no deadline
	endTimeout       = 3 * time.Second // for handlers to see that it is over
	freePortTries    = 32
)

// Config says what to listen on.
type Config struct {
	// Address is the task's host:port, exactly as in the cluster spec: peers compare it. With
	// port 0 a port is chosen that is free for TCP and UDP.
	Address string
	// Bind, if set, is the host:port to bind in place of Address, for a server that is reached
	// through a forwarded port. Else exactly the host of Address is bound.
	Bind string
	// Credentials, if set, encrypt every TCP connection, both those accepted and those dialled. Callers
	// without TLS are told so. UDP is not covered: gossip has a key of its own.
	Credentials Credentials
	// Holder, if set, asks who serves an address that is taken; its answer goes into the error.
	Holder func(ctx context.Context, address string) string
	// Closed, if set, is told of every accepted connection that ends, by its number (see
	// ConnectionOf). It must not block.
	Closed func(connection uint64)
	// RequestMemory and AnswerMemory bound the bytes of the requests that are on their way to the port, and of the answers
	// that its clients do not read. 0 is 8 GiB.
	RequestMemory, AnswerMemory int64
	// Resolve, if set, finds the process behind a PID of another address; false where there is none.
	Resolve func(pid *actor.PID) (actor.Process, bool)
	Logger  *slog.Logger // nil: slog.Default()
}

// Credentials are what a port's connections are encrypted with. All methods may be called concurrently.
type Credentials interface {
	// Server is the configuration of connections that are accepted and speak one of the protocols (ALPN).
	Server(protocols ...string) *tls.Config
	// Client is the configuration of a connection to the port at an address.
	Client(address string, protocols ...string) *tls.Config
	// Gossips tells why the other end of a connection may not take part in the gossip, or nil.
	Gossips(tls.ConnectionState) error
	// Watch closes an accepted connection when its other end is not trusted any more, until forget is called.
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
	udp      *net.UDPConn
	system   *actor.ActorSystem

	stopping sync.Once
}

// Listen binds the port and begins to accept connections. Services answer after Services().Open(). A taken port is FAILED_PRECONDITION, a bad address INVALID_ARGUMENT.
func Listen(config Config) (*Port, error) {
	if config.Logger == nil {
		config.Logger = slog.Default()
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

// listen makes one attempt. UDP goes first: it is the one that chooses a free port.
func listen(config Config, host string, number int, local *net.TCPAddr) (*Port, error) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: local.IP, Port: local.Port, Zone: local.Zone})
	if err != nil {
		return nil, err
	}
	bound := udp.LocalAddr().(*net.UDPAddr).Port
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: local.IP, Port: bound, Zone: local.Zone})
	if err != nil {
		return nil, errors.Join(err, udp.Close())
	}
	if number == 0 {
		number = bound
	}
	p := &Port{address: net.JoinHostPort(host, strconv.Itoa(number)), config: config, log: config.Logger, udp: udp, services: newServices(config.Logger)}
	p.http = http2.NewServer(http2.Config{Lookup: p.services.lookup, Codec: Codec{}, Closed: config.Closed, Logger: config.Logger,
		MaxReceiving: config.RequestMemory, MaxUnsent: config.AnswerMemory, MaxConnections: connectionLimit(openFiles()),
		About: "This is a Troupe task (gRPC over HTTP/2). TensorFlow's client connects to it as grpc://" + p.address + "."})
	// The throttle of dead letters keeps a goroutine for its interval.
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

// Addr is the host:port that peers use, with the chosen port in place of port 0.
func (p *Port) Addr() string { return p.address }

// Connections is how many connections are open that clients make calls over, and other tasks their calls outside of links.
func (p *Port) Connections() int { return p.http.Connections() }

// System is the port's actor system; its PIDs carry Addr.
func (p *Port) System() *actor.ActorSystem { return p.system }

// Services are the port's further gRPC services.
func (p *Port) Services() *Services { return p.services }

// Stop refuses new calls, waits for the running unary ones until ctx ends (5 s if it has no
// deadline), then ends every stream and connection and frees the port. Stop the actors that
// send first. The error tells of handlers that would not end; the port is free all the same.
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
	p.services.Open() // a call that still waits for the start is refused, not kept
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
