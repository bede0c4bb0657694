package roles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSystem(t testing.TB) *actor.ActorSystem {
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	t.Cleanup(system.Shutdown)
	return system
}

func spawn(t testing.TB, system *actor.ActorSystem, spec Spec) *Ref {
	t.Helper()
	if spec.Name == "" {
		spec.Name = "actor"
	}
	r, err := Spawn(system, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, r) })
	return r
}

// stop stops an actor and waits for its end.
func stop(t testing.TB, r *Ref) {
	t.Helper()
	if err := r.system.Root.PoisonFuture(r.pid).Wait(); err != nil && !errors.Is(err, actor.ErrDeadLetter) {
		t.Error(err)
	}
}

// TestInline checks that a message to an idle actor is handled on the sender's goroutine before Send returns.
func TestInline(t *testing.T) {
	var got []any
	r := spawn(t, newSystem(t), Spec{Receive: func(c actor.Context) {
		if m, ok := c.Message().(int); ok {
			got = append(got, m)
		}
	}})
	for i := range 100 {
		r.Send(i)
		if len(got) != i+1 || got[i] != i {
			t.Fatalf("after message %d: %v", i, got)
		}
	}
	if s := r.status(); s.Handled != 100 || s.Waiting != 0 || s.State != "idle" {
		t.Errorf("%+v", s)
	}
}

// TestOrder checks that the messages of each of many senders are handled in order, one at a time.
func TestOrder(t *testing.T) {
	const senders, each = 8, 2000
	type numbered struct{ from, n int }
	var busy atomic.Int32
	var next [senders]int
	all := make(chan struct{})
	left := senders * each
	r := spawn(t, newSystem(t), Spec{Receive: func(c actor.Context) {
		m, ok := c.Message().(numbered)
		if !ok {
			return
		}
		if busy.Add(1) != 1 {
			t.Error("two messages at a time")
		}
		if next[m.from] != m.n {
			t.Errorf("sender %d: got %d, want %d", m.from, m.n, next[m.from])
		}
		next[m.from]++
		busy.Add(-1)
		if left--; left == 0 {
			close(all)
		}
	}})
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				r.Send(numbered{s, n})
			}
		})
	}
	wg.Wait()
	<-all
}

// workFunc is a function as Work.
type workFunc func()

func (f workFunc) Do(bool) { f() }

// TestAfter checks that deferred work runs beside the actor, which handles further messages.
func TestAfter(t *testing.T) {
	var r *Ref
	working, release, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r = spawn(t, newSystem(t), Spec{Receive: func(c actor.Context) {
		switch c.Message() {
		case "long":
			r.After(workFunc(func() {
				close(working)
				<-release
			}))
		case "short":
			close(second)
		}
	}})
	var sent sync.WaitGroup
	sent.Go(func() { r.Send("long") })
	<-working
	r.Send("short")
	<-second
	close(release)
	sent.Wait()
}

// TestAfterWithMore checks that the dispatcher handles waiting messages while the sender does the deferred work.
func TestAfterWithMore(t *testing.T) {
	var r *Ref
	second := make(chan struct{})
	r = spawn(t, newSystem(t), Spec{Receive: func(c actor.Context) {
		switch c.Message() {
		case "long":
			r.Send("short")
			r.After(workFunc(func() { <-second }))
		case "short":
			close(second)
		case nil:
			t.Error("the actor got no message at all")
		}
	}})
	r.Send("long")
}

// hereWork reports where it is done.
type hereWork chan bool

func (w hereWork) Do(here bool) { w <- here }

// TestAfterOfOthers checks that a goroutine does only the deferred work of its own message; the dispatcher does that of others.
func TestAfterOfOthers(t *testing.T) {
	var r *Ref
	done := make(hereWork, 2)
	r = spawn(t, newSystem(t), Spec{Receive: func(c actor.Context) {
		switch c.Message() {
		case "outer":
			r.Send("inner") // as if another goroutine had sent it in the meantime
		case "inner", "own":
			r.After(done)
		}
	}})
	r.Send("outer")
	if <-done {
		t.Error("the work of another message was done here")
	}
	r.Send("own")
	if !<-done {
		t.Error("the work of the own message was done elsewhere")
	}
}

// TestPanicCostsTheMessage checks that the actor and its state survive a panic.
func TestPanicCostsTheMessage(t *testing.T) {
	var refused []string
	handled := 0
	r := spawn(t, newSystem(t), Spec{
		Receive: func(c actor.Context) {
			switch c.Message() {
			case "bad":
				panic("bang")
			case "good":
				handled++
			}
		},
		Refuse: func(m any, cause error) { refused = append(refused, fmt.Sprint(m, ": ", cause)) },
	})
	r.Send("good")
	r.Send("bad")
	r.Send(&actor.MessageEnvelope{Message: "bad"})
	r.Send("good")
	if handled != 2 || fmt.Sprint(refused) != "[bad: panic: bang bad: panic: bang]" {
		t.Error(handled, refused)
	}
	if s := r.status(); s.Panics != 2 || s.Handled != 4 || s.State != "idle" {
		t.Errorf("%+v", s)
	}
}

