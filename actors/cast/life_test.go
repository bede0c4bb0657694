package cast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/graph/status"
)

// record is what an actor has received.
type record struct {
	mu   sync.Mutex
	list []string
}

func (r *record) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, text)
}

// take waits until all goroutines are idle, and returns what came since the last call.
func (r *record) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

// player is an actor whose test passes it what to do.
type player struct {
	got    *record
	close  func()
	handle func(c *Context, message any)
}

func (p player) Receive(c *Context, message any) {
	switch m := message.(type) {
	case do:
		m(c)
		return
	case *wrapperspb.StringValue:
		p.got.add(m.Value)
	case Answer:
		text := fmt.Sprint(m.Tag, " ", m.From.Name, " ", status.CodeOf(m.Err))
		if m.Err == nil {
			text += " " + m.Message.(*wrapperspb.StringValue).GetValue()
		}
		p.got.add(text)
	case Ended:
		p.got.add(fmt.Sprint(m.Ref.Name, " ended ", status.CodeOf(m.Err)))
	default:
		p.got.add(fmt.Sprint(message))
	}
	if p.handle != nil {
		p.handle(c, message)
	}
}

func (p player) Close() error {
	if p.close != nil {
		p.close()
	}
	return nil
}

// do is a notice that makes a player do something.
type do func(c *Context)

// tell makes an actor do something, and waits until all goroutines are idle.
func tell(t *testing.T, s *Cast, name string, f do) {
	t.Helper()
	later(t, s, name, f)
	synctest.Wait()
}

// later is tell that does not wait.
func later(t *testing.T, s *Cast, name string, f do) {
	t.Helper()
	p, err := s.find(name)
	if err != nil {
		t.Error(err)
		return
	}
	p.tell(&notice{&source{life: p.life}, f, false})
}

// play spawns a player on a task. It returns what the player receives.
func play(t *testing.T, s *Cast, name string, handle func(c *Context, message any)) *record {
	t.Helper()
	got := &record{}
	s.kinds[name] = &actorKind{name, Maker{Make: func(*Context, proto.Message) (Actor, error) { return player{got: got, handle: handle}, nil }}}
	spawn(t, s, name, Ref{Name: name})
	return got
}

// equal checks what an actor has received since the last check.
func equal(t *testing.T, what string, got *record, want ...string) {
	t.Helper()
	if list := got.take(); !slices.Equal(list, want) {
		t.Errorf("%s: %q, want %q", what, list, want)
	}
}

// equalSet is equal for what comes in any order.
func equalSet(t *testing.T, what string, got *record, want ...string) {
	t.Helper()
	if list := got.take(); !slices.Equal(slices.Sorted(slices.Values(list)), want) {
		t.Errorf("%s: %q, want %q", what, list, want)
	}
}

func text(s string) proto.Message { return wrapperspb.String(s) }

// TestTimers holds that timers come in time and in their turn, are cancelled at once, do not pile up, and end with the actor.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		got := play(t, a, "p", nil)
		var stops []func()
		tell(t, a, "p", func(c *Context) {
			c.After(2*time.Second, "two")
			c.After(time.Second, "one")
			stops = append(stops, c.After(time.Second, "never"), c.Every(3*time.Second, "every"))
			c.After(0, "at once")
		})
		equal(t, "at once", got, "at once")
		stops[0]() // from another goroutine
		time.Sleep(7 * time.Second)
		equal(t, "after 7 s", got, "one", "two", "every", "every")
		// At most one waits for a busy actor, and the times stay whole intervals.
		tell(t, a, "p", func(*Context) { time.Sleep(10 * time.Second) }) // until 17 s
		time.Sleep(10500 * time.Millisecond)
		equal(t, "after a long message", got, "every")
		time.Sleep(500 * time.Millisecond) // 18 s
		equal(t, "after 18 s", got, "every")
		// A notice that waits does not arrive any more once it is cancelled.
		tell(t, a, "p", func(*Context) {
			time.Sleep(4 * time.Second)
			stops[1]()
			stops[1]()
		})
		time.Sleep(time.Minute)
		equal(t, "cancelled", got)
		p, err := a.find("p")
		if err != nil {
			t.Fatal(err)
		}
		if len(p.life.tied().sources) != 0 {
			t.Errorf("%d timers are left", len(p.life.tied().sources))
		}
		tell(t, a, "p", func(c *Context) {
			c.After(time.Second, "late")
			c.Every(time.Second, "late")
			c.After(0, "late")
			c.Stop()
		})
		if len(a.List()) != 0 {
			t.Error("the actor has not ended")
		}
		stop := p.life.context.After(time.Second, "late") // by a goroutine that it has left behind
		time.Sleep(time.Minute)
		stop()
		equal(t, "ended", got)
	})
}

