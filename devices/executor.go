package devices

import (
	"cmp"
	"log/slog"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices/internal/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/proto"
)

// Executor is the actor that owns a device: a task uses the device through messages to it. It admits and counts parts of steps, compiles
// their programs, learns when the device is lost and restarted, keeps its statistics, and closes it. All methods may be called
// concurrently.
//
// A part runs beside the actor, so parts of several steps run at the same time: on the goroutine that delivers the message, or on the
// task's pool. A running program allocates tensors by calling the device's memory, which it got with the device when the executor compiled
// it. A part makes many tensors; a message for each would take the actor's time from other parts. The memory's own counters and limit hold
// for all programs; the executor reads them.
type Executor struct {
	device  Device
	losable Losable // the device if it may be lost, else nil
	lent    bool
	self    *roles.Ref
	pool    *roles.Pool
	log     *slog.Logger
	events  *view.Events

	attributes atomic.Pointer[device.Attributes] // published by the actor, never modified

	// Used by the actor only.
	state     wire.State
	running   partList // only if the device may be lost
	refusal   error    // why new work fails: the device is lost or closed; nil while it serves
	closed    bool
	stopWatch func()
}

// State is an executor's answer to GetState: see device.proto.
type State struct {
	*wire.State
	Attributes *device.Attributes // as of the same moment; they must not be modified
}

// ExecutorKind is the kind of executors among a system's roles.
const ExecutorKind = "device"

// ExecutorConfig configures an executor.
type ExecutorConfig struct {
	System *actor.ActorSystem
	// The executor owns Device, and closes it with its containers, unless it is Lent by another task.
	Device Device
	Lent   bool
	// Pool runs work that does not run on a caller's goroutine.
	Pool *roles.Pool
	Log  *slog.Logger
	// Events receives the device's losses and restarts, if not nil.
	Events *view.Events
}

// StartExecutor spawns the executor of a device. If it fails, the caller still owns the device.
func StartExecutor(c ExecutorConfig) (*Executor, error) {
	d := c.Device
	e := &Executor{device: d, lent: c.Lent, pool: c.Pool, log: c.Log, events: c.Events}
	e.attributes.Store(new(AttributesOf(d)))
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

// Role returns the executor's actor.
func (e *Executor) Role() *roles.Ref { return e.self }

// Attributes returns the public attributes of the device, as the executor knows them. They must not be modified. It sends no message: a
// step reads what the executor has published.
func (e *Executor) Attributes() *device.Attributes { return e.attributes.Load() }

// Losable reports whether the device may be lost and restarted with another incarnation.
func (e *Executor) Losable() bool { return e.losable != nil }

// deviceWatcher turns a device's notifications into messages.
type deviceWatcher struct{ executor *roles.Ref }

// DeviceStarted sends a DeviceStarted message.
func (w deviceWatcher) DeviceStarted(incarnation uint64) {
	w.executor.Send(&wire.DeviceStarted{Incarnation: incarnation})
}

// DeviceLost sends a DeviceLost message.
func (w deviceWatcher) DeviceLost(why error) {
	w.executor.Send(&wire.DeviceLost{Reason: status.From(why).Message})
}

// Messages without their own fields; never modified.
var (
	runHere       = &wire.RunPart{}
	runElsewhere  = &wire.RunPart{Elsewhere: true}
	partSucceeded = &wire.PartDone{}
	partFailed    = &wire.PartDone{Failed: true}
)

// Run runs a part on the caller's goroutine until it must wait, unless the executor is busy. It panics for a program that another executor
// compiled.
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

// compilation is a Compile message with the values that accompany it.
type compilation struct {
	message *wire.Compile
	device  Device // the executor's, possibly with containers of the session
	graph   *graph.Graph
	opts    CompileOptions
	log     *slog.Logger
	reply   chan compiled // buffered for the one answer
}

type compiled struct {
	program *Program
	err     error
}

// Compile makes a program of a graph for the device, or for the same device with other containers. It waits for the result.
func (e *Executor) Compile(g *graph.Graph, d Device, opts CompileOptions) (*Program, error) {
	c := &compilation{message: &wire.Compile{Session: opts.Session}, device: d, graph: g, opts: opts, log: e.log, reply: make(chan compiled, 1)}
	e.self.Send(c)
	r := <-c.reply // compile time is bounded by the graph
	if r.err == nil {
		r.program.executor = e
	}
	return r.program, r.err
}

// Do compiles the program.
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

// CloseProgram releases what the kernels of a program hold. The program must not be running, nor be run again.
func (e *Executor) CloseProgram(p *Program) { e.self.Send(&closing{&wire.CloseProgram{}, p}) }

// stateCall is a GetState message with the channel for the answer.
type stateCall struct {
	message *wire.GetState
	device  Device
	state   *State
	reply   chan *State // buffered for the one answer
}

// State returns the executor's counters, or nil if it has stopped.
func (e *Executor) State() *State {
	c := &stateCall{message: &wire.GetState{}, device: e.device, reply: make(chan *State, 1)}
	e.self.Send(c)
	return <-c.reply
}

// Do reads the memory's counters. Their lock may be held while a driver allocates memory, so this does not run in the actor.
func (c *stateCall) Do(bool) {
	m := c.device.MemoryStats()
	c.state.Memory = &wire.Memory{InUse: m.InUse, Peak: m.Peak, Idle: m.Idle}
	c.reply <- c.state
}

// trimming is a Trim message with the channel for the answer.
type trimming struct {
	message *wire.Trim
	device  Device
	reply   chan *wire.Trimmed // buffered for the one answer
}

// Trim releases memory of the device that has been idle since the last Trim, and returns the number of bytes.
func (e *Executor) Trim() int64 {
	t := &trimming{&wire.Trim{}, e.device, make(chan *wire.Trimmed, 1)}
	e.self.Send(t)
	return (<-t.reply).GetBytes()
}

// Do trims the memory.
func (t *trimming) Do(bool) { t.reply <- &wire.Trimmed{Bytes: t.device.Trim()} }

// deviceEnd is a CloseDevice message with the channel for the answer.
type deviceEnd struct {
	message  *wire.CloseDevice
	executor *Executor
	reply    chan error // buffered for the one answer
}

// Close refuses further work and closes the device with its containers, unless it is lent. Running parts must have ended, or are abandoned.
// Close waits for the device. It does not stop the actor.
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

// Receive handles the actor's messages. See wire/device.proto.
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
		m.state = &State{proto.CloneOf(&e.state), e.attributes.Load()}
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

// revive asks a device that is out of service to try to restart.
func (e *Executor) revive() {
	if !e.closed {
		e.losable.Revive()
	}
}

// deviceLost fails running parts, and refuses new ones.
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

// deviceStarted publishes the incarnation of a device that serves again.
func (e *Executor) deviceStarted(m *wire.DeviceStarted) {
	if e.closed {
		return
	}
	a := *e.attributes.Load()
	a.Incarnation = m.Incarnation
	e.attributes.Store(&a)
	e.state.Lost, e.refusal = "", nil
	e.events.Add("device started", e.device.Name(), "")
}

func (e *Executor) errClosed() error {
	return status.Errorf(status.Unavailable, "%s is closed", e.device.Name())
}

// refuse ends work that arrives after the executor has stopped.
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
