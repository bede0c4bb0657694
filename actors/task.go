package actors

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/internal/questions"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
)

// The names by which a task's actors are addressed.
const (
	workerName    = questions.Worker
	masterName    = questions.Master
	directoryName = questions.Directory
)

// Config holds the parts that a task is made of.
type Config struct {
	System  *actor.ActorSystem
	Cluster Cluster
	// Devices are the task's devices, CPU:0 first; clients' tensors are in its memory. Their executors take ownership and close
	// them, unless they are Lent by another task.
	Devices []devices.Device
	Lent    bool
	// Store, if not nil, keeps the devices' durable containers.
	Store *durable.Store
	// Ceiling, if not nil, bounds the rights of all sessions on this task, whatever other tasks say.
	Ceiling *Rights
	// Boot is this process's random number, by which its peers recognize it.
	Boot uint64
	// Lease is how long a session outlives its client's last connection.
	Lease time.Duration
	// StepMemory and SessionMemory bound the host memory, in bytes, of everything that a step and a session allocate on this
	// task; 0 means no bound.
	StepMemory, SessionMemory int64
	// ClientMemory bounds the host memory of all sessions of one client, where clients can be told apart; 0 means three quarters of
	// the process's.
	ClientMemory int64
	// Defaults is the configuration of sessions where the client specifies none.
	Defaults SessionDefaults
	// ParseCompression returns the transport's number of an algorithm and a level; nil if the transport does not compress.
	ParseCompression func(name string, level int) (Compression, error)
	// Files are the files that the ops of sessions may use on this task.
	Files FileAccess
	// Tracer, if not nil, records the steps of traced calls.
	Tracer Tracer
	// Events, if not nil, receives the task's events.
	Events *view.Events
	// Pull, if not nil, fetches the tensors that devices of other tasks send to eager contexts.
	Pull Puller
	// EagerService, if not nil, runs the parts on other tasks of the functions that clients of eager contexts call here.
	EagerService EagerService
	// Complete, if not nil, adds what only the caller of NewTask knows to the view that other tasks get of this one.
	Complete func(q *view.Query, seen *view.Task)
	// End, if not nil, has the program end the task, with the given time for running steps, or the program's default if that is 0. It does not block.
	End func(within time.Duration)
	Log *slog.Logger
}

// SessionDefaults are the parts of a server's ConfigProto that sessions inherit.
type SessionDefaults struct {
	// SoftPlacement moves an op to a device that can run it if the requested one cannot.
	SoftPlacement bool
	// LogPlacement logs where each node was placed.
	LogPlacement bool
	// OperationTimeout bounds every call that has no timeout of its own; 0 means no bound.
	OperationTimeout time.Duration
	// Compression is used for tensors that the sessions' steps push to other tasks.
	Compression Compression
	// Own gives each master its own unpinned resources, as in TensorFlow. Otherwise the whole cluster shares
	// them by name.
	Own bool
}

// Reachable reports whether actors of other tasks may send messages to the actor with that name: the three roles that serve
// other tasks, and futures that wait for an answer.
func Reachable(name string) bool { return questions.Reachable(name) }

// Task is one task of the cluster in this process: devices, steps, and the actors that serve them.
type Task struct {
	Config
	questions.Asker // of the tasks of the cluster, this one included
	name            string
	steps           stepTable
	eager           eagerTable

	mu       sync.Mutex // guards the four below: sessions open and end, and parts find theirs, on the goroutines of their calls and links
	sessions map[string]*workerSession
	clients  clientMemory    // of sessions that are bound to a client
	opened   shares          // of sessions, by client
	placing  *place.Prepared // the devices of all tasks that were known when a session was created

	master, worker, directory *roles.Ref
	executors                 map[string]*devices.Executor // by the device's name; not changed
	files                     *fileServer
	sessionsOf                *masterState
	tally                     tally
	lately                    lately
	traces                    traces
	departures                departures
	adoptions                 adoptions
	spare                     sync.Pool // of *step
	shared                    shared
	stableOnce                sync.Once
	stableTasks               []string

	life    context.Context // ends when the task stops
	die     context.CancelFunc
	work    sync.WaitGroup // background work
	pool    *roles.Pool
	isLocal func(device string) bool // local, made once for all steps
}

// NewTask starts the actors of a task.
func NewTask(c Config) (*Task, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	t := &Task{Config: c, name: c.Cluster.Self(), sessions: map[string]*workerSession{}, opened: halves("sessions", maxSessions, insteadOfSessions), executors: map[string]*devices.Executor{}, pool: roles.NewPool()}
	t.Asker = questions.New(c.System, t.name, func(ctx context.Context, task string) (questions.Peer, error) { return c.Cluster.Peer(ctx, task) })
	var err error
	if t.files, err = c.Files.open(t.name); err != nil {
		return nil, err
	}
	t.life, t.die = context.WithCancel(context.Background())
	t.steps.init(t.name)
	t.eager.init(t.name)
	t.isLocal = t.local
	for _, start := range []func() error{t.startMaster, t.startDirectory, t.startWorker} {
		if err := start(); err != nil {
			return nil, err
		}
	}
	for _, d := range t.Devices {
		e, err := devices.StartExecutor(devices.ExecutorConfig{System: t.System, Device: d, Lent: t.Lent, Pool: t.pool, Log: t.Log, Events: t.Events})
		if err != nil {
			return nil, err
		}
		t.executors[d.Name()] = e
	}
	if t.Store != nil && !t.Lent {
		if err := t.noteRestored(); err != nil {
			return nil, err
		}
	}
	c.Cluster.Watch(t.peerLost)
	return t, nil
}

