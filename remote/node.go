// Package remote makes a task of the cluster out of its parts: one port for everything, links to the other
// tasks, gossip about who is alive, the task's actors, and the service for TensorFlow's clients.
package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
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
	"github.com/troupe-run/troupe/remote/spec"
	"go.opentelemetry.io/otel/trace"
)

// Config says which task of which cluster to be.
type Config struct {
	// Spec is the declared cluster; Job and Task say which of it this is.
	Spec *spec.Spec
	Job  string
	Task int
	// Bind, if set, is the host:port to bind in place of the task's address, for one that is reached
	// through a forwarded port.
	Bind string
	// Claimed says that the process has chosen the task itself, as a free one: it serves only if tasks
	// that are there find it at the task's address.
	Claimed bool
	// NoLending keeps processes of the same machine from reading large tensors out of each other's
	// memory, and tasks of the same process from taking tensors over as they are: they go over the
	// connection then.
	NoLending bool
	// StepMemory and SessionMemory bound the host memory of a step and of a session on this task, in bytes; 0 is no bound.
	StepMemory, SessionMemory int64
	// ClientMemory bounds that of all sessions of a client, of those that are told apart; 0 is three quarters of the
	// process's.
	ClientMemory int64
	// CPUs is the number of CPU devices, 1 where it is 0. MemoryLimit bounds the bytes of the
	// tensors on each; 0 means no bound but the machine's.
	CPUs        int
	MemoryLimit int64
	// Threads are the processors that a kernel is divided between at most, 0 for all.
	Threads int
	// GPUs lists and opens GPUs; nil stands for CUDA's, of which there are none in a build without it. GPUConfig says which of them the server uses and
	// how, in its device_count and gpu_options; nil for all.
	GPUs      devices.GPUs
	GPUConfig *corepb.ConfigProto
	// Lease is how long a session lives on after its client's last connection ended; 0 means
	// DefaultLease.
	Lease    time.Duration
	Defaults actors.SessionDefaults
	// Actors are the kinds of the program's own actors, by name.
	Actors map[string]cast.Make
	// Credentials, if set, encrypt all connections, and tell tasks and clients by their certificates. Their
	// owner closes them after the node has stopped.
	Credentials *access.Credentials
	// Guard, if set, decides who may call the node and what callers may do.
	Guard *access.Guard
	// Traces, if set, is told of the spans of steps.
	Traces trace.TracerProvider
	// SecretFile, if set, names the file with the secret that the cluster's tasks share; see package trust.
	SecretFile string
	// Files are those that the ops of clients' sessions may use.
	Files actors.FileAccess
	// Outsiders lets processes that are no tasks of the cluster exchange messages with them.
	Outsiders bool
	// End, if set, has the program end the task, with some time for running steps, or its own where that is 0. It does not block. Without it,
	// the task does not end on request.
	End func(within time.Duration)
	Log *slog.Logger // nil: slog.Default()

	lent []devices.Device // of the node whose guest this one is
}

// DefaultLease is long enough for a client to come back after its connection broke.
const DefaultLease = 30 * time.Second

// maxCPUs bounds the CPU devices of a task: each has containers of its own.
const maxCPUs = 1024

// Node is a running task. All methods may be called concurrently.
type Node struct {
	config  Config
	spec    *spec.Spec
	self    spec.Task
	boot    uint64
	started time.Time
	log     *slog.Logger
	secret  *trust.Secret // nil: none
	events  view.Events
	port    *port.Port
	links   *link.Links
	task    *actors.Task
	cast    *cast.Cast
	gateway *gateway.Gateway
	gossip  *membership.Membership
	declare *propagation
	serving atomic.Pointer[actors.Task] // task, for connections that end while the node starts
	linked  atomic.Pointer[link.Links]  // links, for messages that are sent while the node starts
	// cast, for what is asked and heard while the node starts
	performing atomic.Pointer[cast.Cast]
	gossiping  atomic.Pointer[membership.Membership] // gossip, the same

	traces atomic.Int32 // that are being collected

	stop    sync.Once
	stopErr error
}

// Start is Listen and Serve in one.
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