// TestFailClosed checks that an actor that must not lose state stops after a panic, and refuses waiting and later messages.
func TestFailClosed(t *testing.T) {
	system := newSystem(t)
	var refused []string
	stopped := false
	var r *Ref
	r = spawn(t, system, Spec{
		FailClosed: true,
		Receive: func(c actor.Context) {
			switch c.Message().(type) {
			case string:
				r.Send(1)
				panic("bang")
			case *actor.Stopped:
				stopped = true
			}
		},
		Refuse: func(m any, cause error) { refused = append(refused, fmt.Sprint(m, ": ", cause)) },
	})
	r.Send("bad")
	r.Send(2)
	if !stopped || fmt.Sprint(refused) != "[bad: panic: bang 1: <nil> 2: <nil>]" {
		t.Error(stopped, refused)
	}
	if len(List(system)) != 0 {
		t.Error(List(system))
	}
}

// TestNames checks that a name belongs to one actor until it has stopped.
func TestNames(t *testing.T) {
	system := newSystem(t)
	r := spawn(t, system, Spec{Name: "a", Kind: "worker", Receive: func(actor.Context) {}})
	if _, err := Spawn(system, Spec{Name: "a", Receive: func(actor.Context) {}}); err == nil {
		t.Error("two actors of one name")
	}
	spawn(t, system, Spec{Name: "b", Kind: "container", Receive: func(actor.Context) {}})
	list := List(system)
	if len(list) != 2 || list[0].Name != "b" || list[1].Name != "a" || list[1].Kind != "worker" || list[0].Since.IsZero() {
		t.Errorf("%+v", list)
	}
	stop(t, r)
	spawn(t, system, Spec{Name: "a", Receive: func(actor.Context) {}})
}

// TestStopRace checks that every message is handled or refused, whenever the actor stops.
func TestStopRace(t *testing.T) {
	for range 50 {
		system := newSystem(t)
		var left sync.WaitGroup // messages; one that ended twice would panic here
		left.Add(400)
		r := spawn(t, system, Spec{
			Receive: func(c actor.Context) {
				if _, ok := c.Message().(int); ok {
					left.Done()
				}
			},
			Refuse: func(any, error) { left.Done() },
		})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range 100 {
					r.Send(i)
				}
			})
		}
		wg.Go(func() { r.Stop() })
		wg.Wait()
		left.Wait()
		stop(t, r)
	}
}

type count struct{ n int }

// BenchmarkSend measures a message to an idle actor, compared with a call and with the library's own mailbox with the dispatcher that runs
// where the message arrives.
func BenchmarkSend(b *testing.B) {
	message := &count{}
	b.Run("call", func(b *testing.B) {
		var receiver interface{ add(m any) } = &adder{}
		for b.Loop() {
			receiver.add(message)
		}
	})
	b.Run("role", func(b *testing.B) {
		r := spawn(b, newSystem(b), Spec{Receive: func(c actor.Context) {
			if m, ok := c.Message().(*count); ok {
				m.n++
			}
		}})
		b.ReportAllocs()
		for b.Loop() {
			r.Send(message)
		}
	})
	b.Run("role by PID", func(b *testing.B) {
		system := newSystem(b)
		r := spawn(b, system, Spec{Receive: func(c actor.Context) {
			if m, ok := c.Message().(*count); ok {
				m.n++
			}
		}})
		pid := r.PID()
		b.ReportAllocs()
		for b.Loop() {
			system.Root.Send(pid, message)
		}
	})
	b.Run("default mailbox", func(b *testing.B) {
		system := newSystem(b)
		done := make(chan struct{}, 1)
		pid := system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			if m, ok := c.Message().(*count); ok {
				m.n++
				done <- struct{}{}
			}
		}))
		defer system.Root.Stop(pid)
		b.ReportAllocs()
		for b.Loop() {
			system.Root.Send(pid, message)
			<-done
		}
	})
}

type adder struct{}

//go:noinline
func (*adder) add(m any) {
	if m, ok := m.(*count); ok {
		m.n++
	}
}

// TestHandled waits for an actor to have handled what was sent before, for its end, and for the end of the caller's patience.
func TestHandled(t *testing.T) {
	busy, goOn := make(chan struct{}), make(chan struct{})
	var handled atomic.Int64
	r := spawn(t, newSystem(t), Spec{Receive: func(c actor.Context) {
		switch m := c.Message().(type) {
		case string:
			close(busy)
			<-goOn
		case int:
			handled.Add(int64(m))
		}
	}})
	go r.Send("wait")
	<-busy
	r.Send(7)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r.Handled(over)
	if n := handled.Load(); n != 0 {
		t.Errorf("%d was handled while the actor was busy", n)
	}
	close(goOn)
	r.Handled(t.Context())
	if n := handled.Load(); n != 7 {
		t.Errorf("%d of 7 was handled", n)
	}
	stop(t, r)
	r.Handled(t.Context())
}
