package gpu

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// news is a notification of a watcher: the incarnation, or why the device is lost.
type news struct {
	started uint64
	lost    error
}

// watcher passes on its notifications.
type watcher chan news

func (w watcher) DeviceStarted(incarnation uint64) { w <- news{started: incarnation} }
func (w watcher) DeviceLost(why error)             { w <- news{lost: why} }

// TestWatch checks that watchers are notified of the present state, of losses and of starts, in order.
func TestWatch(t *testing.T) {
	card := newMachine(1, 1<<20).cards[0]
	d := open(t, card, nil)
	first, before := make(watcher, 10), d.Incarnation()
	stop := d.Watch(first)
	if n := <-first; n.started != before {
		t.Errorf("told %v at first", n)
	}
	card.m.mu.Lock()
	card.refuse = func(call string) error {
		if call == "Open" {
			return errors.New("fallen off the bus")
		}
		return nil
	}
	card.m.mu.Unlock()
	step := newStep()
	d.Launch(inStep(step, "culprit"), kernels.Launch{Function: "fault"})
	wantError(t, settle(t, d, step), status.Unavailable, "{{node culprit}}")
	wantError(t, (<-first).lost, status.Unavailable, "was lost", "{{node culprit}}")
	wantError(t, (<-first).lost, status.Unavailable, "cannot be started anew yet", "fallen off the bus")
	late := make(watcher, 10)
	stopLate := d.Renamed("other").(*Device).Watch(late)
	wantError(t, (<-late).lost, status.Unavailable, "fallen off the bus")
	stopLate()
	card.m.mu.Lock()
	card.refuse = nil
	card.m.mu.Unlock()
	d.revive(t)
	if n := <-first; n.started != d.Incarnation() || n.started == before {
		t.Errorf("told %v in the end", n)
	}
	stop()
	if len(first)+len(late) != 0 {
		t.Errorf("told more: %d and %d", len(first), len(late))
	}
}

// partEnd is the owner of a part. It cancels the part when the device is lost.
type partEnd struct {
	step  *kernels.Step
	lost  chan error
	ended chan error
}

func (partEnd) PartMoved()            {}
func (p partEnd) PartEnded(err error) { p.ended <- err }
func (p partEnd) PartLost(err error) {
	p.lost <- err
	go p.step.Cancellation.Cancel(status.Derive(err))
}

// TestExecutorOfALostCard runs parts on a card through its executor, before and after a loss.
func TestExecutorOfALostCard(t *testing.T) {
	d := open(t, newMachine(1, 1<<20).cards[0], nil)
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	pool := roles.NewPool()
	e, err := devices.StartExecutor(devices.ExecutorConfig{System: system, Device: d.Device, Lent: true, Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	compile := func(text string) *devices.Program {
		t.Helper()
		g, err := graph.Rebuild(kernelstest.GraphDef(t, text))
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Compile(g, d.Device, devices.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	begin := func(p *devices.Program) partEnd {
		step := &kernels.Step{ID: 1, Fetches: &fetched{got: map[int]*tensor.Tensor{}, dead: map[int]bool{}}, Feeds: &devices.Feeds{},
			Cancellation: &kernels.Cancellation{}, Container: "__per_step_1"}
		meet := devices.NewRendezvous(nil, nil)
		step.Rendezvous = meet
		step.Cancellation.Bind(meet.Abort)
		owner := partEnd{step, make(chan error, 1), make(chan error, 1)}
		e.Run(&devices.Part{Program: p, Step: step, Owner: owner})
		return owner
	}
	waits, quick := compile("a = _Recv() tensor_name=\"x\""), compile("n = NoOp()")
	if err := <-begin(quick).ended; err != nil {
		t.Fatal(err)
	}
	waiting, before := begin(waits), d.Incarnation()
	if s := e.State(); s.PartsRunning != 1 || s.Attributes.Incarnation != before || s.Attributes.MemoryLimit != d.MemoryLimit() {
		t.Errorf("%v", s)
	}
	// The waiting part has no work on the card, so the executor must fail it.
	culprit := newStep()
	d.Launch(inStep(culprit, "culprit"), kernels.Launch{Function: "fault"})
	wantError(t, settle(t, d, culprit), status.Unavailable)
	wantError(t, <-waiting.lost, status.Unavailable, "was lost and is started anew", "ILLEGAL_ADDRESS")
	wantError(t, <-waiting.ended, status.Unavailable, "ILLEGAL_ADDRESS")
	d.told(t, startedAnew)
	if err := <-begin(quick).ended; err != nil {
		t.Error(err)
	}
	if s := e.State(); s.PartsRunning != 0 || s.Losses != 1 || s.Lost != "" || s.Attributes.Incarnation == before || s.Attributes.Incarnation != d.Incarnation() {
		t.Errorf("%v", s)
	}
	e.CloseProgram(waits)
	e.CloseProgram(quick)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := system.Root.PoisonFuture(e.Role().PID()).Wait(); err != nil {
		t.Error(err)
	}
	if !pool.Close(context.Background()) {
		t.Error("the pool's goroutines did not end")
	}
	system.Shutdown()
}