func TestNextTick(t *testing.T) {
	begin := time.Now()
	for _, c := range []struct{ now, want time.Duration }{{-1, 10}, {0, 10}, {1, 10}, {9, 10}, {10, 20}, {39, 40}, {1000, 1010}} {
		if got := nextTick(begin, begin.Add(c.now), 10).Sub(begin); got != c.want {
			t.Errorf("after %d: %d, want %d", c.now, got, c.want)
		}
	}
}

// TestEveryNeedsAnInterval: an interval that is not positive is a panic of the actor.
func TestEveryNeedsAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		play(t, n.casts["a"], "p", nil)
		tell(t, n.casts["a"], "p", func(c *Context) { c.Every(0, "") })
		if k := n.casts["a"].Kinds(); len(k) != 1 || k[0].Panics != 1 || k[0].Actors != 0 {
			t.Errorf("%+v", k)
		}
	})
}

// TestAsksThatDoNotWait holds that each ask of an actor has one answer, or one error in time.
func TestAsksThatDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		got := play(t, a, "p", nil)
		answer := func(c *Context, message any) {
			switch m := message.(type) {
			case *wrapperspb.StringValue:
				switch m.Value {
				case "keep":
					c.Keep()
				case "fail":
					c.Fail(status.Errorf(status.OutOfRange, "no"))
				default:
					c.Reply(text("to " + m.Value))
				}
			}
		}
		ask := func(c *Context, tag int, to Ref, message string) { c.Ask(to, to, text(message), 5*time.Second, tag) }
		for _, on := range []*Cast{a, b} {
			name := "q" + on.Self()
			play(t, on, name, answer)
			to, nobody := Ref{on.Self(), name}, Ref{on.Self(), "nobody"}
			tell(t, a, "p", func(c *Context) {
				ask(c, 1, to, "hello")
				ask(c, 2, to, "fail")
				ask(c, 3, nobody, "hello")
				ask(c, 4, to, "keep")
				c.Ask(to, to, &emptypb.Empty{}, 5*time.Second, 5)
				c.Ask(to, to, nil, 5*time.Second, 6)
				c.Ask(Ref{"no task", "x"}, to, text("x"), 5*time.Second, 7)
			})
			equalSet(t, "at once", got, "1 "+name+" OK to hello", "2 "+name+" OUT_OF_RANGE", "3 nobody NOT_FOUND", "5 "+name+" UNIMPLEMENTED", "6 "+name+" INVALID_ARGUMENT",
				"7 "+name+" INVALID_ARGUMENT")
			time.Sleep(5 * time.Second)
			equal(t, "after its time", got, "4 "+name+" DEADLINE_EXCEEDED")
			if len(on.asked)+len(a.asks) > 0 {
				t.Errorf("%d and %d requests are left", len(on.asked), len(a.asks))
			}
		}
		// An ask ends when the task is lost, and with its actor.
		tell(t, a, "p", func(c *Context) { ask(c, 1, Ref{"b", "qb"}, "keep") })
		if !a.Uses("b") {
			t.Error("an ask needs the link")
		}
		n.cut("a", "b")
		equal(t, "lost", got, "1 qb UNAVAILABLE")
		tell(t, a, "p", func(c *Context) {
			ask(c, 1, Ref{"b", "qb"}, "keep")
			ask(c, 1, Ref{"a", "qa"}, "keep")
		})
		if len(b.asked) != 1 || len(a.asked) != 1 {
			t.Errorf("%d and %d requests wait", len(b.asked), len(a.asked))
		}
		tell(t, a, "p", func(c *Context) { c.Stop() })
		if len(b.asked)+len(a.asked)+len(a.asks) > 0 {
			t.Errorf("%d, %d and %d requests are left", len(b.asked), len(a.asked), len(a.asks))
		}
		equal(t, "ended", got)
	})
}

