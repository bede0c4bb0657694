// Package remote assembles a task of the cluster from its parts: one port for everything, links to the other tasks, gossip about which of
// them are alive, the task's actors, and the service for TensorFlow's clients.
package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/internal/turns"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/actorservice"
	"github.com/troupe-run/troupe/remote/internal/actorservice/actorspb"
	"github.com/troupe-run/troupe/remote/internal/eager"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/logs"
	"github.com/troupe-run/troupe/remote/internal/membership"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/profiler"
	"github.com/troupe-run/troupe/remote/internal/tracing"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/internal/workerservice"
	"github.com/troupe-run/troupe/remote/spec"
	"go.opentelemetry.io/otel/trace"
)

// Config describes a task: which one of which cluster, and how it runs.
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
	// StepMemory and SessionMemory bound the host memory of a step and of a session on this task, in bytes; 0 means no bound.
	StepMemory, SessionMemory int64
	// ClientMemory bounds the host memory of all sessions of one client, where clients can be told apart; 0 means three quarters of the
	// process's.
	ClientMemory int64
	// CPUs is the number of CPU devices; 0 means 1. MemoryLimit bounds the bytes of the tensors on each; 0 means no bound but the machine's.
	CPUs        int
	MemoryLimit int64
	// Threads is the maximum number of processors that a kernel is divided among; 0 means all.
	Threads int
	// GPUs lists and opens GPUs; nil means CUDA's, of which a build without CUDA has none. The device_count and gpu_options of GPUConfig say
	// which of them the server uses and how; nil means all.
	GPUs      devices.GPUs
	GPUConfig *corepb.ConfigProto
	// Startup is how long after the node's start what needs a task that has never been seen waits for it; 0 means DefaultStartup.
	Startup time.Duration
	// Lease is how long a session outlives its client's last connection; 0 means DefaultLease. See actors.RestLease.
	Lease    time.Duration
	Defaults actors.SessionDefaults
	// Program has the functions, of the program that owns the node, that graphs call by name; nil means none.
	Program kernels.Program
	// Actors are the kinds of the program's own actors, by name.
	Actors map[string]cast.Maker
	// ActorLimit bounds the program's actors; 0 means cast.MaxActors.
	ActorLimit int
	// Credentials, if set, encrypt all connections and identify tasks and clients by their certificates. Their owner closes them after the
	// node has stopped.
	Credentials *access.Credentials
	// Guard, if set, decides who may call the node and what callers may do.
	Guard *access.Guard
	// Traces, if set, receives the spans of steps.
	Traces trace.TracerProvider
	// SecretFile, if set, is the file with the secret that the cluster's tasks share; see package trust.
	SecretFile string
	// Files are the files that the ops of clients' sessions may use.
	Files actors.FileAccess
	// Data, if set, is where the containers that match a pattern of Durable outlive the process, in a directory of the task's own; the empty
	// pattern is the default container. Guests have those of their host.
	Data    string
	Durable []string
	// DataLimit bounds the bytes of the files in that directory, and CompactionRate how many bytes a second their compaction writes; 0 is none.
	DataLimit, CompactionRate int64
	// Outsiders allows processes that are not tasks of the cluster to exchange messages with the program's actors.
	Outsiders bool
	// End, if set, makes the program end the task and allows running steps the given time, or the program's default if it is 0. End does not
	// block. If it is nil, the task does not end on request.
	End     func(within time.Duration)
	Network network.Network // nil: the machine's
	Private bool            // only this process reaches the network, so an open port needs no warning
	Log     *slog.Logger    // nil: slog.Default()

	// Together, if not nil, is shared by the tasks of a process that log once what each would log.
	Together *Together

	lent    []devices.Device // for a guest: the devices of its host
	kept    *durable.Store   // for a guest: what keeps their durable containers; nil if there are none
	ceiling *actors.Rights   // on the rights of a guest's sessions; nil means none
}

