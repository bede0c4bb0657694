package cast

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/roles"
)

// TestRestartDecisions is the table of what follows a failure.
func TestRestartDecisions(t *testing.T) {
	const s = time.Second
	r := Restart{Most: 4, Within: 60 * s, Backoff: 1 * s, MaxBackoff: 5 * s}
	at := func(times ...time.Duration) (all []time.Time) {
		for _, d := range times {
			all = append(all, time.Unix(0, 0).Add(d))
		}
		return all
	}
	for _, c := range []struct {
		name   string
		r      Restart
		past   []time.Time
		now    time.Duration
		recent []time.Time
		wait   time.Duration
		ok     bool
	}{
		{"the first", r, nil, 7 * s, at(7 * s), 1 * s, true},
		{"the second", r, at(1 * s), 7 * s, at(1*s, 7*s), 2 * s, true},
		{"the third", r, at(1*s, 2*s), 7 * s, at(1*s, 2*s, 7*s), 4 * s, true},
		{"the longest wait", r, at(1*s, 2*s, 3*s), 7 * s, at(1*s, 2*s, 3*s, 7*s), 5 * s, true},
		{"one too many", r, at(1*s, 2*s, 3*s, 4*s), 7 * s, at(1*s, 2*s, 3*s, 4*s), 0, false},
		{"just within", r, at(1*s, 2*s, 3*s, 4*s), 61*s - 1, at(1*s, 2*s, 3*s, 4*s), 0, false},
		{"one is forgotten", r, at(1*s, 2*s, 3*s, 4*s), 61 * s, at(2*s, 3*s, 4*s, 61*s), 5 * s, true},
		{"all are forgotten", r, at(1*s, 2*s, 3*s, 4*s), 64 * s, at(64 * s), 1 * s, true},
		{"a backoff above its bound", Restart{Most: 1, Within: s, Backoff: 9 * s, MaxBackoff: 5 * s}, nil, s, at(s), 5 * s, true},
		{"many", Restart{Most: 1000, Within: time.Hour, Backoff: 1, MaxBackoff: time.Hour}, slices.Repeat(at(s), 999), s, slices.Repeat(at(s), 1000), time.Hour, true},
		{"no more", Restart{Within: s, Backoff: s, MaxBackoff: s}, nil, s, nil, 0, false},
	} {
		before := slices.Clone(c.past)
		recent, wait, ok := c.r.next(c.past, time.Unix(0, 0).Add(c.now))
		if !slices.Equal(recent, c.recent) || wait != c.wait || ok != c.ok {
			t.Errorf("%s: %v, %v, %v; want %v, %v, %v", c.name, recent, wait, ok, c.recent, c.wait, c.ok)
		}
		if !slices.Equal(before, c.past) {
			t.Errorf("%s: the past has changed", c.name)
		}
	}
}

// phoenix is a kind of actor that restarts. Its texts begin with the number of the life that receives them.
type phoenix struct {
	got   *record
	lives int
	make  func(c *Context) error // may be nil
}

func (p *phoenix) kind(r Restart) Maker {
	return Maker{Restart: &r, Make: func(c *Context, arguments proto.Message) (Actor, error) {
		p.lives++
		life := string(rune('0' + p.lives))
		p.got.add(life + " made of " + arguments.(*wrapperspb.StringValue).GetValue())
		if p.make != nil {
			if err := p.make(c); err != nil {
				return nil, err
			}
		}
		own := &record{}
		return player{got: own, close: func() { p.got.add(life + " closed") }, handle: func(c *Context, _ any) {
			for _, text := range own.list {
				p.got.add(life + " " + text)
				switch text {
				case "panic":
					panic("as it was told")
				case "crash":
					c.Crash(status.Errorf(status.DataLoss, "broken"))
				case "keep":
					c.Keep()
				case "reply":
					c.Reply(wrapperspb.String(life))
				}
			}
			own.list = nil
		}}, nil
	}}
}

