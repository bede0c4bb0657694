package port

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/http2"
	"github.com/troupe-run/troupe/remote/spec"
)

// What both ends of a connection are set to. The windows bound what a peer can make this
// process buffer for one stream and one connection, and are large enough that a tensor's
// transfer never waits for an update on a fast network.
const (
	streamWindow     = 16 << 20  // bytes
	connWindow       = 32 << 20  // bytes
	ioBuffer         = 128 << 10 // bytes
	handshakeTimeout = 5 * time.Second
	stopTimeout      = 5 * time.Second // of Stop, if its context has no deadline
	endTimeout       = 3 * time.Second // for handlers and the library's actors to see that it is over
	freePortTries    = 32
	pingIdle         = 30 * time.Second // a connection that is quiet for so long is pinged
	pingAnswer       = 10 * time.Second
)

// Config says what to listen on.
type Config struct {
	// Address is the task's host:port, exactly as in the cluster spec: peers compare it. With
	// port 0 a port is chosen that is free for TCP and UDP.
	Address string
	// Bind, if set, is the host:port to bind in place of Address, for a server that is reached
	// through a forwarded port. Else exactly the host of Address is bound.
	Bind string
	// TLS, if set, encrypts every TCP connection, both those accepted and those dialled, with
	// this one configuration (for mutual authentication set Certificates, ClientCAs,
	// ClientAuth and RootCAs). UDP is not covered: gossip has a key of its own.
	TLS *tls.Config
	// Holder, if set, asks who serves an address that is taken; its answer goes into the error.
	Holder func(ctx context.Context, address string) string
	// Closed, if set, is told of every accepted connection that ends, by its number (see
	// ConnectionOf). It must not block.
	Closed func(connection uint64)
	// Resolve, if set, finds the process behind a PID of another address before the remoting does;
	// false leaves it to that.
	Resolve func(pid *actor.PID) (actor.Process, bool)
	Logger  *slog.Logger // nil: slog.Default()
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
	mute     *muteGuard
	dialled  *conns // by the remoting
	system   *actor.ActorSystem
	remote   *remote.Remote

	stopping sync.Once
}

// starting is held for writing while a remoting starts, which writes gRPC's logger for the whole process, and for
// reading while one stops, which logs.
var starting sync.RWMutex

// Listen binds the port and starts the actors' remoting. Other services answer after
// Services().Open(). A taken port is FAILED_PRECONDITION, a bad address INVALID_ARGUMENT.
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

// listen makes one attempt. UDP goes first, because it is the one that is held from choosing
// a free port on; the library binds TCP itself.
func listen(config Config, host string, number int, local *net.TCPAddr) (*Port, error) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: local.IP, Port: local.Port, Zone: local.Zone})
	if err != nil {
		return nil, err
	}
	bound := udp.LocalAddr().(*net.UDPAddr).Port
	probe, err := net.ListenTCP("tcp", &net.TCPAddr{IP: local.IP, Port: bound, Zone: local.Zone})
	if err != nil {
		udp.Close()
		return nil, err
	}
	probe.Close()
	if number == 0 {
		number = bound
	}
	p := &Port{address: net.JoinHostPort(host, strconv.Itoa(number)), config: config, log: config.Logger, udp: udp,
		services: newServices(config.Logger), mute: &muteGuard{}, dialled: newConns()}
	p.http = http2.NewServer(http2.Config{Lookup: p.services.lookup, Codec: Codec{}, Closed: config.Closed, Logger: config.Logger,
		About: "This is a Troupe task (gRPC over HTTP/2). TensorFlow's client connects to it as grpc://" + p.address + "."})
	p.mux = newMux(config.TLS, p.http)
	// The throttle of dead letters keeps a goroutine for its interval.
	p.system = actor.NewActorSystem(actorLogger(p.log, p.mute), actor.WithDeadLetterThrottleInterval(100*time.Millisecond))
	shrinkRegistry(p.system)
	ip := local.IP.String()
	if local.IP.To4() == nil {
		ip = "[" + (&net.IPAddr{IP: local.IP, Zone: local.Zone}).String() + "]"
	}
	if err := p.start(ip, bound); err != nil {
		udp.Close()
		return nil, errors.Join(err, p.http.Stop(context.Background(), endTimeout))
	}
	return p, nil
}

