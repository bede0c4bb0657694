package devices

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/roles"
)

// startTestExecutor spawns the executor of a device. The function that it gives stops it.
func startTestExecutor(t testing.TB, d *CPU) (e *Executor, stop func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	pool := roles.NewPool()
	e, err := StartExecutor(system, d, pool, log)
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		if err := system.Root.PoisonFuture(e.Role().PID()).Wait(); err != nil {
			t.Error(err)
		}
		if !pool.Close(context.Background()) {
			t.Error("the pool's goroutines did not end")
		}
		system.Shutdown()
	}
}

// ended is told of the end of a part.
type ended chan<- error

func (ended) PartMoved()            {}
func (ended) PartBegan(Execution)   {}
func (e ended) PartEnded(err error) { e <- err }

// TestExecutor runs parts from many goroutines, here and elsewhere, and counts them.
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
	if s.PartsRunning != 0 || s.PartsDone != senders*each+1 || s.PartsFailed != 1 || s.Programs != 1 || s.Incarnation != d.Incarnation() || s.Losses != 0 {
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

// TestExecutorCompilePanics: a panic of a constructor is an error of who asked.
func TestExecutorCompilePanics(t *testing.T) {
	d := newTestDevice(t)
	e, stop := startTestExecutor(t, d)
	defer stop()
	_, err := e.Compile(graphOf(t, "a = Const() value=3\nr = _Retval(a) index=0"), d,
		CompileOptions{Kernels: func(*graph.Node, bool, func() (any, error)) (any, bool, error) { panic("a bug") }})
	wantError(t, err, status.Internal, "a bug")
	if s := e.State(); s == nil {
		t.Error("the executor has stopped")
	}
}