// TestBoundsOfAsks holds that an actor that asks does not wait for a full queue, and waits for so many answers at most.
func TestBoundsOfAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		asker := play(t, a, "p", nil)
		play(t, a, "q", func(c *Context, _ any) { c.Keep() })
		spawn(t, a, "q", Ref{Name: "other"})
		ask := func(c *Context, tag int, to string) { c.Ask(Ref{"a", to}, Ref{"a", to}, text(""), time.Second, tag) }
		later(t, a, "q", func(*Context) { time.Sleep(time.Second / 2) })
		synctest.Wait()
		tell(t, a, "p", func(c *Context) {
			for range MaxQueued - 1 {
				if err := c.Send(Ref{"a", "q"}, text("")); err != nil {
					t.Error(err)
				}
			}
			ask(c, 1, "q")
			ask(c, 2, "q")
		})
		equal(t, "a full queue", asker, "2 q RESOURCE_EXHAUSTED")
		time.Sleep(time.Second)
		equal(t, "kept", asker, "1 q DEADLINE_EXCEEDED")
		tell(t, a, "p", func(c *Context) {
			for i := range MaxAsks {
				ask(c, 0, []string{"q", "other"}[i%2]) // so that neither queue is full
			}
			ask(c, 3, "q")
		})
		equal(t, "too many", asker, "3 q RESOURCE_EXHAUSTED")
		time.Sleep(time.Second)
		if got := asker.take(); len(got) != MaxAsks {
			t.Errorf("%d answers", len(got))
		}
		tell(t, a, "p", func(c *Context) { ask(c, 4, "other") })
		time.Sleep(time.Second)
		equal(t, "afterwards", asker, "4 other DEADLINE_EXCEEDED")
	})
}

// TestAsksBeforeThereIsALink holds that an actor does not wait until a task can be reached, and that its messages stay in order.
func TestAsksBeforeThereIsALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		asker, asked := play(t, a, "p", nil), play(t, b, "q", nil)
		to := Ref{"b", "q"}
		up := make(chan struct{})
		n.reach = func(ctx context.Context) error {
			select {
			case <-up:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		a.lanes["b"].way.Store(nil)
		tell(t, a, "p", func(c *Context) {
			c.Ask(to, to, text("one"), time.Second, 1)
			c.Ask(to, to, text("two"), time.Minute, 2)
			c.Ask(to, to, text("three"), time.Minute, 3)
			c.After(0, "not blocked")
		})
		equal(t, "asked", asker, "not blocked")
		time.Sleep(time.Second)
		equal(t, "after the first one's time", asker, "1 q DEADLINE_EXCEEDED")
		later(t, a, "p", func(c *Context) {
			if err := c.Send(to, text("four")); err != nil {
				t.Error(err)
			}
		})
		equal(t, "asked too early", asked)
		close(up)
		equal(t, "in order", asked, "two", "three", "four")
		equalSet(t, "answers", asker, "2 q UNIMPLEMENTED", "3 q UNIMPLEMENTED")
		tell(t, a, "p", func(c *Context) { // does not wait for anything now
			if c.Ask(to, to, text("five"), time.Minute, 5); c.life.unsent.Load() {
				t.Error("a later ask waits for a link")
			}
		})
		equal(t, "later", asked, "five")
	})
}