// TestRestart holds what a restart keeps and what it ends.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		p := &phoenix{got: &record{}}
		p.make = func(c *Context) error {
			c.After(90*time.Second, text("late"))
			_, err := c.Spawn("echo", "child", nil)
			return err
		}
		b.kinds["phoenix"] = &actorKind{"phoenix", p.kind(Restart{Most: 2, Within: time.Minute, Backoff: time.Second, MaxBackoff: time.Minute})}
		watcher := play(t, a, "watcher", nil)
		ref, err := a.Spawn(t.Context(), "phoenix", Ref{"b", "p"}, text("ash"))
		if err != nil {
			t.Fatal(err)
		}
		tell(t, a, "watcher", func(c *Context) { c.Watch(ref, ref) })
		ask := func(message string) <-chan error {
			failed := make(chan error, 1)
			go func() {
				answer, err := a.Ask(t.Context(), ref, text(message))
				if err == nil {
					p.got.add("answer of " + answer.(*wrapperspb.StringValue).GetValue())
				}
				failed <- err
			}()
			synctest.Wait()
			return failed
		}
		send := func(message string) {
			t.Helper()
			if err := a.Send(t.Context(), Ref{}, ref, text(message)); err != nil {
				t.Error(err)
			}
		}
		state := func(want roles.Status) {
			t.Helper()
			for _, s := range b.List() {
				if s.Name != "p" {
					continue
				}
				s.Since = time.Time{}
				if s != want {
					t.Errorf("%+v, want %+v", s, want)
				}
			}
		}
		kept := ask("keep")
		equal(t, "the first life", p.got, "1 made of ash", "1 keep")
		failed := ask("panic")
		for _, failed := range []<-chan error{failed, kept} {
			if err := <-failed; status.CodeOf(err) != status.Internal {
				t.Errorf("a request of the life before: %v", err)
			}
		}
		send("wait")
		waits := ask("reply")
		state(roles.Status{Name: "p", Kind: "program/phoenix", State: "suspended", Handled: 2, Panics: 1, Restarts: 1, Waiting: 2})
		if _, err := b.find("child"); err == nil {
			t.Error("the child lives on")
		}
		equal(t, "before the second life", p.got, "1 panic", "1 closed")
		time.Sleep(time.Second)
		equal(t, "the second life", p.got, "2 made of ash", "2 wait", "2 reply", "answer of 2")
		if err := <-waits; err != nil {
			t.Error(err)
		}
		if err := <-ask("crash"); status.CodeOf(err) != status.DataLoss {
			t.Errorf("a crash: %v", err)
		}
		time.Sleep(2*time.Second - 1)
		equal(t, "while it waits", p.got, "2 crash", "2 closed")
		time.Sleep(time.Nanosecond)
		equal(t, "the third life", p.got, "3 made of ash")
		state(roles.Status{Name: "p", Kind: "program/phoenix", State: "idle", Handled: 5, Panics: 1, Restarts: 2})
		equal(t, "the watcher", watcher) // learns of no restart
		// The timers of the lives before have ended, and failures are forgotten.
		time.Sleep(90 * time.Second)
		equal(t, "the timer of the third life", p.got, "3 late")
		send("panic")
		send("reply")
		time.Sleep(time.Second)
		send("panic")
		time.Sleep(2 * time.Second)
		equal(t, "more lives", p.got, "3 panic", "3 closed", "4 made of ash", "4 reply", "4 panic", "4 closed", "5 made of ash")
		if err := <-ask("panic"); status.CodeOf(err) != status.Internal {
			t.Errorf("the last one: %v", err)
		}
		equal(t, "the end", p.got, "5 panic", "5 closed")
		equal(t, "the watcher", watcher, "p ended INTERNAL")
		for _, k := range b.Kinds() {
			if k.Kind == "program/phoenix" && (k.Actors != 0 || k.Panics != 4 || k.Restarts != 4) {
				t.Errorf("%+v", k)
			}
		}
		if len(b.List()) > 0 {
			t.Errorf("%+v", b.List())
		}
	})
}

// TestMakersThatFail holds that a maker's failure prevents the first life of an actor, and counts as a failure of a later one.
func TestMakersThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		p := &phoenix{got: &record{}}
		fails := true
		p.make = func(c *Context) error {
			if fails {
				c.After(time.Minute, "late")
				return errors.New("it cannot be made")
			}
			return nil
		}
		a.kinds["phoenix"] = &actorKind{"phoenix", p.kind(Restart{Most: 3, Within: time.Minute, Backoff: time.Second, MaxBackoff: time.Minute})}
		if _, err := a.Spawn(t.Context(), "phoenix", Ref{Name: "p"}, text("ash")); err == nil {
			t.Error("an actor whose maker failed exists")
		}
		equal(t, "the first", p.got, "1 made of ash")
		p.lives, fails = 0, false
		if _, err := a.Spawn(t.Context(), "phoenix", Ref{Name: "p"}, text("ash")); err != nil {
			t.Fatal(err)
		}
		fails = true
		if err := a.Send(t.Context(), Ref{}, Ref{Name: "p"}, text("panic")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second + 2*time.Second)
		equal(t, "restarts", p.got, "1 made of ash", "1 panic", "1 closed", "2 made of ash", "3 made of ash")
		fails = false
		if err := a.Send(t.Context(), Ref{}, Ref{Name: "p"}, text("hello")); err != nil {
			t.Error(err)
		}
		time.Sleep(4 * time.Second)
		equal(t, "the fourth", p.got, "4 made of ash", "4 hello")
		ended := make(chan Ended, 1)
		set, _, err := a.Watch(Ref{Name: "p"}, func(e Ended) { ended <- e })
		if err != nil {
			t.Fatal(err)
		}
		<-set
		if _, err := a.Ask(t.Context(), Ref{Name: "p"}, text("crash")); status.CodeOf(err) != status.DataLoss {
			t.Error(err)
		}
		if e := <-ended; status.CodeOf(e.Err) != status.DataLoss {
			t.Error(e.Err)
		}
		equal(t, "the end", p.got, "4 crash", "4 closed")
	})
}