// Listen binds the task's port; calls that come wait for Serve, for a bounded time. Errors:
// INVALID_ARGUMENT for a task that the cluster does not have, FAILED_PRECONDITION for a port that
// is taken.
func Listen(c Config) (*Node, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Log = slog.New(logs.Limit(c.Log.Handler())) // peers can make any of its lines be written
	if c.Lease == 0 {
		c.Lease = DefaultLease
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
	n := &Node{config: c, spec: c.Spec, self: self, boot: rand.Uint64() | 1, started: time.Now(), log: c.Log}
	if c.Guard != nil {
		c.Guard.OnRefusal(n.Refused)
	}
	if err := n.loadSecret(); err != nil {
		return nil, err
	}
	credentials := n.credentials()
	n.port, err = port.Listen(port.Config{Address: self.Address, Bind: c.Bind, Credentials: credentials, Logger: c.Log, Closed: n.connectionClosed,
		RequestMemory: requestMemory(), AnswerMemory: answerMemory(),
		Holder: link.Holder(port.Caller(credentials)), Resolve: n.resolve})
	if err != nil {
		return nil, err
	}
	// Port 0 has become a real one.
	if n.spec, err = c.Spec.WithAddress(c.Job, c.Task, n.port.Addr()); err == nil {
		n.self, err = n.spec.Task(c.Job, c.Task)
	}
	if err != nil {
		return nil, errors.Join(err, n.port.Stop(context.Background()))
	}
	return n, nil
}

// Serve begins to serve; a node that fails to is stopped. It is called once. ALREADY_EXISTS is the
// error for a task that another process is already.
func (n *Node) Serve(ctx context.Context) error {
	err := n.assemble(ctx, n.config)
	if err != nil {
		if e := n.Stop(ctx); e != nil {
			n.log.Warn("a server that failed to start was not taken down in order", "error", e)
		}
	}
	return err
}

// assemble builds the task on its port; Stop takes down what is there when it fails.
func (n *Node) assemble(ctx context.Context, c Config) (err error) {
	all, err := n.devices(c)
	if err != nil {
		return err
	}
	var described []*wire.Device
	for _, d := range all {
		described = append(described, &wire.Device{Name: d.Name(), Type: d.Type(), MemoryLimit: d.MemoryLimit(), Incarnation: d.Incarnation(),
			Description: d.Description()})
	}
	sink := newSink(all)
	n.links = link.New(link.Config{Spec: n.spec, Self: n.self, Boot: n.boot, Version: Version(), Devices: described, Call: n.port.Call, Open: n.openStream,
		System: n.port.System(), Reachable: actors.Reachable, Secret: n.secret, Identify: n.identify(), Confirm: n.confirms(),
		Programs: programs{n}, Outsiders: c.Outsiders, AdmitOutsider: n.mayUseActors, Pool: sink.pool, Sink: sink, InUse: n.uses, Stalled: n.stalled, NoLending: c.NoLending, Logger: c.Log})
	n.linked.Store(n.links)
	task, err := actors.NewTask(actors.Config{System: n.port.System(), Cluster: newCluster(n), Devices: all, Boot: n.boot,
		Lease: c.Lease, StepMemory: c.StepMemory, SessionMemory: c.SessionMemory, ClientMemory: c.ClientMemory, Defaults: c.Defaults, ParseCompression: ParseCompression, Lent: c.lent != nil, Files: c.Files, Log: c.Log,
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
	services.RegisterService(gateway.Desc, n.gateway)
	services.Inline(gateway.Inline...)
	wire.RegisterOperator(services, n, n.mayList)
	profiler.Register(services, n, n.mayList)
	wire.RegisterGuests(services, n.declare.guests)
	n.links.Register(services.Early())
	n.links.Handle(func(method string, serve func(context.Context, link.Stream) error) {
		services.HandleStream(method, func(ctx context.Context, s *http2.Stream) error { return serve(ctx, s) })
	})
	n.gossip, err = membership.Start(ctx, membership.Config{Spec: n.spec, Self: n.self, Port: n.port, Links: n.links,
		Events: n.heard, Confirm: c.Claimed, Keys: n.gossipKeys(), Logger: c.Log})
	if err != nil {
		return err
	}
	n.gossiping.Store(n.gossip)
	n.events.Add("server started", n.self.Name(), n.self.Address)
	services.Open()
	services.Serving(true)
	if warning := n.exposed(); warning != "" {
		n.log.Warn(warning)
	}
	return nil
}

// devices are the node's CPUs and GPUs; a guest's are those of its host.
func (n *Node) devices(c Config) (all []devices.Device, err error) {
	if c.lent != nil {
		for _, d := range c.lent {
			_, device, _ := strings.Cut(d.Name(), "/device:")
			all = append(all, d.Renamed(n.self.Name()+"/device:"+device))
		}
		return all, nil
	}
	for i := range c.CPUs {
		all = append(all, devices.NewCPU(n.port.System(), fmt.Sprintf("%s/device:CPU:%d", n.self.Name(), i), c.Job, c.MemoryLimit).WithThreads(c.Threads))
	}
	gpus, err := n.openGPUs(c, all[0].Pool())
	if err != nil {
		return nil, err
	}
	return append(all, gpus...), nil
}

// uses tells whether the link to a task is needed though nothing passes over it.
func (n *Node) uses(task string) bool {
	t, c := n.serving.Load(), n.performing.Load()
	return t == nil || t.Uses(task) || c != nil && c.Uses(task)
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

// resolve finds what sends to actors of other tasks.
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

// Refused notes as an event what a policy or a limit of it has refused, or who was not let in. It does not block.
func (n *Node) Refused(e access.Event) {
	who := e.From
	if e.What != "login" {
		who = e.Who.String()
	}
	n.events.AddSome(e.What+" refused", who, view.Line(e.Refused.Error()))
}

// stalled notes that a task takes no tensors.
func (n *Node) stalled(task string, bytes int64) {
	n.events.AddSome("link stalled", task, fmt.Sprintf("it takes none of the %d bytes of tensors that wait for it", bytes))
}

// heard logs what gossip tells of the cluster.
func (n *Node) heard(e membership.Event) {
	switch {
	case e.Refused != nil:
		n.log.Warn("a process was refused", "task", e.Member.Task.Name(), "reason", e.Refused)
		n.events.Add("process refused", e.Member.Task.Name(), e.Refused.Error())
		return
	case e.Restarted:
		n.log.Info("a task was restarted", "task", e.Member.Task.Name(), "address", e.Member.Task.Address)
		n.events.Add("task restarted", e.Member.Task.Name(), e.Member.Task.Address)
	default:
		n.log.Info("a task is "+e.Member.Health.String(), "task", e.Member.Task.Name(), "address", e.Member.Task.Address, "reason", e.Member.Reason)
		n.events.Add("task "+e.Member.Health.String(), e.Member.Task.Name(), e.Member.Reason)
	}
	if c := n.performing.Load(); c != nil {
		c.TaskChanged(taskChange(n.gossipStatus(e.Member)))
	}
}

// Target is what clients connect to.
func (n *Node) Target() string { return "grpc://" + n.self.Address }

// Address is the task's host:port, as declared, but with the real port.
func (n *Node) Address() string { return n.self.Address }

// Spec is the cluster, with the real port of this task.
func (n *Node) Spec() *spec.Spec { return n.spec }

// Task is the task's actors and devices.
func (n *Node) Task() *actors.Task { return n.task }

// stopTime bounds Stop where its context has no deadline.
const stopTime = 10 * time.Second

// Stop ends the task: no session begins any more, steps that run may end until ctx does and are
// then cancelled, peers are told, and the port is free again. Further calls give the first one's
// result.
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
	n.port.Services().Serving(false) // first, so that load balancers send nobody here any more
	if n.declare != nil {
		n.declare.close()
	}
	if n.gossip != nil { // first, so that peers know that the end is on purpose
		errs = append(errs, n.gossip.Leave(ctx))
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
	// What is left must end even where the steps took all of the time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime/2)
	defer cancel()
	if n.links != nil {
		errs = append(errs, n.links.Close(ctx))
	}
	return errors.Join(append(errs, n.port.Stop(ctx))...)
}