// TestOrderBeforeThereIsALink holds that what an actor sends to a task is not overtaken by what it sends later, although no link was there at first and
// nothing blocked the actor: an actor that ends on a message has been watched and asked before.
func TestOrderBeforeThereIsALink(t *testing.T) {
	to := Ref{"b", "q"}
	check := func(t *testing.T, err error) {
		if err != nil {
			t.Error(err)
		}
	}
	firsts := map[string]func(t *testing.T, c *Context){
		"watch": func(t *testing.T, c *Context) { check(t, c.Watch(to, to)) },
		"ask":   func(_ *testing.T, c *Context) { c.Ask(to, to, text("one"), time.Minute, 1) },
		"ask and watch": func(t *testing.T, c *Context) {
			c.Ask(to, to, text("one"), time.Minute, 1)
			check(t, c.Watch(to, to))
		},
		"watch and ask": func(t *testing.T, c *Context) {
			check(t, c.Watch(to, to))
			c.Ask(to, to, text("one"), time.Minute, 1)
		},
	}
	seconds := map[string]func(t *testing.T, c *Context){
		"send":     func(t *testing.T, c *Context) { check(t, c.Send(to, text("end"))) },
		"try send": func(t *testing.T, c *Context) { check(t, c.TrySend(to, text("end"))) },
		"ask":      func(_ *testing.T, c *Context) { c.Ask(to, to, text("end"), time.Minute, 2) },
	}
	for first, do := range firsts {
		for second, end := range seconds {
			for _, others := range []int{0, 1, 2 * maxCouriers} { // actors that watch it already, with a watch that waits for the link
				t.Run(fmt.Sprintf("%s, %s, %d others", first, second, others), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n, _ := newNetwork(t, "a", "b")
						a := n.casts["a"]
						p := play(t, a, "p", nil)
						q := play(t, n.casts["b"], "q", func(c *Context, message any) {
							if message.(*wrapperspb.StringValue).GetValue() == "end" {
								c.Stop()
							}
						})
						a.lanes["b"].way.Store(nil)
						up, calls := make(chan struct{}), new(atomic.Int64)
						n.reach = func(context.Context) error {
							first := calls.Add(1) == 1
							<-up
							if first {
								time.Sleep(time.Second) // whoever comes later could pass
							}
							return nil
						}
						var watchers []*record
						for i := range others {
							name := fmt.Sprintf("p%d", i)
							watchers = append(watchers, play(t, a, name, nil))
							tell(t, a, name, func(c *Context) { check(t, c.Watch(to, to)) })
						}
						later(t, a, "p", func(c *Context) {
							do(t, c)
							end(t, c)
						})
						synctest.Wait()
						close(up)
						time.Sleep(2 * time.Second)
						if strings.Contains(first, "ask") {
							equal(t, "messages", q, "one", "end")
						} else {
							equal(t, "messages", q, "end")
						}
						got := strings.Join(p.take(), ", ")
						if n := strings.Count(got, "q ended OK"); strings.Contains(first, "watch") != (n == 1) || strings.Contains(got, "q ended NOT_FOUND") {
							t.Errorf("the watcher got %s", got)
						}
						for i, w := range watchers {
							if !strings.Contains(first, "watch") {
								break // there is no order between senders
							}
							equal(t, fmt.Sprintf("watcher %d", i), w, "q ended OK")
						}
					})
				})
			}
		}
	}
}

