package devices

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
)

// startTestExecutor spawns the executor of a device. It returns a function that stops it.
func startTestExecutor(t testing.TB, d Device) (e *Executor, stop func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	pool := roles.NewPool()
	e, err := StartExecutor(ExecutorConfig{System: system, Device: d, Lent: true, Pool: pool, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
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
}

// ended is a PartOwner that sends the part's error.
type ended chan<- error

func (ended) PartMoved()            {}
func (ended) PartLost(error)        {}
func (e ended) PartEnded(err error) { e <- err }

// TestExecutor runs parts from many goroutines, here and elsewhere, and checks the counters.
func TestExecutor(t *testing.T) {
	d := newTestDevice(t)
	e, stop := startTestExecutor(t, d)
	p, err := e.Compile(graphOf(t, "a = Const() value=3\nb = Neg(a)\nr = _Retval(b) index=0"), d, CompileOptions{Kernels: substitutes(nil).source})
	if err != nil {
		t.Fatal(err)
	}
	const senders, each = 4, 100
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				r, done := newResults(), make(chan error, 1)
				part := &Part{Program: p, Step: newTestStep(r), Owner: ended(done)}
				if (s+i)%2 == 0 {
					e.Run(part)
				} else {
					e.RunElsewhere(part)
				}
				if err := <-done; err != nil || r.got[0] != -3 {
					t.Error(err, r.got)
				}
			}
		})
	}
	wg.Wait()
	cancelled := newTestStep(newResults())
	cancelled.Cancellation.Cancel(status.Errorf(status.Cancelled, "enough"))
	failed := make(chan error, 1)
	e.Run(&Part{Program: p, Step: cancelled, Owner: ended(failed)})
	wantError(t, <-failed, status.Cancelled, "enough")
	s := e.State()
	if s.PartsRunning != 0 || s.PartsDone != senders*each+1 || s.PartsFailed != 1 || s.Programs != 1 || s.Attributes.Incarnation != d.Incarnation() || s.Losses != 0 {
		t.Errorf("%v", s)
	}
	e.CloseProgram(p)
	if s := e.State(); s.Programs != 0 {
		t.Errorf("%v", s)
	}
	stop()
	e.Run(&Part{Program: p, Step: newTestStep(newResults()), Owner: ended(failed)})
	wantError(t, <-failed, status.Unavailable, "is closed")
	if e.State() != nil {
		t.Error("a stopped executor has a state")
	}
	_, err = e.Compile(graphOf(t, "a = Const() value=3"), d, CompileOptions{})
	wantError(t, err, status.Unavailable, "is closed")
}

// TestExecutorCompilePanics checks that a panic of a constructor becomes an error for the caller.
func TestExecutorCompilePanics(t *testing.T) {
	d := newTestDevice(t)
	e, stop := startTestExecutor(t, d)
	defer stop()
	_, err := e.Compile(graphOf(t, "a = Const() value=3\nr = _Retval(a) index=0"), d,
		CompileOptions{Kernels: func(string, *graph.Node, kernels.Device, bool, func() (any, error)) (any, bool, error) {
			panic("a bug")
		}})
	wantError(t, err, status.Internal, "a bug")
	if s := e.State(); s == nil {
		t.Error("the executor has stopped")
	}
}

// losable is a device that the test loses and restarts.
type losable struct {
	*CPU
	watcher Watcher // nil if it is not watched
	wanted  int     // calls of Revive
}

var _ Losable = (*losable)(nil)

func (d *losable) Watch(w Watcher) (stop func()) {
	d.watcher = w
	w.DeviceStarted(d.Incarnation())
	return func() { d.watcher = nil }
}

func (d *losable) Revive() { d.wanted++ }

// waits is the owner of a part that waits until it is cancelled.
type waits struct {
	cancel *kernels.Cancellation
	lost   chan error
	ended  chan error
}

func (waits) PartMoved()            {}
func (w waits) PartEnded(err error) { w.ended <- err }
func (w waits) PartLost(err error) {
	w.lost <- err
	go w.cancel.Cancel(status.Derive(err))
}

