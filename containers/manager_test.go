package containers

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers/internal/wire"
	"github.com/troupe-run/troupe/graph/status"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSystem(t *testing.T) *actor.ActorSystem {
	// A request sent to an ended container is a dead letter. The library throttles dead letters with a goroutine that lives for an
	// interval.
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	t.Cleanup(system.Shutdown)
	return system
}

// onBoth runs a test with containers that are actors and with containers that are maps.
func onBoth(t *testing.T, test func(t *testing.T, m *Manager)) {
	for _, mode := range []string{"actors", "maps"} {
		t.Run(mode, func(t *testing.T) {
			var system *actor.ActorSystem
			if mode == "actors" {
				system = newSystem(t)
			}
			m := NewManager(system, "/job:local/replica:0/task:0/device:CPU:0", "local")
			test(t, m)
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// thing counts how often it was closed.
type thing struct {
	name    string
	closed  atomic.Int32
	onClose func()
}

func (r *thing) Close() {
	r.closed.Add(1)
	if r.onClose != nil {
		r.onClose()
	}
}

func (r *thing) Describe() string { return "thing " + r.name }

func make1(name string) func() (Resource, error) {
	return func() (Resource, error) { return &thing{name: name}, nil }
}

func get(t *testing.T, m *Manager, container, kind, name string) *thing {
	t.Helper()
	r, err := m.LookupOrCreate(container, kind, name, make1(name))
	if err != nil {
		t.Fatal(err)
	}
	return r.(*thing)
}

func wantCode(t *testing.T, err error, code status.Code, text string) {
	t.Helper()
	if status.CodeOf(err) != code || code != status.OK && !strings.Contains(err.Error(), text) {
		t.Errorf("got %v: %v, want %v: %s", status.CodeOf(err), err, code, text)
	}
}

func TestLookup(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		_, err := m.Lookup("", "Var", "x")
		wantCode(t, err, status.NotFound, "Container local does not exist. (Could not find resource: local/x)")
		x := get(t, m, "", "Var", "x")
		if get(t, m, "local", "Var", "x") != x {
			t.Error("the empty name is not the default container")
		}
		if get(t, m, "other", "Var", "x") == x || get(t, m, "", "Queue", "x") == x {
			t.Error("containers and kinds share a resource")
		}
		if r, err := m.Lookup("", "Var", "x"); err != nil || r != x {
			t.Error(r, err)
		}
		_, err = m.Lookup("other", "Var", "y")
		wantCode(t, err, status.NotFound, "Resource other/y/Var does not exist.")
	})
}

func TestCreateFails(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		x := get(t, m, "c", "Var", "x")
		_, err := m.LookupOrCreate("c", "Var", "y", func() (Resource, error) { return nil, status.Unimplementedf("no such thing") })
		wantCode(t, err, status.Unimplemented, "no such thing")
		_, err = m.LookupOrCreate("c", "Var", "y", func() (Resource, error) { return nil, nil })
		wantCode(t, err, status.Internal, "returned nothing")
		_, err = m.LookupOrCreate("c", "Var", "y", func() (Resource, error) { panic("a bug") })
		wantCode(t, err, status.Internal, "a bug")
		if get(t, m, "c", "Var", "x") != x {
			t.Error("a failed creation cost another resource")
		}
		get(t, m, "c", "Var", "y")
	})
}

func TestCreateOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		var made atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := m.LookupOrCreate("c", "Var", "x", func() (Resource, error) {
					made.Add(1)
					return &thing{}, nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if made.Load() != 1 {
			t.Errorf("made %d times", made.Load())
		}
	})
}