// spawn starts one of the task's actors. When the goroutine that delivered a message has done its share, the actor continues
// on the task's pool.
func (t *Task) spawn(spec roles.Spec) (*roles.Ref, error) {
	spec.Dispatcher, spec.Log = t.pool, t.Log
	return roles.Spawn(t.System, spec)
}

// Name returns the task's name, such as /job:worker/replica:0/task:1.
func (t *Task) Name() string { return t.name }

// taskOf returns the task part of a full device name.
func taskOf(device string) string {
	if i := strings.Index(device, "/device:"); i >= 0 {
		return device[:i]
	}
	return device
}

// newStepID returns a random step id, never 0, that fits TensorFlow's int64 and a JSON number.
func newStepID() uint64 { return rand.Uint64()>>11 | 1 }

// largeTensor is the size in bytes from which a tensor travels on a stream of its own, so
// that actors' messages never wait behind it.
const largeTensor = 64 << 10

// Deliver accepts a large tensor that a peer pushed for a step, and takes over the caller's reference. It is a call rather than
// a message: see stepTable.
func (t *Task) Deliver(step uint64, key kernels.Key, v *tensor.Tensor) {
	t.traces.transferred(view.ArrivalEvent, step, key, "", v)
	t.steps.deposit(step, key, v, false)
}

// Refuse fails a step because a tensor that a peer pushes for it cannot be accepted: now, or when the step starts.
func (t *Task) Refuse(step uint64, err error) { t.steps.refuse(step, err) }

// peerLost notifies the actors of the loss of a task that has parts in steps, as worker or as master. They learn of it after
// the last message that the task sent.
func (t *Task) peerLost(task string, err error) {
	m := &wire.PeerLost{Task: task, Failure: wire.FailureOf(err)}
	t.departures.end(task)
	t.adoptions.lost(task, err)
	t.worker.Send(&peerLost{message: m, parts: t.steps.own()})
	t.master.Send(&peerLost{message: m, steps: t.steps.mastered()})
}

// peerLost is a PeerLost message with the steps of the task's own sessions that ran when the link broke. Steps that begin
// before an actor handles the message may use the next link.
type peerLost struct {
	message *wire.PeerLost
	steps   []*step     // for the master
	parts   []*stepPart // for the worker
}

// stopActors stops actors after their pending messages, and waits for that for a bounded time.
func (t *Task) stopActors(all ...*roles.Ref) (err error) {
	for _, r := range all {
		if e := t.System.Root.PoisonFuture(r.PID()).Wait(); e != nil && err == nil {
			err = status.Errorf(status.DeadlineExceeded, "The actor %s did not stop: %v", r.Name(), e)
		}
	}
	return err
}

// background runs f on a goroutine that Stop waits for, with a context that ends at Stop.
func (t *Task) background(f func(ctx context.Context)) {
	t.work.Go(contain.Func(t.Log, "Work in the background", func() { f(t.life) }, nil))
}

// Stop ends the task: it closes the sessions, gives running steps until ctx ends before it
// cancels them, hands over its homes, and stops the actors.
func (t *Task) Stop(ctx context.Context) error {
	t.adoptions.close(status.Errorf(status.Unavailable, "The server of %s is shutting down", t.name))
	t.sessionsOf.drain(ctx)
	t.directory.Handled(ctx) // or else homes that have just been decided would not be handed over
	leave := t.announce(ctx)
	t.worker.Handled(ctx) // parts that came before the answers begin before the table is closed
	err := t.steps.drain(ctx, leave.text())
	if leave != nil {
		leave.over(ctx, t.handOver(ctx))
	}
	err = cmp.Or(err, t.stopActors(t.worker, t.master, t.directory))
	t.die()
	t.traces.stop()
	t.work.Wait()
	t.forgetSessions()
	if !t.pool.Close(ctx) && err == nil {
		err = status.Errorf(status.DeadlineExceeded, "Kernels of %s did not end", t.name)
	}
	for _, d := range t.Devices {
		e := t.executors[d.Name()]
		err = cmp.Or(err, e.Close(), t.stopActors(e.Role()))
	}
	t.files.close()
	return err
}

// DeviceState returns the state of one of the task's devices, from its executor; nil if the actor is not an executor or has stopped.
func (t *Task) DeviceState(executor string) *devices.State {
	for _, e := range t.executors {
		if e.Role().Name() == executor {
			return e.State()
		}
	}
	return nil
}

// Trim releases memory of the task's devices that has been idle since the last Trim, and returns the number of bytes.
func (t *Task) Trim() (bytes int64) {
	for _, d := range t.Devices {
		bytes += t.executors[d.Name()].Trim()
	}
	return bytes + tensor.Host.Trim()
}

// FeedMemory returns the pool for tensors that a client feeds to a session's steps; nil if there is no such session.
func (t *Task) FeedMemory(handle string) *tensor.Pool {
	s := t.sessionsOf.session(handle)
	if s == nil {
		return nil
	}
	return s.worker.devices[0].Pool()
}
