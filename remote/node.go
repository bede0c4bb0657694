// Package remote assembles a server from its parts: the member of the cluster (package member), its devices, the master and the worker, and the
// services for TensorFlow's clients and for operators.
package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/eager"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/profiler"
	"github.com/troupe-run/troupe/remote/internal/tracing"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/internal/workerservice"
	"github.com/troupe-run/troupe/remote/member"
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
	Together *member.Together

	lent    []devices.Device // for a guest: the devices of its host
	kept    *durable.Store   // for a guest: what keeps their durable containers; nil if there are none
	ceiling *actors.Rights   // on the rights of a guest's sessions; nil means none
}

// DefaultLease is long enough for an outage: a client that was suspended, or whose network was down, can resume. When memory is short,
// sessions without a client end sooner, after actors.ShortLease.
const DefaultLease = 10 * time.Minute

// DefaultStartup is a member's.
const DefaultStartup = member.DefaultStartup

// maxCPUs bounds the CPU devices of a task: each has containers of its own.
const maxCPUs = 1024

// Node is a running server: a member of the cluster that has devices, runs graphs on them, and serves TensorFlow's clients. Its methods are safe for
// concurrent use.
type Node struct {
	*member.Member
	config   Config
	store    *durable.Store // nil if nothing is durable; the host's for a guest
	lasting  []lasting      // which containers are durable
	pictures *containers.Pictures
	task     *actors.Task
	gateway  *gateway.Gateway
	puller   *workerservice.Puller // nil for a guest
	declare  *propagation
	serving  atomic.Pointer[actors.Task] // task, for connections that end while the node starts

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
	n := &Node{config: c}
	m, err := member.Listen(member.Config{Spec: c.Spec, Job: c.Job, Task: c.Task, Bind: c.Bind, Claimed: c.Claimed, NoLending: c.NoLending, Startup: c.Startup,
		Actors: c.Actors, ActorLimit: c.ActorLimit, Traces: c.Traces, Credentials: c.Credentials, Guard: c.Guard, SecretFile: c.SecretFile,
		Outsiders: c.Outsiders, Guest: c.lent != nil, Insecure: c.Files.Insecure, Network: c.Network, Private: c.Private, Log: c.Log,
		Together: c.Together, Streams: streams(c), Admissions: admissions(), ConnectionClosed: n.connectionClosed})
	if err != nil {
		return nil, err
	}
	n.Member, n.config.Log = m, m.Log()
	return n, nil
}

// Serve starts serving. If it fails, it stops the node. It must be called once. ALREADY_EXISTS means that another process is already this
// task.
func (n *Node) Serve(ctx context.Context) error {
	err := n.assemble(ctx, n.config)
	if err != nil {
		if e := n.Stop(ctx); e != nil {
			n.Log().Warn("a server that failed to start did not shut down cleanly", "error", e)
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
	n.Connect(member.Landing{Devices: described, Describe: n.describe, Pool: sink.pool, Sink: sink, Reachable: actors.Reachable, Uses: n.uses})
	var pull actors.Puller
	var eagerService actors.EagerService
	if c.lent == nil {
		n.puller = workerservice.NewPuller(n.Port().Connect, sink.pool)
		pull, eagerService = n.puller.Pull, n.puller
	}
	task, err := actors.NewTask(actors.Config{Pull: pull, EagerService: eagerService, System: n.Port().System(), Cluster: newCluster(n.Member), Devices: all, Store: n.store, Boot: n.Boot(),
		Lease: c.Lease, StepMemory: c.StepMemory, SessionMemory: c.SessionMemory, ClientMemory: c.ClientMemory, Defaults: c.Defaults, ParseCompression: ParseCompression, Lent: c.lent != nil, Ceiling: c.ceiling, Files: c.Files, Log: c.Log,
		Tracer: tracing.New(c.Traces), Events: n.Events(), Complete: n.complete, End: c.End})
	if err != nil {
		if c.lent == nil {
			err = errors.Join(err, closeAll(all))
		}
		return err
	}
	n.task = task
	n.declare = newPropagation(n)
	n.Perform(member.Work{Roles: task, Guests: n.declare.masters, Device: n.deviceOf})
	n.serving.Store(task)
	sink.deliver, sink.refuse = n.task.Deliver, n.task.Refuse
	n.gateway = gateway.New(n.task, n.declare, c.Guard)
	services := n.Port().Services()
	services.Register(n.gateway.Service())
	services.Inline(gateway.Inline...)
	if c.lent == nil { // eager contexts declare clusters, which is for servers themselves
		workerservice.Register(services, workerservice.Config{Task: n.task, Guard: c.Guard, Log: c.Log})
		eager.Register(services, eager.Config{Contexts: eager.Of(n.task), Guard: c.Guard, RequestMemory: member.RequestMemory(), Log: c.Log,
			Reset: func(ctx context.Context, caller *gateway.Caller, by string) error {
				return n.gateway.Reset(ctx, caller, by, nil)
			}})
	}
	profiler.Register(services, n, n.MayList)
	wire.RegisterGuests(services, n.declare.guests)
	return n.Open(ctx)
}

// streams returns the methods of the node's services that are not unary.
func streams(c Config) map[string]port.Shape {
	if c.lent != nil {
		return nil
	}
	return map[string]port.Shape{eager.StreamingEnqueue: port.Bidi}
}

// guest reports whether the node is a task of a cluster that a client declared.
func (n *Node) guest() bool { return n.config.lent != nil }

// devices returns the node's CPUs and GPUs; a guest's are those of its host.
func (n *Node) devices(c Config) (all []devices.Device, err error) {
	if c.lent != nil {
		for _, d := range c.lent {
			_, device, _ := strings.Cut(d.Name(), "/device:")
			all = append(all, d.Renamed(n.Self().Name()+"/device:"+device))
		}
		return all, nil
	}
	var cpus []*devices.CPU
	for i := range c.CPUs {
		cpu := devices.NewCPU(n.Port().System(), fmt.Sprintf("%s/device:CPU:%d", n.Self().Name(), i), c.Job, c.MemoryLimit).WithThreads(c.Threads).WithProgram(c.Program)
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

// describe returns the task's devices as they are now.
func (n *Node) describe() []device.Attributes { return n.task.Describe() }

// uses reports whether steps need the link to a task even when nothing passes over it.
func (n *Node) uses(task string) bool {
	t := n.serving.Load()
	return t == nil || t.Uses(task)
}

func (n *Node) connectionClosed(number uint64) {
	if t := n.serving.Load(); t != nil {
		for _, t := range append([]*actors.Task{t}, n.declare.Tasks()...) {
			t.ConnectionClosed(actors.Connection(number))
		}
	}
}

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
	n.Close()
	if n.declare != nil {
		n.declare.close()
	}
	errs = append(errs, n.Leave(ctx)) // before the task, whose sessions the program's actors may use
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
	errs = append(errs, n.Member.Stop(ctx))
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
