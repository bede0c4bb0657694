package actors

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
)

// The names under which a task's actors are reached.
const (
	workerName    = "worker"
	masterName    = "master"
	directoryName = "directory"
)

// Config is what a task is made of.
type Config struct {
	System  *actor.ActorSystem
	Cluster Cluster
	// Devices are the task's, CPU:0 first: clients' tensors lie in its memory. They become their executors', which close
	// them, unless they are Lent by another task.
	Devices []devices.Device
	Lent    bool
	// Boot is this process's random number, as its peers see it.
	Boot uint64
	// Lease is how long a session lives on after its client's last connection ended.
	Lease time.Duration
	// StepMemory and SessionMemory bound the host memory, in bytes, that what a step and a session made on this task
	// may take there as long as it is alive; 0 is no bound.
	StepMemory, SessionMemory int64
	// ClientMemory bounds the host memory of all sessions of a client, of those that are told apart; 0 is three quarters of
	// the process's.
	ClientMemory int64
	// Defaults tells how sessions are configured where the client says nothing.
	Defaults SessionDefaults
	// ParseCompression gives the transport's number of an algorithm and a level; nil where there are none.
	ParseCompression func(name string, level int) (Compression, error)
	// Files are those that the ops of sessions may use on this task.
	Files FileAccess
	// Tracer, if not nil, records the steps of traced calls.
	Tracer Tracer
	// Events, if not nil, takes what happens on the task.
	Events *view.Events
	// Complete, if not nil, adds to what other tasks see of this one what only the caller of NewTask knows.
	Complete func(q *view.Query, seen *view.Task)
	// End, if not nil, has the program end the task, with some time for running steps, or its own where that is 0. It does not block.
	End func(within time.Duration)
	Log *slog.Logger
}

// SessionDefaults are the parts of a server's ConfigProto that sessions inherit.
type SessionDefaults struct {
	// SoftPlacement moves ops to a device that can run them where the requested one cannot.
	SoftPlacement bool
	// LogPlacement writes where each node was placed.
	LogPlacement bool
	// OperationTimeout bounds every call that brings no timeout of its own; 0 is no bound.
	OperationTimeout time.Duration
	// Compression is that of the tensors that the sessions' steps push to other tasks.
	Compression Compression
}

// Reachable tells whether actors of other tasks send messages to the actor of that name: to the three roles that serve
// other tasks, and to what waits for an answer.
func Reachable(name string) bool {
	switch name {
	case masterName, workerName, directoryName:
		return true
	}
	return strings.HasPrefix(name, "future$")
}

// Task is one task of the cluster in this process: devices, steps, and the actors that serve them.
type Task struct {
	Config
	name  string
	steps stepTable
	// inflight counts the steps of the task's sessions.
	inflight atomic.Int64

	mu       sync.Mutex
	sessions map[string]*workerSession
	clients  clientMemory    // of the sessions that are bound to one
	placing  *place.Prepared // the devices of all tasks, as they were known when a session was made

	master, worker, directory *roles.Ref
	executors                 map[string]*devices.Executor // by the device's name; not changed
	files                     *fileServer
	sessionsOf                *masterState
	distributed               distributedSteps
	tally                     tally
	lately                    lately
	traces                    traces
	spare                     sync.Pool // of *step

	life context.Context // ends when the task stops
	die  context.CancelFunc
	work sync.WaitGroup // what goes on in the background
	pool *roles.Pool
	// Functions of the task's, made once for its steps.
	schedule func(work func())
	isLocal  func(device string) bool
}

// NewTask starts the actors of a task.
func NewTask(c Config) (*Task, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	t := &Task{Config: c, name: c.Cluster.Self(), sessions: map[string]*workerSession{}, executors: map[string]*devices.Executor{}, pool: roles.NewPool()}
	var err error
	if t.files, err = c.Files.open(t.name); err != nil {
		return nil, err
	}
	t.life, t.die = context.WithCancel(context.Background())
	t.steps.init()
	t.schedule, t.isLocal = t.pool.Schedule, t.local
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
	c.Cluster.Watch(t.peerLost)
	return t, nil
}

