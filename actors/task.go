package actors

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// The names under which a task's actors are reached.
const (
	workerName    = "worker"
	masterName    = "master"
	directoryName = "directory"
	answersName   = "answers"
)

// Config is what a task is made of.
type Config struct {
	System  *actor.ActorSystem
	Cluster Cluster
	// Devices are the task's, CPU:0 first: clients' tensors lie in its memory. The task closes them, unless
	// they are Lent by another task.
	Devices []devices.Device
	Lent    bool
	// Boot is this process's random number, as its peers see it.
	Boot uint64
	// Lease is how long a session lives on after its client's last connection ended.
	Lease time.Duration
	// Defaults tells how sessions are configured where the client says nothing.
	Defaults SessionDefaults
	// ParseCompression gives the transport's number of an algorithm and a level; nil where there are none.
	ParseCompression func(name string, level int) (Compression, error)
	Log              *slog.Logger
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

// Task is one task of the cluster in this process: devices, steps, and the actors that serve them.
type Task struct {
	Config
	name  string
	steps stepTable

	mu       sync.Mutex
	sessions map[string]*workerSession
	placing  *place.Prepared // the devices of all tasks, as they were known when a session was made

	master, directory *actor.PID
	sessionsOf        *masterState
	led               ledSteps
	spare             sync.Pool // of *step
	inlets            []*inlet
	answers           *actor.PID // where the workers of the own sessions' steps answer

	life context.Context // ends when the task stops
	die  context.CancelFunc
	work sync.WaitGroup // what goes on in the background
	crew *crew
	// Functions of the task's, made once for its steps.
	schedule func(work func())
	isLocal  func(device string) bool
}

// NewTask starts the actors of a task.
func NewTask(c Config) (*Task, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	t := &Task{Config: c, name: c.Cluster.Self(), sessions: map[string]*workerSession{}, crew: newCrew()}
	t.life, t.die = context.WithCancel(context.Background())
	t.steps.init()
	t.schedule, t.isLocal = t.crew.Schedule, t.local
	t.sessionsOf = &masterState{task: t, used: map[string]int{}}
	c.Cluster.Watch(t.peerDown)
	for _, a := range []struct {
		pid  **actor.PID
		name string
		make func() actor.Actor
	}{
		{&t.master, masterName, func() actor.Actor { return &master{task: t, state: t.sessionsOf} }},
		{&t.directory, directoryName, func() actor.Actor { return newDirectory(t) }},
	} {
		pid, err := c.System.Root.SpawnNamed(props(t, a.make), a.name)
		if err != nil {
			return nil, status.Internalf("The actor %s of %s did not start: %v", a.name, t.name, err)
		}
		*a.pid = pid
	}
	worker, _, err := t.newInlet(workerName, t.serveMasters)
	if err != nil {
		return nil, err
	}
	workers, pid, err := t.newInlet(answersName, t.serveWorkers)
	if err != nil {
		return nil, err
	}
	t.inlets, t.answers = []*inlet{worker, workers}, pid
	return t, nil
}

// props supervise an actor that holds state: a panic while it handles a message is logged and
// costs that message alone.
func props(t *Task, produce func() actor.Actor) *actor.Props {
	guard := func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, envelope *actor.MessageEnvelope) {
			defer func() {
				if p := recover(); p != nil {
					t.Log.Error("an actor panicked", "message", typeName(envelope.Message), "panic", p, "stack", stack())
				}
			}()
			next(c, envelope)
		}
	}
	return actor.PropsFromProducer(produce, actor.WithReceiverMiddleware(guard), actor.WithDispatcher(t.crew),
		actor.WithSupervisor(actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })))
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

// newStepID is a random number for a step, never 0, that fits an int64 of TensorFlow's.
func newStepID() uint64 { return rand.Uint64()>>8 | 1 }

// largeTensor is the size in bytes from which a tensor travels beside the actors' messages, so
// that these never wait behind it.
const largeTensor = 64 << 10

// Deliver takes in a large tensor that a peer pushed for a step, with the caller's reference.
func (t *Task) Deliver(step uint64, key kernels.Key, v *tensor.Tensor) {
	t.steps.deposit(step, key, v, false)
}

// Refuse fails a step for which a peer pushes a tensor that cannot be taken in, now or when it comes.
func (t *Task) Refuse(step uint64, err error) { t.steps.refuse(step, err) }

// peerDown fails the steps that a lost task has a part in, as worker or as master.
func (t *Task) peerDown(task string, err error) {
	t.steps.masterDown(task, err)
	t.orphanSessionsOf(task)
	t.steps.peerDown(task, err)
	t.sessionsOf.peerDown(task, err)
}

// background runs f on a goroutine that Stop waits for, with a context that ends then.
func (t *Task) background(f func(ctx context.Context)) { t.work.Go(func() { f(t.life) }) }

// Stop ends the task: sessions are closed, running steps get until ctx ends and are then
// cancelled, and the actors stop.
func (t *Task) Stop(ctx context.Context) error {
	t.sessionsOf.drain(ctx)
	err := t.steps.drain(ctx)
	for _, in := range t.inlets {
		if e := in.close(); e != nil && err == nil {
			err = e
		}
	}
	for _, pid := range []*actor.PID{t.master, t.directory} {
		f := t.System.Root.PoisonFuture(pid)
		if e := f.Wait(); e != nil && err == nil {
			err = status.Errorf(status.DeadlineExceeded, "The actor %s did not stop: %v", pid.Id, e)
		}
	}
	t.die()
	t.work.Wait()
	t.forgetSessions()
	if !t.crew.dismiss(ctx) && err == nil {
		err = status.Errorf(status.DeadlineExceeded, "Kernels of %s did not end", t.name)
	}
	if t.Lent {
		return err
	}
	for _, d := range t.Devices {
		if e := d.Resources().Close(); e != nil && err == nil {
			err = e
		}
		if e := d.Close(); e != nil && err == nil {
			err = e
		}
	}
	return err
}