// DefaultLease is long enough for an outage: a client that was suspended, or whose network was down, can resume. When memory is short,
// sessions without a client end sooner, after actors.ShortLease.
const DefaultLease = 10 * time.Minute

// DefaultStartup is long enough for people who start tasks by hand, and for machines that load the tasks' images.
const DefaultStartup = 2 * time.Minute

// maxCPUs bounds the CPU devices of a task: each has containers of its own.
const maxCPUs = 1024

// Node is a running task. Its methods are safe for concurrent use.
type Node struct {
	config  Config
	spec    *spec.Spec
	self    spec.Task
	boot    uint64
	started time.Time
	log     *slog.Logger
	secret  *trust.Secret // nil if there is none
	// everywhere is why the port is bound on all interfaces although the spec names another host; empty if it is not.
	everywhere string
	events     view.Events
	presence   *presence
	port       *port.Port
	links      *link.Links
	store      *durable.Store // nil if nothing is durable; the host's for a guest
	lasting    []lasting      // which containers are durable
	pictures   *containers.Pictures
	task       *actors.Task
	cast       *cast.Cast
	gateway    *gateway.Gateway
	puller     *workerservice.Puller // nil for a guest
	declare    *propagation
	serving    atomic.Pointer[actors.Task] // task, for connections that end while the node starts
	linked     atomic.Pointer[link.Links]  // links, for messages that are sent while the node starts
	// cast, for queries and messages that arrive while the node starts
	performing atomic.Pointer[cast.Cast]
	// The gossip: other tasks' messages arrive before it has begun.
	gossiping atomic.Pointer[membership.Membership]

	traces atomic.Int32 // traces being collected
	looks  *turns.Turns // of calls that look at tasks

	stop    sync.Once
	stopErr error
}