// TestRestartsUnderLoad holds that each request has its one answer while the actor that has them restarts, until it is stopped.
func TestRestartsUnderLoad(t *testing.T) {
	n, _ := newNetwork(t, "a", "b")
	b := n.casts["b"]
	b.kinds["frail"] = &actorKind{"frail", Maker{Restart: &Restart{Most: 1 << 30, Within: time.Hour, Backoff: 1, MaxBackoff: time.Microsecond}, Make: func(c *Context, _ proto.Message) (Actor, error) {
		c.Every(time.Microsecond, "tick")
		if _, err := c.Spawn("echo", "child", nil); err != nil {
			return nil, err
		}
		return player{got: &record{}, handle: func(c *Context, message any) {
			m, _ := message.(*wrapperspb.StringValue)
			switch m.GetValue() {
			case "panic":
				panic("as it was told")
			case "keep":
				c.Keep()
				c.After(time.Microsecond, do(func(*Context) { c.Reply(m) }))
			case "reply":
				c.Reply(m)
			}
		}}, nil
	}}}
	ref := spawn(t, n.casts["a"], "frail", Ref{"b", "frail"})
	var asking sync.WaitGroup
	var panics atomic.Uint64
	for task, s := range n.casts {
		for i := range 4 {
			asking.Go(func() {
				for j := range 100 {
					word := []string{"reply", "keep", "reply", "panic", "keep"}[(i+j)%5]
					_, err := s.Ask(deadline(t), ref, text(word))
					code := status.CodeOf(err)
					if code == status.Internal && word == "panic" {
						panics.Add(1)
					} else if code != status.OK && (code != status.Internal || word != "keep") {
						t.Errorf("task %s: %s: %v", task, word, err)
					}
				}
			})
		}
	}
	asking.Wait()
	for _, k := range b.Kinds() {
		if k.Kind == "program/frail" && (k.Panics != panics.Load() || k.Restarts != k.Panics || k.Panics != 160) {
			t.Errorf("%d panics, and %+v", panics.Load(), k)
		}
	}
	for range 3 { // it is stopped while it restarts
		if err := n.casts["a"].Send(deadline(t), Ref{}, ref, text("panic")); err != nil {
			t.Error(err)
		}
	}
}

// TestEndsWhileItRests holds that an actor that waits for its restart can be ended: by its requester in its turn, by its server at once.
func TestEndsWhileItRests(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, _ := newNetwork(t, "a")
			a := n.casts["a"]
			p := &phoenix{got: &record{}}
			a.kinds["phoenix"] = &actorKind{"phoenix", p.kind(Restart{Most: 1, Within: time.Minute, Backoff: time.Minute, MaxBackoff: time.Minute})}
			if _, err := a.Spawn(t.Context(), "phoenix", Ref{Name: "p"}, text("ash")); err != nil {
				t.Fatal(err)
			}
			for _, message := range []string{"panic", "hello"} {
				if err := a.Send(t.Context(), Ref{}, Ref{Name: "p"}, text(message)); err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
			begun := time.Now()
			if stopped {
				if err := a.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				equal(t, "stopped", p.got, "1 made of ash", "1 panic", "1 closed")
			} else {
				if err := a.End(t.Context(), Ref{Name: "p"}); err != nil {
					t.Error(err)
				}
				equal(t, "ended", p.got, "1 made of ash", "1 panic", "1 closed", "2 made of ash", "2 hello", "2 closed")
			}
			if took := time.Since(begun); (took == 0) != stopped {
				t.Errorf("it took %v", took)
			}
		})
	}
}
