// Package member makes a process a task of the cluster: it binds one port for everything, keeps links to the other tasks, learns by gossip
// which of them are alive, and hosts the program's actors. It runs no graphs: what a server does for sessions, package remote adds to it.
package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/internal/turns"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/actorservice"
	"github.com/troupe-run/troupe/remote/internal/actorservice/actorspb"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/logs"
	"github.com/troupe-run/troupe/remote/internal/membership"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
	"go.opentelemetry.io/otel/trace"
)

// Config describes a member: which task of which cluster it is, and who may reach it.
type Config struct {
	// Spec is the declared cluster; Job and Task say which of its tasks this is.
	Spec *spec.Spec
	Job  string
	Task int
	// Bind, if set, is the host:port to bind instead of the task's address, for a task that is reached through a forwarded port.
	Bind string
	// Claimed means that the process itself has chosen the task, as a free one. It serves only if running tasks find it at the task's address.
	Claimed bool
	// NoLending keeps processes of the same machine from reading large tensors out of each other's memory, and tasks of the same process from
	// taking over each other's tensors. Such tensors then go over the connection.
	NoLending bool
	// Startup is how long after the member's start what needs a task that has never been seen waits for it.
	Startup time.Duration
	// Actors are the kinds of the program's own actors, by name. ActorLimit bounds these actors; 0 means cast.MaxActors.
	Actors     map[string]cast.Maker
	ActorLimit int
	// Traces, if set, receives the spans of messages to these actors.
	Traces trace.TracerProvider
	// Credentials, if set, encrypt all connections and identify tasks and clients by their certificates. Their owner closes them after the
	// member has stopped.
	Credentials *access.Credentials
	// Guard, if set, decides who may call the task and what callers may do.
	Guard *access.Guard
	// SecretFile, if set, is the file with the secret that the cluster's tasks share; see package trust.
	SecretFile string
	// Outsiders allows processes that are not tasks of the cluster to exchange messages with the program's actors.
	Outsiders bool
	// Guest means that the cluster is one that a client declared among servers: certificates do not name its tasks.
	Guest bool
	// Insecure means that the owner knows that whoever reaches the port may use it.
	Insecure bool
	Network  network.Network // nil: the machine's
	Private  bool            // only this process reaches the network, so an open port needs no warning
	Log      *slog.Logger    // nil: slog.Default()

	// Together, if not nil, is shared by the tasks of a process that log once what each would log.
	Together *Together

	// Streams are the methods of the services that are added which are not unary. Clients may call them while the member starts.
	Streams map[string]port.Shape
	// Admissions are those of the methods that are added.
	Admissions Admissions
	// ConnectionClosed, if set, is called when a client's connection has ended.
	ConnectionClosed func(number uint64)
}

// DefaultStartup is long enough for people who start tasks by hand, and for machines that load the tasks' images.
const DefaultStartup = 2 * time.Minute

// Check rejects a configuration that is known to be invalid before anything is opened or bound. The error is INVALID_ARGUMENT.
func (c *Config) Check() error {
	if c.Startup <= 0 {
		return status.InvalidArgumentf("The time in which a cluster starts must be positive, not %v", c.Startup)
	}
	if c.Bind != "" {
		if _, _, err := spec.SplitAddress(c.Bind); err != nil {
			return status.InvalidArgumentf("the address to bind (--bind, WithBind) is invalid: %s", status.From(err).Message)
		}
	}
	if c.ActorLimit < 0 {
		return status.InvalidArgumentf("the limit of the program's actors (WithActorLimit) is negative: %d", c.ActorLimit)
	}
	// Peers would refuse a certificate that does not name the task.
	if k := c.Credentials; k != nil && !k.Name().IsTask(c.Job, c.Task) {
		return status.InvalidArgumentf("the certificate of %s does not let its owner be %s: use the one of %s (--tls-cert, WithCredentials)",
			k.Name(), spec.TaskName(c.Job, c.Task), access.TaskName(c.Job, c.Task))
	}
	return nil
}

// Landing is what a member computes on: its devices, and where tensors for them arrive. The zero Landing, but for Reachable, is that of a member
// without devices.
type Landing struct {
	// Devices are as other tasks learn them; Describe returns them as they are now.
	Devices  []device.Attributes
	Describe func() []device.Attributes
	Pool     *tensor.Pool // of the memory that tensors arrive in
	Sink     link.Sink
	// Reachable reports whether other tasks may send to a role by its name.
	Reachable func(name string) bool
	// Uses reports whether the link to a task is needed even when nothing passes over it.
	Uses func(task string) bool
}