// Start calls Listen and Serve.
func Start(ctx context.Context, c Config) (*Node, error) {
	n, err := Listen(c)
	if err == nil {
		err = n.Serve(ctx)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Listen binds the task's port. Calls that arrive wait for Serve, for a bounded time. Errors: INVALID_ARGUMENT for a task that the cluster
// does not have, FAILED_PRECONDITION for a port that is taken.
func Listen(c Config) (*Node, error) {
	c.Log = logs.Limited(c.Log)
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Startup == 0 {
		c.Startup = DefaultStartup
	}
	c.Guard = c.Guard.ForPort()
	c.CPUs = max(c.CPUs, 1)
	if c.CPUs > maxCPUs {
		return nil, status.InvalidArgumentf("device_count asks for %d CPU devices; a task has at most %d", c.CPUs, maxCPUs)
	}
	self, err := c.Spec.Task(c.Job, c.Task)
	if err != nil {
		return nil, err
	}
	n := &Node{config: c, spec: c.Spec, self: self, boot: rand.Uint64() | 1, started: time.Now(), log: c.Log, looks: turns.New(maxLooks)}
	if c.Guard != nil {
		c.Guard.OnRefusal(n.Refused)
	}
	if err := n.loadSecret(); err != nil {
		return nil, err
	}
	credentials := n.credentials()
	bound, err := n.bind()
	if err != nil {
		return nil, err
	}
	n.port, err = port.Listen(port.Config{Address: self.Address, Bind: bound, Credentials: credentials, Logger: c.Log, Closed: n.connectionClosed,
		RequestMemory: requestMemory(), AnswerMemory: answerMemory(),
		Holder: link.Holder(port.Caller(c.Network, credentials)), Resolve: n.resolve, Expects: expectedMethods(c), Network: c.Network})
	if err != nil {
		return nil, err
	}
	// Port 0 has become a real port.
	if n.spec, err = c.Spec.WithAddress(c.Job, c.Task, n.port.Addr()); err == nil {
		n.self, err = n.spec.Task(c.Job, c.Task)
	}
	if err != nil {
		return nil, errors.Join(err, n.port.Stop(context.Background()))
	}
	if n.everywhere != "" {
		c.Log.Info("the port is bound on all interfaces: "+n.everywhere, "task", n.self.Name(), "address", n.self.Address)
	}
	return n, nil
}

// bind returns the host:port to bind.
func (n *Node) bind() (string, error) {
	c := &n.config
	if c.Bind != "" {
		return c.Bind, nil
	}
	// A claim is made by binding the task's own address.
	open := !c.Claimed && (c.Credentials != nil || c.SecretFile != "" || c.Files.Insecure)
	b, err := Bind(context.Background(), c.Network, n.spec, n.self, open)
	if err != nil {
		return "", err
	}
	if b.Warning != "" {
		c.Log.Warn(b.Warning)
	}
	if n.everywhere = b.Everywhere; n.everywhere != "" {
		c.Bind = b.Address // guests do the same
	}
	return b.Address, nil
}

// Serve starts serving. If it fails, it stops the node. It must be called once. ALREADY_EXISTS means that another process is already this
// task.
func (n *Node) Serve(ctx context.Context) error {
	err := n.assemble(ctx, n.config)
	if err != nil {
		if e := n.Stop(ctx); e != nil {
			n.log.Warn("a server that failed to start did not shut down cleanly", "error", e)
		}
	}
	return err
}

// assemble builds the task on its port. If it fails, Stop takes down what was built.
func (n *Node) assemble(ctx context.Context, c Config) (err error) {
	if n.store, err = n.openStore(c); err != nil {
		return err
	}
	all, err := n.devices(c)
	if err != nil {
		return err
	}
	var described []device.Attributes
	for _, d := range all {
		described = append(described, devices.AttributesOf(d))
	}
	sink := newSink(all)
	n.presence = newPresence(n)
	n.links = link.New(link.Config{Spec: n.spec, Self: n.self, Boot: n.boot, Version: Version(), Devices: described, Call: n.port.Call, Open: n.openStream,
		System: n.port.System(), Reachable: actors.Reachable, Secret: n.secret, Identify: n.identify(), Confirm: n.confirms(), Strangers: n.strangers(),
		Programs: programs{n}, Outsiders: c.Outsiders, AdmitOutsider: n.mayUseActors, Pool: sink.pool, Sink: sink, InUse: n.uses, Changed: n.presence.changed, Stalled: n.stalled, NoLending: c.NoLending, Logger: c.Log,
		Seen: n.seenByGossip, Timing: link.Timing{Startup: c.Startup - time.Since(n.started)}})
	n.linked.Store(n.links)
	var pull actors.Puller
	var eagerService actors.EagerService
	if c.lent == nil {
		n.puller = workerservice.NewPuller(n.port.Connect, sink.pool)
		pull, eagerService = n.puller.Pull, n.puller
	}
	task, err := actors.NewTask(actors.Config{Pull: pull, EagerService: eagerService, System: n.port.System(), Cluster: newCluster(n), Devices: all, Store: n.store, Boot: n.boot,
		Lease: c.Lease, StepMemory: c.StepMemory, SessionMemory: c.SessionMemory, ClientMemory: c.ClientMemory, Defaults: c.Defaults, ParseCompression: ParseCompression, Lent: c.lent != nil, Ceiling: c.ceiling, Files: c.Files, Log: c.Log,
		Tracer: tracing.New(c.Traces), Events: &n.events, Complete: n.complete, End: c.End})
	if err != nil {
		if c.lent == nil {
			err = errors.Join(err, closeAll(all))
		}
		return err
	}
	n.task = task
	n.cast = n.newCast()
	n.performing.Store(n.cast)
	n.declare = newPropagation(n)
	n.serving.Store(task)
	sink.deliver, sink.refuse = n.task.Deliver, n.task.Refuse
	n.gateway = gateway.New(n.task, n.declare, c.Guard)
	services := n.port.Services()
	services.Admit(n.admitCall)
	services.Register(n.gateway.Service())
	services.Inline(gateway.Inline...)
	if c.lent == nil { // eager contexts declare clusters, which is for servers themselves
		workerservice.Register(services, workerservice.Config{Task: n.task, Guard: c.Guard, Log: c.Log})
		eager.Register(services, eager.Config{Contexts: eager.Of(n.task), Guard: c.Guard, RequestMemory: requestMemory(), Log: c.Log,
			Reset: func(ctx context.Context, caller *gateway.Caller, by string) error {
				return n.gateway.Reset(ctx, caller, by, nil)
			}})
	}
	wire.RegisterOperator(services, n, n.mayList, n.mayLook)
	profiler.Register(services, n, n.mayList)
	actorservice.Register(services, n.cast, n.mayUseActors)
	wire.RegisterGuests(services, n.declare.guests)
	n.links.Register(services.Early())
	n.links.Handle(func(method string, serve func(context.Context, link.Stream) error) {
		services.HandleStream(method, func(ctx context.Context, s *http2.Stream) error { return serve(ctx, s) })
	})
	gossip, err := membership.Start(ctx, membership.Config{Spec: n.spec, Self: n.self, Port: n.port, Links: n.links,
		Events: n.heard, Confirm: c.Claimed, Keys: n.gossipKeys(), Logger: c.Log})
	if err != nil {
		return err
	}
	n.gossiping.Store(gossip)
	n.presence.start()
	n.events.Add("server started", n.self.Name(), n.self.Address)
	services.Open()
	services.Serving(true)
	if warning := n.exposed(); warning != "" {
		n.log.Warn(warning)
	}
	return nil
}

// expectedMethods returns the methods that are not unary. Links and clients may call them while the server starts.
func expectedMethods(c Config) map[string]port.Shape {
	all := map[string]port.Shape{link.Method: port.Stream, link.BulkMethod: port.Stream, actorspb.Watch: port.ServerStream}
	if c.lent == nil {
		all[eager.StreamingEnqueue] = port.Bidi
	}
	return all
}

// devices returns the node's CPUs and GPUs; a guest's are those of its host.
func (n *Node) devices(c Config) (all []devices.Device, err error) {
	if c.lent != nil {
		for _, d := range c.lent {
			_, device, _ := strings.Cut(d.Name(), "/device:")
			all = append(all, d.Renamed(n.self.Name()+"/device:"+device))
		}
		return all, nil
	}
	var cpus []*devices.CPU
	for i := range c.CPUs {
		cpu := devices.NewCPU(n.port.System(), fmt.Sprintf("%s/device:CPU:%d", n.self.Name(), i), c.Job, c.MemoryLimit).WithThreads(c.Threads).WithProgram(c.Program)
		cpus, all = append(cpus, cpu), append(all, cpu)
	}
	if err := n.restore(c, cpus); err != nil {
		return nil, errors.Join(err, closeAll(all))
	}
	gpus, err := n.openGPUs(c, all[0].Pool())
	if err != nil {
		return nil, err
	}
	for _, g := range gpus {
		if r, ok := g.(refuser); ok && n.store != nil {
			r.RefuseDurable(n.lastingOf)
		}
	}
	return append(all, gpus...), nil
}

// uses reports whether the link to a task is needed even when nothing passes over it.
func (n *Node) uses(task string) bool {
	t, c := n.serving.Load(), n.performing.Load()
	return t == nil || t.Uses(task) || c != nil && c.Uses(task) || n.presence.holds()
}

func (n *Node) connectionClosed(number uint64) {
	if g := n.config.Guard; g != nil {
		g.ConnectionClosed(number)
	}
	if t := n.serving.Load(); t != nil {
		for _, t := range append([]*actors.Task{t}, n.declare.Tasks()...) {
			t.ConnectionClosed(actors.Connection(number))
		}
	}
}

// resolve returns the process that sends to an actor of another task.
func (n *Node) resolve(pid *actor.PID) (actor.Process, bool) {
	if l := n.linked.Load(); l != nil {
		return l.Resolve(pid)
	}
	return nil, false
}

func (n *Node) openStream(ctx context.Context, address, method string) (link.Stream, error) {
	s, err := n.port.OpenStream(ctx, address, method)
	if err != nil {
		return nil, err // not a nil *http2.Stream
	}
	return s, nil
}

// Refused records an event for a call that a policy or one of its limits refused, or for a failed login. It does not block.
func (n *Node) Refused(e access.Event) {
	who := e.From
	if e.What != "login" {
		who = e.Who.String()
	}
	n.events.AddSomeOf(who, e.What+" refused", who, view.Line(e.Refused.Error()))
}

// stalled records that a task does not accept tensors.
func (n *Node) stalled(task string, bytes int64) {
	n.events.AddSome("link stalled", task, fmt.Sprintf("it accepts none of the %d bytes of tensors queued for it", bytes))
}

// heard handles an event of gossip.
func (n *Node) heard(e membership.Event) {
	switch {
	case e.Refused != nil:
		n.log.Warn("a process was refused", "task", e.Member.Task.Name(), "reason", e.Refused)
		n.events.Add("process refused", e.Member.Task.Name(), e.Refused.Error())
	default:
		n.presence.changed(e.Member.Task.Name())
	}
}

// Target returns the target for clients. Without certificates, if the port is bound on all interfaces, it names localhost.
func (n *Node) Target() string {
	if n.everywhere != "" && n.config.Credentials == nil {
		_, number, err := spec.SplitAddress(n.self.Address)
		if err == nil {
			return "grpc://" + net.JoinHostPort("localhost", strconv.Itoa(number))
		}
	}
	return "grpc://" + n.self.Address
}

// Address returns the task's host:port as declared, but with the real port.
func (n *Node) Address() string { return n.self.Address }

// Spec returns the cluster spec, with the real port of this task.
func (n *Node) Spec() *spec.Spec { return n.spec }

// Task returns the task's actors and devices.
func (n *Node) Task() *actors.Task { return n.task }

// stopTime bounds Stop if its context has no deadline.
const stopTime = 10 * time.Second

// Stop ends the task. No session begins anymore, running steps may finish until ctx ends and are then cancelled, peers are notified, and
// the port is released. Further calls return the first one's result.
func (n *Node) Stop(ctx context.Context) error {
	n.stop.Do(func() {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, stopTime)
			defer cancel()
		}
		n.stopErr = n.takeDown(ctx)
	})
	return n.stopErr
}

