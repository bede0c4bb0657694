package cast

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
)

// ensured has the results of some calls of Ensure on other goroutines.
type ensured chan error

func (e ensured) call(t *testing.T, s *Cast, kind string, ref Ref) {
	ctx := deadline(t)
	go func() {
		_, err := s.Ensure(ctx, kind, ref, nil)
		e <- err
	}()
}

// want checks that n calls have ended with a code.
func (e ensured) want(t *testing.T, n int, code status.Code) {
	t.Helper()
	synctest.Wait()
	if len(e) != n {
		t.Fatalf("%d calls have returned, not %d", len(e), n)
	}
	for range n {
		if err := <-e; status.CodeOf(err) != code {
			t.Errorf("%v, want %v", err, code)
		}
	}
}

// slow makes actors whose makers return when they get an error or nil.
type slow struct {
	made  atomic.Int64
	begin chan error
}

func (k *slow) on(all ...*Cast) *slow {
	k.begin = make(chan error)
	for _, s := range all {
		s.kinds["slow"] = &actorKind{"slow", Maker{Make: func(*Context, proto.Message) (Actor, error) {
			k.made.Add(1)
			return player{got: &record{}}, <-k.begin
		}}}
	}
	return k
}

// Calls of several tasks at once make one actor, and return when it exists.
func TestEnsureMakesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		k, done, ref := new(slow).on(a, b), make(ensured, 9), Ref{"b", "one"}
		for range 3 {
			done.call(t, a, "slow", ref)
			done.call(t, b, "slow", ref)
		}
		done.want(t, 0, status.OK)
		k.begin <- nil
		done.want(t, 6, status.OK)
		done.call(t, a, "slow", ref)
		done.want(t, 1, status.OK)
		done.call(t, a, "echo", ref)
		done.want(t, 1, status.AlreadyExists)
		done.call(t, a, "none", ref)
		done.want(t, 1, status.NotFound)
		done.call(t, a, "slow", Ref{Task: "b"})
		done.want(t, 1, status.InvalidArgument)
		if k.made.Load() != 1 {
			t.Errorf("%d actors were made", k.made.Load())
		}
	})
}

// A maker's error is that of all that wait for it. The next call makes the actor.
func TestEnsureAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		k, done, ref := new(slow).on(n.casts["b"]), make(ensured, 9), Ref{"b", "one"}
		done.call(t, n.casts["a"], "slow", ref)
		done.call(t, n.casts["b"], "slow", ref)
		synctest.Wait()
		k.begin <- status.Errorf(status.OutOfRange, "no")
		done.want(t, 2, status.OutOfRange)
		done.call(t, n.casts["a"], "slow", ref)
		synctest.Wait()
		k.begin <- nil
		done.want(t, 1, status.OK)
	})
}

// While an actor ends, the calls wait for that, and make one other actor.
func TestEnsureReplacesAnActorThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		b := n.casts["b"]
		k, done, ref := new(slow).on(b), make(ensured, 9), Ref{"b", "one"}
		for name, end := range map[string]func(p *performer){
			"ended": func(*performer) {
				go func() {
					if err := n.casts["a"].End(deadline(t), ref); err != nil {
						t.Error(err)
					}
				}()
			},
			"dismissed": func(p *performer) { p.dismiss(status.Internalf("its parent ended")) },
		} {
			made := k.made.Load()
			done.call(t, b, "slow", ref)
			synctest.Wait()
			k.begin <- nil
			done.want(t, 1, status.OK)
			busy := make(chan struct{})
			later(t, b, "one", func(*Context) { <-busy })
			p, err := b.find("one")
			if err != nil {
				t.Fatal(err)
			}
			end(p)
			synctest.Wait()
			done.call(t, n.casts["a"], "slow", ref)
			done.call(t, b, "slow", ref)
			done.want(t, 0, status.OK)
			close(busy)
			synctest.Wait()
			k.begin <- nil
			done.want(t, 2, status.OK)
			if got := k.made.Load() - made; got != 2 {
				t.Errorf("%s: %d actors were made", name, got)
			}
			if err := b.End(deadline(t), ref); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// An actor that restarts is there. A task that is lost fails the calls, and one that stops does too.
func TestEnsureAndFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		b.kinds["phoenix"] = &actorKind{"phoenix", Maker{Make: func(*Context, proto.Message) (Actor, error) { return player{got: &record{}}, nil },
			Restart: &Restart{Most: 1, Within: time.Minute, Backoff: time.Second, MaxBackoff: time.Second}}}
		spawn(t, b, "phoenix", Ref{Name: "bird"})
		tell(t, b, "bird", func(c *Context) { c.Crash(nil) })
		done := make(ensured, 9)
		done.call(t, a, "phoenix", Ref{"b", "bird"})
		done.want(t, 1, status.OK)

		k := new(slow).on(b)
		done.call(t, a, "slow", Ref{"b", "one"})
		done.call(t, b, "slow", Ref{"b", "one"})
		synctest.Wait()
		n.cut("a", "b")
		done.want(t, 1, status.Unavailable)
		stopped := make(chan error)
		go func() { stopped <- b.Stop(deadline(t)) }()
		done.want(t, 1, status.Cancelled)
		k.begin <- nil
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// The requests that wait for an actor are bounded.
func TestEnsureIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		k, done, ref := new(slow).on(a), make(ensured, MaxQueued+1), Ref{"a", "one"}
		for range MaxQueued {
			done.call(t, a, "slow", ref)
		}
		synctest.Wait()
		done.call(t, a, "slow", ref)
		done.want(t, 1, status.ResourceExhausted)
		k.begin <- nil
		done.want(t, MaxQueued, status.OK)
	})
}
