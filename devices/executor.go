package devices

import (
	"cmp"
	"log/slog"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices/internal/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/proto"
)

// Executor is the actor that owns a device: what a task does with the device is a message to it. It admits and counts
// parts of steps, compiles their programs, is told by the device when that is lost and started anew, knows its
// statistics, and closes it. All methods may be called concurrently.
//
// A part runs beside the actor, so that parts of several steps run at the same time: on the goroutine that brings the
// message, or on the task's pool. A program that runs allocates tensors by calls of the device's memory, which the
// executor handed to it with the device when it compiled it: tensors are many to a part, and a message for each would
// take the actor's turn from the parts. The memory's own counters and limit hold for all programs; the executor asks them.
type Executor struct {
	device  Device
	losable Losable // the device, where it may be lost; else nil
	lent    bool
	self    *roles.Ref
	pool    *roles.Pool
	log     *slog.Logger
	events  *view.Events

	attributes atomic.Pointer[wire.Attributes] // published by the actor, not changed

	// The actor's own.
	state     wire.State
	running   partList // of a device that may be lost
	refusal   error    // what begins fails with: the device is lost or closed; nil while it serves
	closed    bool
	stopWatch func()
}

// State is an executor's answer to GetState: see device.proto.
type State = wire.State

// Attributes are what an executor publishes of its device: see device.proto.
type Attributes = wire.Attributes

// ExecutorKind is the kind of executors among a system's roles.
const ExecutorKind = "device"

// ExecutorConfig says what an executor is made of.
type ExecutorConfig struct {
	System *actor.ActorSystem
	// Device becomes the executor's, which closes it with its containers, unless it is Lent by another task.
	Device Device
	Lent   bool
	// Pool is for work that no caller's goroutine does.
	Pool *roles.Pool
	Log  *slog.Logger
	// Events is told when the device is lost and when it has started anew; nil for nobody.
	Events *view.Events
}

// StartExecutor spawns the executor of a device. After an error the device is the caller's still.
func StartExecutor(c ExecutorConfig) (*Executor, error) {
	d := c.Device
	e := &Executor{device: d, lent: c.Lent, pool: c.Pool, log: c.Log, events: c.Events}
	e.attributes.Store(&wire.Attributes{Name: d.Name(), Type: d.Type(), MemoryLimit: d.MemoryLimit(), Incarnation: d.Incarnation(),
		Description: d.Description()})
	e.losable, _ = d.(Losable)
	var err error
	e.self, err = roles.Spawn(c.System, roles.Spec{Name: ExecutorKind + d.Name(), Kind: ExecutorKind, Receive: e.Receive, Refuse: e.refuse,
		Dispatcher: c.Pool, Log: c.Log})
	if err != nil {
		return nil, err
	}
	if e.losable != nil {
		e.stopWatch = e.losable.Watch(deviceWatcher{e.self})
	}
	return e, nil
}

// Role is the executor's actor.
func (e *Executor) Role() *roles.Ref { return e.self }

// Attributes are what others see of the device, as the executor knows it. They must not be changed. It sends no message:
// what a step reads the executor publishes.
func (e *Executor) Attributes() *wire.Attributes { return e.attributes.Load() }

// Losable tells whether the device may be lost and started anew, with another incarnation.
func (e *Executor) Losable() bool { return e.losable != nil }

// deviceWatcher makes messages of what a device tells.
type deviceWatcher struct{ executor *roles.Ref }

// DeviceStarted sends a DeviceStarted message.
func (w deviceWatcher) DeviceStarted(incarnation uint64) {
	w.executor.Send(&wire.DeviceStarted{Incarnation: incarnation})
}

// DeviceLost sends a DeviceLost message.
func (w deviceWatcher) DeviceLost(why error) {
	w.executor.Send(&wire.DeviceLost{Reason: status.From(why).Message})
}

// Messages without fields of their own, which are not changed.
var (
	runHere       = &wire.RunPart{}
	runElsewhere  = &wire.RunPart{Elsewhere: true}
	partSucceeded = &wire.PartDone{}
	partFailed    = &wire.PartDone{Failed: true}
)