func TestDeleteAndClear(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		wantCode(t, m.Delete("c", "Var", "x"), status.NotFound, "Container c does not exist.")
		x, y, z := get(t, m, "c", "Var", "x"), get(t, m, "c", "Var", "y"), get(t, m, "d", "Var", "x")
		wantCode(t, m.Delete("c", "Queue", "x"), status.NotFound, "Resource c/x/Queue does not exist.")
		wantCode(t, m.Delete("c", "Var", "x"), status.OK, "")
		wantCode(t, m.Delete("c", "Var", "x"), status.NotFound, "")
		wantCode(t, m.Clear("c"), status.OK, "")
		wantCode(t, m.Clear("c"), status.OK, "")
		if x.closed.Load() != 1 || y.closed.Load() != 1 || z.closed.Load() != 0 {
			t.Error("closed", x.closed.Load(), y.closed.Load(), z.closed.Load())
		}
		if get(t, m, "c", "Var", "y") == y {
			t.Error("a cleared resource came back")
		}
	})
}

func TestList(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		get(t, m, "c", "Var", "x")
		get(t, m, "c", "Queue", "q")
		get(t, m, "b", "Var", "y")
		entries, err := m.List()
		var got []string
		for _, e := range entries {
			got = append(got, e.Container+" "+e.Kind+" "+e.Name+": "+Describe(e.Resource))
		}
		want := "[b Var y: thing y c Queue q: thing q c Var x: thing x]"
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v %v, want %s", got, err, want)
		}
	})
}

func TestClosePanics(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		x, y := get(t, m, "c", "Var", "x"), get(t, m, "c", "Var", "y")
		get(t, m, "c", "Var", "z").onClose = func() { panic("a bug in z") }
		wantCode(t, m.Clear("c"), status.Internal, "a bug in z")
		if x.closed.Load() != 1 || y.closed.Load() != 1 {
			t.Error("one resource's panic kept others open")
		}
	})
}

// TestFailedContainer causes a panic in the actor itself, outside the guard of create.
func TestFailedContainer(t *testing.T) {
	m := NewManager(newSystem(t), "dev", "local")
	x := get(t, m, "c", "Var", "x")
	other := get(t, m, "d", "Var", "x")
	a := m.ask("c", func(r *request) { r.message = (*wire.Remove)(nil) })
	wantCode(t, a.err, status.Internal, "nil pointer")
	<-m.containers["c"].(*role).gone
	if x.closed.Load() != 1 {
		t.Error("a failed container left a resource open")
	}
	_, err := m.LookupOrCreate("c", "Var", "x", make1("x"))
	wantCode(t, err, status.Aborted, "nil pointer")
	if get(t, m, "d", "Var", "x") != other {
		t.Error("one container's failure cost another one")
	}
	if _, err := m.List(); status.CodeOf(err) != status.Aborted {
		t.Error(err)
	}
	wantCode(t, m.Clear("c"), status.OK, "")
	get(t, m, "c", "Var", "x")
	wantCode(t, m.Close(), status.OK, "")
}

func TestStepContainers(t *testing.T) {
	m := NewManager(newSystem(t), "dev", "local")
	for step := range int64(100) {
		x := get(t, m, StepName(step), "Stack", "s")
		if _, plain := m.containers[StepName(step)].(*plain); !plain {
			t.Fatal("a step's container is an actor")
		}
		wantCode(t, m.Clear(StepName(step)), status.OK, "")
		if x.closed.Load() != 1 || len(m.containers) != 0 {
			t.Fatal("a step left something behind")
		}
	}
	wantCode(t, ValidName(StepName(1)), status.InvalidArgument, "")
	wantCode(t, m.Close(), status.OK, "")
}

func TestClosedManager(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		x := get(t, m, "c", "Var", "x")
		wantCode(t, m.Close(), status.OK, "")
		if x.closed.Load() != 1 {
			t.Error("not closed")
		}
		_, err := m.LookupOrCreate("c", "Var", "x", make1("x"))
		wantCode(t, err, status.Aborted, "")
	})
}