func (n *Node) takeDown(ctx context.Context) error {
	var errs []error
	n.events.Add("server stopping", n.self.Name(), "")
	n.port.Services().Serving(false) // first, so that load balancers send no more calls
	if n.declare != nil {
		n.declare.close()
	}
	if n.presence != nil {
		n.presence.stop()
	}
	if n.cast != nil { // first, while other tasks still talk to this one
		n.cast.HandOver(ctx)
	}
	if g := n.gossiping.Load(); g != nil { // early, so that peers know that the end is on purpose
		errs = append(errs, g.Leave(ctx))
	}
	if n.cast != nil { // before the task, whose sessions its actors may use
		errs = append(errs, n.cast.Stop(ctx))
	}
	if n.task != nil {
		errs = append(errs, n.task.Stop(ctx))
	}
	if n.gateway != nil {
		n.gateway.Close()
	}
	if n.puller != nil {
		n.puller.Close()
	}
	// The rest must end even if the steps used all of the time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime/2)
	defer cancel()
	if n.links != nil {
		errs = append(errs, n.links.Close(ctx))
	}
	errs = append(errs, n.port.Stop(ctx))
	if n.store != nil { // last: what ended until now is still written
		errs = append(errs, n.store.Outlast(n.closeStore))
	}
	return errors.Join(errs...)
}

// closeStore writes the last pictures, and closes the store unless it is another node's.
func (n *Node) closeStore() error {
	var errs []error
	if n.pictures != nil {
		errs = append(errs, n.pictures.Stop())
	}
	if n.config.lent == nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}