// Run runs a part on the goroutine of the caller as far as it goes without waiting, unless the executor is busy. It
// panics for a program that another executor compiled.
func (e *Executor) Run(p *Part) { e.send(p, runHere) }

// RunElsewhere runs a part on the task's pool.
func (e *Executor) RunElsewhere(p *Part) { e.send(p, runElsewhere) }

func (e *Executor) send(p *Part, message *wire.RunPart) {
	if p.Program.executor != e {
		panic("devices: a program of another executor")
	}
	p.message, p.executor = message, e
	if p.ended == nil {
		p.ended, p.elsewhere = p.end, contain.Func(e.log, "A part of a step", p.run, nil)
	}
	e.self.Send(p)
}

// compilation is a Compile message with what lies beside it.
type compilation struct {
	message *wire.Compile
	device  Device // the executor's, maybe with containers of the session's own
	graph   *graph.Graph
	opts    CompileOptions
	log     *slog.Logger
	reply   chan compiled // has room for the one answer
}

type compiled struct {
	program *Program
	err     error
}

// Compile makes a program of a graph for the device, or for the same device with other containers. It waits for it.
func (e *Executor) Compile(g *graph.Graph, d Device, opts CompileOptions) (*Program, error) {
	c := &compilation{message: &wire.Compile{Session: opts.Session}, device: d, graph: g, opts: opts, log: e.log, reply: make(chan compiled, 1)}
	e.self.Send(c)
	r := <-c.reply // compiling is bounded by the graph
	if r.err == nil {
		r.program.executor = e
	}
	return r.program, r.err
}

// Do compiles.
func (c *compilation) Do(bool) {
	defer contain.Recover(c.log, "Compiling for "+c.device.Name(), func(err error) { c.reply <- compiled{err: err} })
	p, err := Compile(c.graph, c.device, c.opts)
	c.reply <- compiled{p, err}
}

// closing is a CloseProgram message with the program.
type closing struct {
	message *wire.CloseProgram
	program *Program
}

// Do closes the program.
func (c *closing) Do(bool) { c.program.Close() }

// CloseProgram gives up what the kernels of a program hold. It must not run any more, nor be run again.
func (e *Executor) CloseProgram(p *Program) { e.self.Send(&closing{&wire.CloseProgram{}, p}) }

// stateCall is a GetState message with the channel for the answer.
type stateCall struct {
	message *wire.GetState
	device  Device
	state   *wire.State
	reply   chan *wire.State // has room for the one answer
}

// State tells what the executor has counted; nil when it has stopped.
func (e *Executor) State() *wire.State {
	c := &stateCall{message: &wire.GetState{}, device: e.device, reply: make(chan *wire.State, 1)}
	e.self.Send(c)
	return <-c.reply
}

// Do asks the memory, whose lock may be held while a driver is asked for more.
func (c *stateCall) Do(bool) {
	m := c.device.MemoryStats()
	c.state.Memory = &wire.Memory{InUse: m.InUse, Peak: m.Peak, Idle: m.Idle}
	c.reply <- c.state
}

// trimming is a Trim message with the channel for the answer.
type trimming struct {
	message *wire.Trim
	device  Device
	reply   chan *wire.Trimmed // has room for the one answer
}

// Trim releases memory of the device that was idle since the last Trim, and tells the bytes.
func (e *Executor) Trim() int64 {
	t := &trimming{&wire.Trim{}, e.device, make(chan *wire.Trimmed, 1)}
	e.self.Send(t)
	return (<-t.reply).GetBytes()
}

// Do trims.
func (t *trimming) Do(bool) { t.reply <- &wire.Trimmed{Bytes: t.device.Trim()} }

// deviceEnd is a CloseDevice message with the channel for the answer.
type deviceEnd struct {
	message  *wire.CloseDevice
	executor *Executor
	reply    chan error // has room for the one answer
}