// TestClearRace races creators against clearers. Every creation must succeed, and in the end every resource must have been closed exactly
// once.
func TestClearRace(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		var mu sync.Mutex
		var made []*thing
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 100 {
					if g < 2 {
						if err := m.Clear("c"); err != nil {
							t.Error(err)
						}
						continue
					}
					_, err := m.LookupOrCreate("c", "Var", fmt.Sprint(g, i%7), func() (Resource, error) {
						r := &thing{}
						mu.Lock()
						made = append(made, r)
						mu.Unlock()
						return r, nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, r := range made {
			if n := r.closed.Load(); n != 1 {
				t.Fatalf("closed %d times", n)
			}
		}
	})
}

// TestEndedContainer asks a container that has ended, as a caller does that found it just before: it must neither
// answer from the resources that are gone nor hold new ones, which nothing would close.
func TestEndedContainer(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		get(t, m, "c", "Var", "x")
		c := m.containers["c"]
		wantCode(t, m.Clear("c"), status.OK, "")
		r := newRequest()
		r.lookupOrCreate.Kind, r.lookupOrCreate.Name = "Var", "y"
		r.message, r.create = &r.lookupOrCreate, func() (Resource, error) {
			t.Error("a container that has ended makes a resource")
			return &thing{name: "y"}, nil
		}
		if a := c.ask(r, patience); !errors.Is(a.err, errEnded) {
			t.Errorf("got %v, %v", a.resource, a.err)
		}
	})
}

// TestSlowContainer checks that a request to a stuck container waits for a bounded time.
func TestSlowContainer(t *testing.T) {
	m := NewManager(newSystem(t), "dev", "local")
	get(t, m, "c", "Var", "x")
	c := m.containers["c"].(*role)
	begun, release, made := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := m.LookupOrCreate("c", "Var", "slow", func() (Resource, error) {
			close(begun)
			<-release
			return &thing{}, nil
		})
		made <- err
	}()
	<-begun
	r := newRequest()
	r.message = &wire.Lookup{Kind: "Var", Name: "x"}
	a := c.ask(r, time.Millisecond)
	wantCode(t, a.err, status.DeadlineExceeded, "The container c did not answer within 1ms.")
	err := c.end(time.Millisecond).err
	wantCode(t, err, status.DeadlineExceeded, "The container c did not stop within 1ms.")
	close(release)
	wantCode(t, <-made, status.OK, "")
	<-c.gone
	wantCode(t, m.Close(), status.OK, "")
}

// TestCloseCallsManager checks that a resource's Close may use the manager.
func TestCloseCallsManager(t *testing.T) {
	m := NewManager(nil, "dev", "local")
	get(t, m, "c", "Var", "x").onClose = func() { get(t, m, "c", "Var", "y") }
	wantCode(t, m.Clear("c"), status.OK, "")
	_, err := m.Lookup("c", "Var", "y")
	wantCode(t, err, status.OK, "")
	wantCode(t, m.Close(), status.OK, "")
}

// slow ends some time after Close.
type slow struct {
	thing
	done chan struct{}
}

func (s *slow) Done() <-chan struct{} { return s.done }

func TestClearWaitsForResources(t *testing.T) {
	onBoth(t, func(t *testing.T, m *Manager) {
		s := &slow{done: make(chan struct{})}
		ended := false
		s.onClose = func() {
			go func() { ended = true; close(s.done) }()
		}
		if _, err := m.LookupOrCreate("c", "Queue", "q", func() (Resource, error) { return s, nil }); err != nil {
			t.Fatal(err)
		}
		if err := m.Clear("c"); err != nil || !ended {
			t.Error("did not wait", err)
		}
	})
}

func TestValidName(t *testing.T) {
	for _, ok := range []string{"", "a", "my_problem_1", ".x", "0", "a/b-c.d", "A_", "azAZ09"} {
		if err := ValidName(ok); err != nil {
			t.Error(ok, err)
		}
	}
	for _, bad := range []string{"_a", "-a", "/a", "a b", "a:b", "a[", "a@", "a`", "a{", "a\x00", "é", "__per_step_1"} {
		err := ValidName(bad)
		wantCode(t, err, status.InvalidArgument, "container contains invalid characters: "+bad)
	}
	if !errors.As(ValidName("a b"), new(*status.Error)) {
		t.Error("not a status")
	}
}

func BenchmarkLookup(b *testing.B) {
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond))
	defer system.Shutdown()
	m := NewManager(system, "dev", "local")
	for b.Loop() {
		if _, err := m.LookupOrCreate("", "Var", "x", make1("x")); err != nil {
			b.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		b.Error(err)
	}
}