// TestForward holds that a request that goes from actor to actor is answered once, whatever is lost, and that nothing of it is left.
func TestForward(t *testing.T) {
	for _, asking := range []string{"a", "b", "c"} {
		for _, last := range []string{"b", "c"} {
			t.Run(asking+" asks b, which forwards to "+last, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n, _ := newNetwork(t, "a", "b", "c")
					s, b, end := n.casts[asking], n.casts["b"], n.casts[last]
					left := func() {
						t.Helper()
						synctest.Wait()
						for task, s := range n.casts {
							if len(s.asks)+len(s.asked)+len(s.relays) > 0 {
								t.Errorf("%s keeps %d asks, %d requests and %d relays", task, len(s.asks), len(s.asked), len(s.relays))
							}
						}
					}
					var target Ref
					play(t, b, "router", func(c *Context, _ any) {
						if err := c.Forward(target); err != nil {
							c.Fail(err)
						}
					})
					asked := play(t, end, "end", func(c *Context, message any) {
						switch text := message.(*wrapperspb.StringValue).GetValue(); text {
						case "keep":
							c.Keep()
						case "fail":
							c.Fail(status.Errorf(status.OutOfRange, "no"))
						default:
							c.Reply(wrapperspb.String("to " + text))
						}
					})
					target = Ref{last, "end"}
					ask := func(ctx context.Context, message string) (string, status.Code) {
						answer, err := s.Ask(ctx, Ref{"b", "router"}, text(message))
						got, _ := answer.(*wrapperspb.StringValue)
						return got.GetValue(), status.CodeOf(err)
					}
					if got, code := ask(t.Context(), "hello"); got != "to hello" || code != status.OK {
						t.Errorf("%s, %v", got, code)
					}
					if _, code := ask(t.Context(), "fail"); code != status.OutOfRange {
						t.Errorf("an error: %v", code)
					}
					left()
					target.Name = "nobody"
					if _, code := ask(t.Context(), "hello"); code != status.NotFound {
						t.Errorf("to nobody: %v", code)
					}
					left()
					target.Name = "end"
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if _, code := ask(ctx, "keep"); code != status.DeadlineExceeded {
						t.Errorf("kept: %v", code)
					}
					left()
					// The router's end does not end the request, but the other actor's end does.
					codes := make(chan status.Code, 1)
					keep := func() {
						t.Helper()
						go func() {
							_, code := ask(t.Context(), "keep")
							codes <- code
						}()
						synctest.Wait()
						if len(end.asked) != 1 {
							t.Errorf("%d requests wait", len(end.asked))
						}
					}
					keep()
					tell(t, b, "router", func(c *Context) { c.Crash(errors.New("no more")) })
					spawn(t, b, "router", Ref{Name: "router"})
					synctest.Wait()
					if len(codes) > 0 {
						t.Errorf("the router's end: %v", <-codes)
					}
					tell(t, end, "end", func(c *Context) { c.Stop() })
					if code := <-codes; code != status.NotFound {
						t.Errorf("the other actor's end: %v", code)
					}
					left()
					spawn(t, end, "end", Ref{Name: "end"})
					// Either link may break: UNAVAILABLE, at once.
					for _, cut := range [][2]string{{asking, "b"}, {"b", last}} {
						if cut[0] == cut[1] {
							continue
						}
						keep()
						n.cut(cut[0], cut[1])
						if code := <-codes; code != status.Unavailable {
							t.Errorf("the link %v: %v", cut, code)
						}
						left()
					}
					if got, want := asked.take()[:4], []string{"hello", "fail", "keep", "keep"}; !slices.Equal(got, want) {
						t.Errorf("the other actor got %q", got)
					}
				})
			})
		}
	}
}

// TestForwardOnlyOnce holds that a request is forwarded while it is handled and unanswered, and otherwise stays where it is.
func TestForwardOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a := n.casts["a"]
		n.lose = func(m proto.Message) bool { return proto.Equal(m, text("forward b")) } // on its way to b
		last := play(t, a, "last", func(c *Context, _ any) { c.Reply(text("last")) })
		var kept *Context
		first := play(t, a, "first", func(c *Context, message any) {
			m, _ := message.(*wrapperspb.StringValue)
			word, to, _ := strings.Cut(m.GetValue(), " ")
			switch word {
			case "forward":
				if err := c.Forward(Ref{to, "last"}); err != nil {
					c.Reply(text(status.CodeOf(err).String()))
				}
			case "twice":
				c.Forward(Ref{"a", "last"})
				if err := c.Forward(Ref{"a", "last"}); status.CodeOf(err) != status.FailedPrecondition {
					t.Errorf("a second time: %v", err)
				}
				if err := c.Reply(text("")); status.CodeOf(err) != status.FailedPrecondition {
					t.Errorf("an answer: %v", err)
				}
			case "keep":
				kept = c
				c.Keep()
			case "stay":
				c.Keep()
				if err := c.Forward(Ref{to, "nobody"}); status.CodeOf(err) != status.NotFound {
					t.Errorf("to nobody: %v", err)
				}
				if h := c.life.performer.held; h == nil || h.after != nil || h.asker != c.sender() || h.life != c.life {
					t.Errorf("the request is not kept: %+v", h)
				}
				c.Reply(text("stay"))
			case "self":
				c.Forward(c.Self())
				m.Value = "forward a"
			}
		})
		for message, want := range map[string]string{"forward a": "last", "forward b": "UNAVAILABLE", "forward x": "INVALID_ARGUMENT", "twice": "last", "self": "last", "stay a": "stay"} {
			answer, err := a.Ask(t.Context(), Ref{Name: "first"}, text(message))
			if err != nil || answer.(*wrapperspb.StringValue).GetValue() != want {
				t.Errorf("%s: %v, %v", message, answer, err)
			}
		}
		if err := a.Send(t.Context(), Ref{}, Ref{Name: "first"}, text("forward a")); err != nil {
			t.Error(err)
		}
		asked := make(chan proto.Message, 1)
		go func() {
			answer, _ := a.Ask(t.Context(), Ref{Name: "first"}, text("keep"))
			asked <- answer
		}()
		synctest.Wait()
		if err := kept.Forward(Ref{"a", "last"}); status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("after Receive: %v", err)
		}
		if err := kept.Reply(text("kept")); err != nil || !proto.Equal(<-asked, text("kept")) {
			t.Error(err)
		}
		equalSet(t, "the last actor", last, "forward a", "forward a", "twice")
		if got := first.take(); len(got) != 9 {
			t.Errorf("the first actor got %q", got)
		}
	})
}