// start starts the remoting; another process may have taken the port since it was probed, and
// then the library panics.
func (p *Port) start(host string, port int) (err error) {
	starting.Lock()
	defer starting.Unlock()
	p.mute.arm()
	defer p.mute.restore()
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if !ok {
				cause = fmt.Errorf("%v", r)
			}
			err = cause
		}
	}()
	config := remote.Configure(host, port,
		remote.WithAdvertisedHost(p.address),
		remote.WithServerOptions(p.serverOptions()...),
		remote.WithDialOptions(append(dialOptions(p.config.TLS), grpc.WithTransportCredentials(newRemotingCreds(p.config.TLS)), grpc.WithContextDialer(p.dialled.dial),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: handshakeTimeout}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}))...),
		remote.WithEndpointWriterBatchSize(64),
		remote.WithEndpointWriterQueueSize(1024))
	// Every further try costs its messages two seconds more and leaks a connection; links and
	// membership know better whether a peer is there.
	config.MaxRetryCount = 1
	if p.config.Resolve != nil {
		p.system.ProcessRegistry.RegisterAddressResolver(p.config.Resolve)
	}
	p.remote = remote.NewRemote(p.system, config)
	p.remote.Start()
	return p.awaitServing()
}

// awaitServing waits until the library's goroutine accepts connections. A server that is
// stopped before that would keep the port for a moment longer.
func (p *Port) awaitServing() error {
	c, err := net.DialTimeout("tcp", p.tcpAddr(), handshakeTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	limit := time.NewTimer(handshakeTimeout)
	defer limit.Stop()
	select {
	case <-p.mux.serving.seen:
		return nil
	case <-limit.C:
		return fmt.Errorf("the server accepted no connection within %v", handshakeTimeout)
	}
}

// tcpAddr is where this process itself reaches the port.
func (p *Port) tcpAddr() string { return p.udp.LocalAddr().String() }

func (p *Port) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(p.mux),
		grpc.ChainStreamInterceptor(p.services.guardStream),
		grpc.ChainUnaryInterceptor(p.services.guardUnary),
		grpc.ForceServerCodecV2(Codec{}),
		grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(ioBuffer),
		grpc.WriteBufferSize(ioBuffer),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		// A peer whose machine is gone says nothing: its connection ends when it answers no ping.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingIdle, Timeout: pingAnswer}),
	}
}

// dialOptions are the options for the remoting's connections to other tasks' ports. No proxy of the
// environment stands between tasks.
func dialOptions(config *tls.Config) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if config != nil {
		config := config.Clone()
		config.NextProtos = []string{protoHTTP2}
		creds = credentials.NewTLS(config)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(ioBuffer),
		grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	}
}

// Addr is the host:port that peers use, with the chosen port in place of port 0.
func (p *Port) Addr() string { return p.address }

// System is the port's actor system; its PIDs carry Addr.
func (p *Port) System() *actor.ActorSystem { return p.system }

// Remote is the library's remoting, to spawn by kind.
func (p *Port) Remote() *remote.Remote { return p.remote }

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
	served := p.http.Stop(ctx, endTimeout)
	handlers, dialled := p.services.handlers.close(), p.dialled.close()
	p.mux.streams.stop()
	accepted := p.mux.accepted.close()
	down := make(chan struct{})
	go func() {
		defer close(down)
		// Not gracefully: that waits for streams that never end, ten seconds if a peer is
		// frozen, and races with the library's own actors.
		starting.RLock()
		p.remote.Shutdown(false)
		starting.RUnlock()
		// The connections to peers are closed by the children of this actor of the library.
		if err := p.system.Root.StopFuture(p.system.NewLocalPID("EndpointSupervisor")).Wait(); err != nil {
			p.log.Debug("the remoting's endpoints did not stop", "error", err)
		}
	}()
	err := errors.Join(served, p.udp.Close())
	limit := time.NewTimer(endTimeout)
	defer limit.Stop()
	for _, done := range []<-chan struct{}{handlers, down, dialled, accepted} {
		select {
		case <-done:
		case <-limit.C:
			return errors.Join(err, status.Errorf(status.DeadlineExceeded, "Some calls at %s or its connections to peers had not ended %v after the port was closed.", p.address, endTimeout))
		}
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