// TestExecutorLosesDevice checks that a loss fails running parts and refuses new ones, with the reason, until the device has restarted.
func TestExecutorLosesDevice(t *testing.T) {
	d := &losable{CPU: newTestDevice(t)}
	e, stop := startTestExecutor(t, d)
	if !e.Losable() || e.Attributes().Incarnation != d.Incarnation() {
		t.Errorf("%v", e.Attributes())
	}
	quick, err := e.Compile(graphOf(t, "a = Const() value=3\nr = _Retval(a) index=0"), d, CompileOptions{Kernels: substitutes(nil).source})
	if err != nil {
		t.Fatal(err)
	}
	const text = "a = _Recv() tensor_name=\"x\"\nr = _Retval(a) index=0"
	slow, err := e.Compile(graphOf(t, text), d, CompileOptions{Kernels: substitutes(nil).source})
	if err != nil {
		t.Fatal(err)
	}
	run := func() error {
		done := make(chan error, 1)
		e.Run(&Part{Program: quick, Step: newTestStep(newResults()), Owner: ended(done)})
		return <-done
	}
	// One part has ended, and its memory is in use again; two parts wait.
	again, done := &Part{Program: quick, Step: newTestStep(newResults())}, make(chan error, 1)
	again.Owner = ended(done)
	var waiting [2]waits
	for i := range waiting {
		step := newTestStep(newResults())
		step.Cancellation.Bind(step.Rendezvous.(*Rendezvous).Abort)
		waiting[i] = waits{step.Cancellation, make(chan error, 1), make(chan error, 1)}
		part := &Part{Program: slow, Step: step, Owner: waiting[i]}
		if i == 0 {
			e.Run(part)
		} else {
			e.RunElsewhere(part)
		}
		e.Run(again)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	e.events = &view.Events{}
	lost := status.Errorf(status.Unavailable, "%s was lost: the card has fallen off the bus", d.Name())
	d.watcher.DeviceLost(lost)
	for _, w := range waiting {
		wantError(t, <-w.lost, status.Unavailable, "off the bus")
		wantError(t, <-w.ended, status.Unavailable, "off the bus")
	}
	wantError(t, run(), status.Unavailable, "off the bus")
	d.watcher.DeviceLost(status.Errorf(status.Unavailable, "it cannot be started anew yet"))
	wantError(t, run(), status.Unavailable, "cannot be started")
	_, err = e.Compile(graphOf(t, "a = Const() value=3"), d, CompileOptions{})
	wantError(t, err, status.Unavailable, "cannot be started")
	s := e.State()
	if s.PartsRunning != 0 || s.PartsRefused != 2 || s.Losses != 1 || s.Lost != "it cannot be started anew yet" || d.wanted != 3 {
		t.Errorf("%v, wanted %d times", s, d.wanted)
	}
	d.watcher.DeviceStarted(42)
	if err := run(); err != nil {
		t.Error(err)
	}
	events, _ := e.events.After(0, 10)
	if len(events) != 2 || events[0].Kind != "device lost" || events[0].Subject != d.Name() || !strings.Contains(events[0].Text, "off the bus") || events[1].Kind != "device started" {
		t.Errorf("the events %v", events)
	}
	if s := e.State(); s.Lost != "" || s.Losses != 1 || s.Attributes.Incarnation != 42 || e.Attributes().Incarnation != 42 {
		t.Errorf("%v", s)
	}
	e.CloseProgram(quick)
	e.CloseProgram(slow)
	stop()
	if d.watcher != nil {
		t.Error("the device is watched still")
	}
}

// closable is a device that counts its Close calls.
type closable struct {
	*CPU
	closed error
	ends   int
}

func (d *closable) Close() error { d.ends++; return d.closed }

// TestExecutorOwnsDevice checks that the executor trims its device, closes it once, and refuses later work.
func TestExecutorOwnsDevice(t *testing.T) {
	for _, lent := range []bool{false, true} {
		log := slog.New(slog.DiscardHandler)
		system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
		pool := roles.NewPool()
		d := &closable{CPU: NewCPU(system, testDevice, "test", 1<<24), closed: status.Internalf("it does not close")}
		e, err := StartExecutor(ExecutorConfig{System: system, Device: d, Lent: lent, Pool: pool, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Compile(graphOf(t, "a = Const() value=3\nr = _Retval(a) index=0"), d, CompileOptions{Kernels: substitutes(nil).source})
		if err != nil {
			t.Fatal(err)
		}
		x, err := tensor.New(d.Pool(), tensor.Int64, tensor.Shape{1 << 17})
		if err != nil {
			t.Fatal(err)
		}
		if m := e.State().Memory; m.InUse < 1<<20 || m.Peak < 1<<20 {
			t.Errorf("%v", m)
		}
		x.Release()
		if a := e.Attributes(); a.MemoryLimit != 1<<24 || a.Name != testDevice || a.Type != "CPU" {
			t.Errorf("%v", a)
		}
		if e.Trim(); e.Trim() == 0 || d.Pool().Stats().Idle != 0 {
			t.Error("idle memory is kept")
		}
		e.CloseProgram(p)
		switch err := e.Close(); {
		case lent && (err != nil || d.ends != 0):
			t.Errorf("a device that is lent was closed: %v", err)
		case !lent && (d.ends != 1 || status.CodeOf(err) != status.Internal):
			t.Errorf("closed %d times: %v", d.ends, err)
		}
		failed := make(chan error, 1)
		e.Run(&Part{Program: p, Step: newTestStep(newResults()), Owner: ended(failed)})
		wantError(t, <-failed, status.Unavailable, "is closed")
		if err := e.Close(); err != nil || d.ends > 1 {
			t.Errorf("closed %d times: %v", d.ends, err)
		}
		if lent {
			if err := d.Resources().Close(); err != nil {
				t.Error(err)
			}
		}
		if err := system.Root.PoisonFuture(e.Role().PID()).Wait(); err != nil {
			t.Error(err)
		}
		if !pool.Close(t.Context()) {
			t.Error("the pool's goroutines did not end")
		}
		system.Shutdown()
	}
}