func (l *Landing) describe() []device.Attributes {
	if l.Describe == nil {
		return l.Devices
	}
	return l.Describe()
}

// Member is a running task of a cluster. Its methods are safe for concurrent use.
type Member struct {
	config  Config
	spec    *spec.Spec
	self    spec.Task
	boot    uint64
	started time.Time
	log     *slog.Logger
	secret  *trust.Secret // nil if there is none
	// everywhere is why the port is bound on all interfaces although the spec names another host; empty if it is not.
	everywhere string
	landing    Landing
	work       Work
	events     view.Events
	presence   *presence
	port       *port.Port
	links      *link.Links
	cast       *cast.Cast
	reached    reached
	linked     atomic.Pointer[link.Links] // links, for messages that are sent while the member starts
	// cast, for queries and messages that arrive while the member starts
	performing atomic.Pointer[cast.Cast]
	// The gossip: other tasks' messages arrive before it has begun.
	gossiping atomic.Pointer[membership.Membership]

	admissions Admissions   // not changed
	traces     atomic.Int32 // traces being collected
	looks      *turns.Turns // of calls that look at tasks
}

// Listen binds the task's port. Calls that arrive wait for Open, for a bounded time. Errors: INVALID_ARGUMENT for a task that the cluster
// does not have, FAILED_PRECONDITION for a port that is taken. What follows is Connect, Perform and Open, in this order.
func Listen(c Config) (*Member, error) {
	c.Log = logs.Limited(c.Log)
	self, err := c.Spec.Task(c.Job, c.Task)
	if err != nil {
		return nil, err
	}
	m := &Member{config: c, spec: c.Spec, self: self, boot: rand.Uint64() | 1, started: time.Now(), log: c.Log, looks: turns.New(maxLooks)}
	m.admissions = admissions()
	maps.Copy(m.admissions, c.Admissions)
	if c.Guard != nil {
		c.Guard.OnRefusal(m.Refused)
	}
	if err := m.loadSecret(); err != nil {
		return nil, err
	}
	credentials := m.credentials()
	bound, err := m.bind()
	if err != nil {
		return nil, err
	}
	m.port, err = port.Listen(port.Config{Address: self.Address, Bind: bound, Credentials: credentials, Logger: c.Log, Closed: m.connectionClosed,
		RequestMemory: RequestMemory(), AnswerMemory: answerMemory(),
		Holder: link.Holder(port.Caller(c.Network, credentials)), Resolve: m.resolve, Expects: m.Streams(), Network: c.Network})
	if err != nil {
		return nil, err
	}
	// Port 0 has become a real port.
	if m.spec, err = c.Spec.WithAddress(c.Job, c.Task, m.port.Addr()); err == nil {
		m.self, err = m.spec.Task(c.Job, c.Task)
	}
	if err != nil {
		return nil, errors.Join(err, m.port.Stop(context.Background()))
	}
	if m.everywhere != "" {
		c.Log.Info("the port is bound on all interfaces: "+m.everywhere, "task", m.self.Name(), "address", m.self.Address)
	}
	return m, nil
}

// bind returns the host:port to bind.
func (m *Member) bind() (string, error) {
	c := &m.config
	if c.Bind != "" {
		return c.Bind, nil
	}
	// A claim is made by binding the task's own address.
	open := !c.Claimed && (c.Credentials != nil || c.SecretFile != "" || c.Insecure)
	b, err := Bind(context.Background(), c.Network, m.spec, m.self, open)
	if err != nil {
		return "", err
	}
	if b.Warning != "" {
		c.Log.Warn(b.Warning)
	}
	if m.everywhere = b.Everywhere; m.everywhere != "" {
		c.Bind = b.Address // guests do the same
	}
	return b.Address, nil
}

// Streams returns the methods of the task that are not unary. Links and clients may call them while the member starts.
func (m *Member) Streams() map[string]port.Shape {
	all := map[string]port.Shape{link.Method: port.Stream, link.BulkMethod: port.Stream, actorspb.Watch: port.ServerStream}
	maps.Copy(all, m.config.Streams)
	return all
}