// Close refuses what comes from now on and closes the device with its containers, unless it is lent. Parts that run must
// have ended, or are given up. It waits for the device. Then only the actor is left to be stopped.
func (e *Executor) Close() error {
	c := &deviceEnd{&wire.CloseDevice{}, e, make(chan error, 1)}
	e.self.Send(c)
	return <-c.reply
}

// Do closes the device.
func (c *deviceEnd) Do(bool) {
	e := c.executor
	if e.stopWatch != nil {
		e.stopWatch()
	}
	if e.lent {
		c.reply <- nil
		return
	}
	err := e.device.Resources().Close()
	c.reply <- cmp.Or(err, e.device.Close())
}

// Receive is the executor's behaviour. See wire/device.proto.
func (e *Executor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *Part:
		e.begin(m)
	case *partDone:
		e.state.PartsRunning--
		e.state.PartsDone++
		if m.done.Failed {
			e.state.PartsFailed++
		}
		if e.losable != nil {
			e.running.remove((*Part)(m))
		}
	case *compilation:
		if e.refusal != nil {
			e.revive()
			m.reply <- compiled{err: e.refusal}
			return
		}
		e.state.Programs++
		e.self.After(m)
	case *closing:
		e.state.Programs--
		e.self.After(m)
	case *wire.DeviceLost:
		e.deviceLost(m)
	case *wire.DeviceStarted:
		e.deviceStarted(m)
	case *stateCall:
		m.state = proto.CloneOf(&e.state)
		m.state.Attributes = e.attributes.Load()
		e.self.After(m)
	case *trimming:
		e.self.After(m)
	case *deviceEnd:
		if e.closed {
			m.reply <- nil
			return
		}
		e.closed, e.refusal = true, e.errClosed()
		e.self.After(m)
	}
}

// begin admits a part, or refuses it.
func (e *Executor) begin(p *Part) {
	if e.refusal != nil {
		e.revive()
		e.state.PartsRefused++
		p.refusal = e.refusal
		e.self.After((*refusedPart)(p))
		return
	}
	e.state.PartsRunning++
	if e.losable != nil {
		e.running.add(p)
		p.setLive(true)
	}
	if p.message.Elsewhere {
		e.pool.Schedule(p.elsewhere)
	} else {
		e.self.After(p)
	}
}

// revive tells a device that is out of service that it is wanted.
func (e *Executor) revive() {
	if !e.closed {
		e.losable.Revive()
	}
}

// deviceLost fails what runs, and refuses what comes.
func (e *Executor) deviceLost(m *wire.DeviceLost) {
	if e.closed {
		return
	}
	if e.state.Lost == "" {
		e.state.Losses++
		e.events.Add("device lost", e.device.Name(), view.Line(m.Reason))
	}
	e.state.Lost = m.Reason
	e.refusal = &status.Error{Code: status.Unavailable, Message: m.Reason}
	e.running.lose(e.refusal)
}

// deviceStarted publishes the incarnation of a device that serves.
func (e *Executor) deviceStarted(m *wire.DeviceStarted) {
	if e.closed {
		return
	}
	a := proto.CloneOf(e.attributes.Load())
	a.Incarnation = m.Incarnation
	e.attributes.Store(a)
	e.state.Lost, e.refusal = "", nil
	e.events.Add("device started", e.device.Name(), "")
}

func (e *Executor) errClosed() error {
	return status.Errorf(status.Unavailable, "%s is closed", e.device.Name())
}

// refuse ends what comes when the executor has stopped.
func (e *Executor) refuse(message any, cause error) {
	err := e.errClosed()
	if cause != nil {
		err = status.Internalf("The executor of %s failed: %v", e.device.Name(), cause)
	}
	switch m := message.(type) {
	case *Part:
		m.Owner.PartEnded(err)
	case *compilation:
		m.reply <- compiled{err: err}
	case *closing:
		m.Do(true)
	case *stateCall:
		m.reply <- nil
	case *trimming:
		m.reply <- &wire.Trimmed{}
	case *deviceEnd:
		m.reply <- cause
	}
}