// spawn starts one of the task's actors. Where the goroutine that brings a message has done its turn, they run on the
// task's pool.
func (t *Task) spawn(spec roles.Spec) (*roles.Ref, error) {
	spec.Dispatcher, spec.Log = t.pool, t.Log
	return roles.Spawn(t.System, spec)
}

// Name is the task's name, such as /job:worker/replica:0/task:1.
func (t *Task) Name() string { return t.name }

// taskOf is the task part of a full device name.
func taskOf(device string) string {
	if i := strings.Index(device, "/device:"); i >= 0 {
		return device[:i]
	}
	return device
}

// newStepID is a random number for a step, never 0, that fits an int64 of TensorFlow's, and a number of JSON.
func newStepID() uint64 { return rand.Uint64()>>11 | 1 }

// largeTensor is the size in bytes from which a tensor travels beside the actors' messages, so
// that these never wait behind it.
const largeTensor = 64 << 10

// Deliver takes in a large tensor that a peer pushed for a step, with the caller's reference. It is no message: see
// stepTable.
func (t *Task) Deliver(step uint64, key kernels.Key, v *tensor.Tensor) {
	t.traces.transferred(view.ArrivalEvent, step, key, "", v)
	t.steps.deposit(step, key, v, false)
}

// Refuse fails a step for which a peer pushes a tensor that cannot be taken in, now or when it comes.
func (t *Task) Refuse(step uint64, err error) { t.steps.refuse(step, err) }

// peerLost tells the actors that a task is lost which has parts in steps, as worker or as master. They hear of it after
// the last message that it sent.
func (t *Task) peerLost(task string, err error) {
	m := &wire.PeerLost{Task: task, Failure: failure(err)}
	t.worker.Send(&peerLost{message: m, parts: t.steps.own()})
	t.master.Send(&peerLost{message: m, steps: t.sessionsOf.running()})
}

// peerLost is a PeerLost message with the steps of the task's own sessions that ran when the link broke: those that begin
// before an actor comes to the message may go over the next link.
type peerLost struct {
	message *wire.PeerLost
	steps   []*step     // for the master
	parts   []*taskStep // for the worker
}

// stopActors ends actors after the messages that they have been sent, and waits for that for a bounded time.
func (t *Task) stopActors(all ...*roles.Ref) (err error) {
	for _, r := range all {
		if e := t.System.Root.PoisonFuture(r.PID()).Wait(); e != nil && err == nil {
			err = status.Errorf(status.DeadlineExceeded, "The actor %s did not stop: %v", r.Name(), e)
		}
	}
	return err
}

// background runs f on a goroutine that Stop waits for, with a context that ends then.
func (t *Task) background(f func(ctx context.Context)) {
	t.work.Go(contain.Func(t.Log, "Work in the background", func() { f(t.life) }, nil))
}

// Stop ends the task: sessions are closed, running steps get until ctx ends and are then
// cancelled, and the actors stop.
func (t *Task) Stop(ctx context.Context) error {
	t.sessionsOf.drain(ctx)
	err := t.steps.drain(ctx)
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

// DeviceState asks the executor of one of the task's devices how it does: nil for an actor that is none, or has stopped.
func (t *Task) DeviceState(executor string) *devices.State {
	for _, e := range t.executors {
		if e.Role().Name() == executor {
			return e.State()
		}
	}
	return nil
}

// Trim releases memory of the task's devices that was idle since the last Trim, and tells the bytes.
func (t *Task) Trim() (bytes int64) {
	for _, d := range t.Devices {
		bytes += t.executors[d.Name()].Trim()
	}
	return bytes + tensor.Host.Trim()
}

// FeedMemory is where tensors are made that a client feeds to a session's steps; nil if there is no such session.
func (t *Task) FeedMemory(handle string) *tensor.Pool {
	s := t.sessionsOf.session(handle)
	if s == nil {
		return nil
	}
	return s.worker.devices[0].Pool()
}