// Rejoin gives a member that does not serve yet the cluster's spec with the addresses of all its tasks. Error: INVALID_ARGUMENT for a cluster
// that does not have this task at its address.
func (m *Member) Rejoin(s *spec.Spec) error {
	if self, ok := s.ByName(m.self.Name()); !ok || self != m.self {
		return status.InvalidArgumentf("The cluster %v does not have %v", s, m.self)
	}
	m.spec = s
	return nil
}

// Connect makes the links to the other tasks. Streams that arrive wait for Open.
func (m *Member) Connect(l Landing) {
	c := &m.config
	if l.Sink == nil {
		l.Sink = nowhere{m}
	}
	m.landing = l
	m.presence = newPresence(m)
	m.links = link.New(link.Config{Spec: m.spec, Self: m.self, Boot: m.boot, Version: Version(), Devices: l.Devices, Call: m.port.Call, Open: m.openStream,
		System: m.port.System(), Reachable: l.Reachable, Secret: m.secret, Identify: m.identify(), Confirm: m.confirms(), Strangers: m.strangers(),
		Programs: programs{m}, Outsiders: c.Outsiders, AdmitOutsider: m.mayUseActors, Pool: l.Pool, Sink: l.Sink, InUse: m.uses, Changed: m.presence.changed, Stalled: m.stalled, NoLending: c.NoLending, Logger: c.Log,
		Seen: m.seenByGossip, Timing: link.Timing{Startup: c.Startup - time.Since(m.started)}})
	m.linked.Store(m.links)
}

// Perform makes the place of the program's actors, and the services of links, actors and operators. Other services may be registered until Open.
func (m *Member) Perform(w Work) {
	m.work = w
	m.cast = m.newCast()
	m.performing.Store(m.cast)
	services := m.port.Services()
	services.Admit(m.admitCall)
	if w.Unknown != nil {
		services.Explain(func(path string) error { return wire.ToGRPC(w.Unknown(path)) })
	}
	actorservice.Register(services, m.cast, m.mayUseActors)
	wire.RegisterOperator(services, m, m.MayList, m.mayLook)
	m.links.Register(services.Early())
	m.links.Handle(func(method string, serve func(context.Context, link.Stream) error) {
		services.HandleStream(method, func(ctx context.Context, s *http2.Stream) error { return serve(ctx, s) })
	})
}

// Open begins the gossip, and serves. ALREADY_EXISTS means that another process is already this task.
func (m *Member) Open(ctx context.Context) error {
	gossip, err := membership.Start(ctx, membership.Config{Spec: m.spec, Self: m.self, Port: m.port, Links: m.links,
		Events: m.heard, Confirm: m.config.Claimed, Keys: m.gossipKeys(), Logger: m.log})
	if err != nil {
		return err
	}
	m.gossiping.Store(gossip)
	m.presence.start()
	m.events.Add("server started", m.self.Name(), m.self.Address)
	m.port.Services().Open()
	m.port.Services().Serving(true)
	if warning := m.Exposed(); warning != "" {
		m.log.Warn(warning)
	}
	return nil
}

// Close begins the member's end: load balancers send no more calls. Leave and Stop follow, also if the member never served.
func (m *Member) Close() {
	m.events.Add("server stopping", m.self.Name(), "")
	m.port.Services().Serving(false)
}

