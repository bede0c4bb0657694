package devices

import (
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices/internal/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// Executor is the actor of a device: what a task does with the device, parts of steps and the compilation of their
// programs, are messages to it. It admits parts until it stops, and counts them. All methods may be called concurrently.
//
// A part runs beside the actor, so that parts of several steps run at the same time: on the goroutine that brings the
// message, or on the task's pool.
type Executor struct {
	device Device
	self   *roles.Ref
	pool   *roles.Pool

	state wire.State // the actor's own
}

// ExecutorKind is the kind of executors among a system's roles.
const ExecutorKind = "device"

// StartExecutor spawns the executor of a device. Its work runs on pool where no caller's goroutine does it.
func StartExecutor(system *actor.ActorSystem, d Device, pool *roles.Pool, log *slog.Logger) (*Executor, error) {
	e := &Executor{device: d, pool: pool}
	e.state.Incarnation = d.Incarnation()
	var err error
	e.self, err = roles.Spawn(system, roles.Spec{Name: ExecutorKind + d.Name(), Kind: ExecutorKind, Receive: e.Receive, Refuse: e.refuse,
		Dispatcher: pool, Log: log})
	return e, err
}

// Role is the executor's actor.
func (e *Executor) Role() *roles.Ref { return e.self }

// Part is a part of a step for a device: a RunPart message with what lies beside it. Its memory may be used again when
// the part has ended.
type Part struct {
	// Program is what runs, as part of Step.
	Program *Program
	Step    *kernels.Step
	Owner   PartOwner

	message  *wire.RunPart
	executor *Executor
	ended    func(error) // made once
}

// PartOwner is told how a part gets on.
type PartOwner interface {
	// PartMoved is called before a part runs elsewhere that was to run on the goroutine of the caller of Run.
	PartMoved()
	// PartBegan is given the execution when it waits or has ended.
	PartBegan(Execution)
	// PartEnded is called once, as by Program.Run, or where the executor refused the part.
	PartEnded(error)
}

var _ roles.Work = (*Part)(nil)

// Messages without fields of their own, which are not changed.
var (
	runHere      = &wire.RunPart{}
	runElsewhere = &wire.RunPart{Elsewhere: true}
	partDone     = &wire.PartDone{}
	partFailed   = &wire.PartDone{Failed: true}
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
		p.ended = p.end
	}
	e.self.Send(p)
}

// Do runs the part. It is the executor that calls it.
func (p *Part) Do(here bool) {
	if !here {
		p.Owner.PartMoved()
	}
	p.run()
}

func (p *Part) run() {
	owner := p.Owner
	ex := p.Program.Run(p.Step, p.ended) // p may be in use for another part from here on
	owner.PartBegan(ex)
}

// end tells the executor first: the memory of the part may be used again once its step knows.
func (p *Part) end(err error) {
	m := partDone
	if err != nil {
		m = partFailed
	}
	p.executor.self.Send(m)
	p.Owner.PartEnded(err)
}

// compilation is a Compile message with what lies beside it.
type compilation struct {
	message *wire.Compile
	device  Device // the executor's, maybe with containers of the session's own
	graph   *graph.Graph
	opts    CompileOptions
	reply   chan compiled // has room for the one answer
}

type compiled struct {
	program *Program
	err     error
}

// Compile makes a program of a graph for the device, or for the same device with other containers. It waits for it.
func (e *Executor) Compile(g *graph.Graph, d Device, opts CompileOptions) (*Program, error) {
	c := &compilation{message: &wire.Compile{Session: opts.Session}, device: d, graph: g, opts: opts, reply: make(chan compiled, 1)}
	e.self.Send(c)
	r := <-c.reply // compiling is bounded by the graph
	if r.err == nil {
		r.program.executor = e
	}
	return r.program, r.err
}

// Do compiles.
func (c *compilation) Do(bool) {
	defer func() {
		if p := recover(); p != nil {
			c.reply <- compiled{err: status.Internalf("Compiling for %s panicked: %v\n%s", c.device.Name(), p, debug.Stack())}
		}
	}()
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
	reply   chan *wire.State
}

// State tells what the executor has counted; nil when it has stopped.
func (e *Executor) State() *wire.State {
	c := &stateCall{&wire.GetState{}, make(chan *wire.State, 1)}
	e.self.Send(c)
	return <-c.reply
}

// Receive is the executor's behaviour. See wire/device.proto.
func (e *Executor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *Part:
		e.state.PartsRunning++
		if m.message.Elsewhere {
			e.pool.Schedule(m.run)
		} else {
			e.self.After(m)
		}
	case *wire.PartDone:
		e.state.PartsRunning--
		e.state.PartsDone++
		if m.Failed {
			e.state.PartsFailed++
			e.noteLoss()
		}
	case *compilation:
		e.noteLoss()
		e.state.Programs++
		e.self.After(m)
	case *closing:
		e.state.Programs--
		e.self.After(m)
	case *stateCall:
		e.noteLoss()
		m.reply <- proto.CloneOf(&e.state)
	}
}

// noteLoss counts that the device was lost and started anew since the last look.
func (e *Executor) noteLoss() {
	if n := e.device.Incarnation(); n != e.state.Incarnation {
		e.state.Incarnation = n
		e.state.Losses++
	}
}

// refuse ends what comes when the executor has stopped.
func (e *Executor) refuse(message any, cause error) {
	err := status.Errorf(status.Unavailable, "%s is closed", e.device.Name())
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
	}
}