// TestUnwatch holds that an actor learns of an end once for all its watches, and not after Unwatch.
func TestUnwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		got := play(t, a, "p", nil)
		watch := func(c *Context) {
			for _, ref := range []Ref{{"b", "one"}, {"b", "two"}, {"a", "three"}} {
				for range 2 {
					if err := c.Watch(ref, ref); err != nil {
						t.Error(err)
					}
				}
			}
		}
		for name, on := range map[string]*Cast{"one": b, "two": b, "three": a} {
			spawn(t, on, "echo", Ref{on.Self(), name})
		}
		tell(t, a, "p", watch)
		tell(t, a, "p", func(c *Context) {
			for range 2 {
				if err := c.Unwatch(Ref{"b", "two"}); err != nil {
					t.Error(err)
				}
			}
			a.End(c.Life(), Ref{"a", "three"})
			time.Sleep(time.Second) // its notice waits
			if err := c.Unwatch(Ref{"a", "three"}); err != nil {
				t.Error(err)
			}
			if err := c.Unwatch(Ref{"no task", "three"}); status.CodeOf(err) != status.InvalidArgument {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		for _, name := range []string{"one", "two"} {
			if err := a.End(t.Context(), Ref{"b", name}); err != nil {
				t.Error(err)
			}
		}
		equal(t, "ended", got, "one ended OK")
		if len(a.watches) > 0 {
			t.Errorf("%d watches are left", len(a.watches))
		}
		tell(t, a, "p", watch) // none exists any more
		equalSet(t, "again", got, "one ended NOT_FOUND", "three ended NOT_FOUND", "two ended NOT_FOUND")
	})
}

// TestChildThatWaitsForItsParent holds that a parent's end does not wait for a child that waits for room in its queue.
func TestChildThatWaitsForItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		play(t, a, "parent", nil)
		var failed error
		a.kinds["child"] = &actorKind{"child", Maker{Make: func(*Context, proto.Message) (Actor, error) {
			return player{got: &record{}, handle: func(*Context, any) {
				for failed == nil {
					failed = a.Send(context.Background(), Ref{}, Ref{"a", "parent"}, text(""))
				}
			}}, nil
		}}}
		tell(t, a, "parent", func(c *Context) {
			if _, err := c.Spawn("child", "child", nil); err != nil {
				t.Error(err)
			}
			if err := c.Send(Ref{"a", "child"}, text("")); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second) // while the child fills the queue
			c.Stop()
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if list := a.List(); len(list) > 0 || status.CodeOf(failed) != status.NotFound {
			t.Errorf("%+v, %v", list, failed)
		}
	})
}