// Leave hands over the program's actors that can move, tells the other tasks that the end is on purpose, and ends the actors. What uses the
// links may go on until Stop.
func (m *Member) Leave(ctx context.Context) error {
	var errs []error
	if m.presence != nil {
		m.presence.stop()
	}
	if m.cast != nil { // first, while other tasks still talk to this one
		m.cast.HandOver(ctx)
	}
	if g := m.gossiping.Load(); g != nil { // early, so that peers know that the end is on purpose
		errs = append(errs, g.Leave(ctx))
	}
	if m.cast != nil { // its actors may use sessions, which are still there
		errs = append(errs, m.cast.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Stop ends the links and releases the port.
func (m *Member) Stop(ctx context.Context) error {
	var errs []error
	if m.links != nil {
		errs = append(errs, m.links.Close(ctx))
	}
	return errors.Join(append(errs, m.port.Stop(ctx))...)
}

// nowhere is the sink of a member without devices.
type nowhere struct{ member *Member }

// Begin refuses a tensor.
func (n nowhere) Begin(string, uint64, uint64, []byte, int) ([]byte, func(error), error) {
	return nil, nil, status.Errorf(status.Unavailable, "%s has no devices", n.member.self.Name())
}

// Take drops a tensor.
func (nowhere) Take(_ uint64, _ transfer.Key, t *tensor.Tensor) { t.Release() }

// uses reports whether the link to a task is needed even when nothing passes over it.
func (m *Member) uses(task string) bool {
	c := m.performing.Load()
	return m.landing.Uses != nil && m.landing.Uses(task) || c != nil && c.Uses(task) || m.presence.holds()
}

func (m *Member) connectionClosed(number uint64) {
	if g := m.config.Guard; g != nil {
		g.ConnectionClosed(number)
	}
	if f := m.config.ConnectionClosed; f != nil {
		f(number)
	}
}

// resolve returns the process that sends to an actor of another task.
func (m *Member) resolve(pid *actor.PID) (actor.Process, bool) {
	if l := m.linked.Load(); l != nil {
		return l.Resolve(pid)
	}
	return nil, false
}

func (m *Member) openStream(ctx context.Context, address, method string) (link.Stream, error) {
	s, err := m.port.OpenStream(ctx, address, method)
	if err != nil {
		return nil, err // not a nil *http2.Stream
	}
	return s, nil
}

// Refused records an event for a call that a policy or one of its limits refused, or for a failed login. It does not block.
func (m *Member) Refused(e access.Event) {
	who := e.From
	if e.What != "login" {
		who = e.Who.String()
	}
	m.events.AddSomeOf(who, e.What+" refused", who, view.Line(e.Refused.Error()))
}

// stalled records that a task does not accept tensors.
func (m *Member) stalled(task string, bytes int64) {
	m.events.AddSome("link stalled", task, fmt.Sprintf("it accepts none of the %d bytes of tensors queued for it", bytes))
}

// heard handles an event of gossip.
func (m *Member) heard(e membership.Event) {
	switch {
	case e.Refused != nil:
		m.log.Warn("a process was refused", "task", e.Member.Task.Name(), "reason", e.Refused)
		m.events.Add("process refused", e.Member.Task.Name(), e.Refused.Error())
	default:
		m.presence.changed(e.Member.Task.Name())
	}
}

// Target returns the target for clients. Without certificates, if the port is bound on all interfaces, it names localhost.
func (m *Member) Target() string {
	if m.everywhere != "" && m.config.Credentials == nil {
		_, number, err := spec.SplitAddress(m.self.Address)
		if err == nil {
			return "grpc://" + net.JoinHostPort("localhost", strconv.Itoa(number))
		}
	}
	return "grpc://" + m.self.Address
}

// Address returns the task's host:port as declared, but with the real port.
func (m *Member) Address() string { return m.self.Address }

// Bound returns the host:port that a guest of this task binds, but for its port; empty for the address of its task.
func (m *Member) Bound() string { return m.config.Bind }

// Spec returns the cluster spec, with the real port of this task.
func (m *Member) Spec() *spec.Spec { return m.spec }

// Self returns this task.
func (m *Member) Self() spec.Task { return m.self }

// Boot returns the number of this process as a task, by which others know that it is another one than before.
func (m *Member) Boot() uint64 { return m.boot }

// Started returns when Listen was called.
func (m *Member) Started() time.Time { return m.started }

// Log returns the member's logger.
func (m *Member) Log() *slog.Logger { return m.log }

// Events returns what has happened to the cluster as this task knows it. Others may add to it.
func (m *Member) Events() *view.Events { return &m.events }

// Port returns the task's port.
func (m *Member) Port() *port.Port { return m.port }

// Links returns the links to other tasks; nil before Connect.
func (m *Member) Links() *link.Links { return m.links }

// Gossip returns what gossip knows of the cluster; nil before Open.
func (m *Member) Gossip() *membership.Membership { return m.gossiping.Load() }

// Cast returns the place of the program's actors; nil before Perform.
func (m *Member) Cast() *cast.Cast { return m.cast }

// ShuttingDown is the error of a call that comes while the task ends.
func (m *Member) ShuttingDown() error {
	return status.Errorf(status.Unavailable, "The server of %s is shutting down", m.self.Name())
}