// TestChildren holds that children end with their parent, before it is closed, and that an actor without a parent does not.
func TestChildren(t *testing.T) {
	for _, why := range []error{nil, status.Errorf(status.DataLoss, "broken")} {
		synctest.Test(t, func(t *testing.T) {
			n, _ := newNetwork(t, "a")
			a := n.casts["a"]
			got, watcher := &record{}, play(t, a, "watcher", nil)
			a.kinds["node"] = &actorKind{"node", Maker{Make: func(c *Context, arguments proto.Message) (Actor, error) {
				depth := arguments.(*wrapperspb.Int64Value).GetValue()
				if depth > 0 {
					for _, side := range []string{"l", "r"} {
						if _, err := c.Spawn("node", c.Self().Name+side, wrapperspb.Int64(depth-1)); err != nil {
							return nil, err
						}
					}
				}
				return player{got: got, close: func() { got.add(c.Self().Name) }}, nil
			}}}
			if _, err := a.Spawn(t.Context(), "node", Ref{Name: "n"}, wrapperspb.Int64(2)); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"n", "nl", "nlr"} {
				tell(t, a, "watcher", func(c *Context) { c.Watch(Ref{"a", name}, Ref{"a", name}) })
			}
			tell(t, a, "n", func(c *Context) {
				if ref, err := c.Spawn("node", "", wrapperspb.Int64(0)); err != nil || !strings.HasPrefix(ref.Name, "node-") {
					t.Errorf("%v, %v", ref, err)
				}
				for name, code := range map[string]status.Code{"nl": status.AlreadyExists, "a b": status.InvalidArgument} {
					if _, err := c.Spawn("node", name, wrapperspb.Int64(0)); status.CodeOf(err) != code {
						t.Errorf("%s: %v", name, err)
					}
				}
				if _, err := c.Cast().Spawn(c.Life(), "node", Ref{Name: "free"}, wrapperspb.Int64(0)); err != nil {
					t.Error(err)
				}
			})
			if err := a.End(t.Context(), Ref{"a", "nrl"}); err != nil { // a child may end before its parent
				t.Error(err)
			}
			p, err := a.find("n")
			if err != nil {
				t.Fatal(err)
			}
			tell(t, a, "n", func(c *Context) {
				if why != nil {
					c.Crash(why)
				}
				c.Stop()
			})
			closed := got.take()
			place := func(name string) int { return slices.Index(closed, name) }
			for _, pair := range []string{"nll nl", "nlr nl", "nrr nr", "nl n", "nr n"} {
				child, parent, _ := strings.Cut(pair, " ")
				if place(child) < 0 || place(child) > place(parent) {
					t.Errorf("%s did not end before %s: %q", child, parent, closed)
				}
			}
			code := status.CodeOf(why).String()
			equalSet(t, "watched", watcher, "n ended "+code, "nl ended "+code, "nlr ended "+code)
			if list := a.List(); len(list) != 2 { // the watcher, and free
				t.Errorf("%+v", list)
			}
			if _, err := p.life.context.Spawn("node", "late", wrapperspb.Int64(0)); err == nil {
				t.Error("an actor that has ended has a child")
			}
		})
	}
}

// TestTotalsNeverDecrease counts actors while others end, which lets them do between any two pieces of the count: what a kind's actors have handled
// together is never less than before, and right in the end.
func TestTotalsNeverDecrease(t *testing.T) {
	n, _ := newNetwork(t, "a")
	s := n.casts["a"]
	s.kinds["idle"] = &actorKind{"idle", Maker{Make: func(*Context, proto.Message) (Actor, error) { return &idle{}, nil }}}
	begin := func(i int) Ref {
		ref, err := s.Spawn(t.Context(), "idle", Ref{Name: fmt.Sprint("actor-", i)}, nil)
		if err == nil {
			err = s.Send(t.Context(), Ref{}, ref, text("a message"))
		}
		if err != nil {
			t.Error(err)
		}
		return ref
	}
	end := func(ref Ref) {
		if err := s.End(t.Context(), ref); err != nil {
			t.Error(err)
		}
	}
	const actors = 3*eachPiece + 7
	var all [actors]Ref
	for i := range all {
		all[i] = begin(i)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i, ref := range all {
			end(ref)
			all[i] = begin(actors + i)
		}
		for _, ref := range all {
			end(ref)
		}
	}()
	last := uint64(0)
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		default:
		}
		for _, k := range s.Kinds() {
			if k.Handled < last {
				t.Fatalf("%d messages were handled, and %d before", k.Handled, last)
			}
			last = k.Handled
		}
	}
	for _, k := range s.Kinds() {
		if k.Handled != 2*actors || k.Actors != 0 {
			t.Errorf("%d messages were handled of %d, and %d actors are left", k.Handled, 2*actors, k.Actors)
		}
	}
}
