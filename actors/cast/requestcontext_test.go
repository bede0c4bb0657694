package cast

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/graph/status"
)

// TestContextOfRequest holds when the context of a request ends: when nobody waits for the answer any more, on this task or another one, and
// not before its handler returns if that has answered it.
func TestContextOfRequest(t *testing.T) {
	for _, asking := range []string{"a", "b"} {
		t.Run("asked by "+asking, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _ := newNetwork(t, "a", "b")
				s, b := n.casts[asking], n.casts["b"]
				var handling, later context.Context
				var request *Request
				handle := func(*Context) {}
				play(t, b, "p", func(c *Context, message any) {
					if message.(*wrapperspb.StringValue).GetValue() == "plain" {
						if c.Context() != c.Life() {
							t.Error("a message that is no request has a context of its own")
						}
						return
					}
					handle(c)
				})
				play(t, b, "other", func(c *Context, _ any) { c.Reply(text("other")) })
				ask := func(f func(c *Context)) error {
					t.Helper()
					handle = f
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					_, err := s.Ask(ctx, Ref{"b", "p"}, text("ask"))
					synctest.Wait()
					return err
				}
				left := func(what string, want int) {
					t.Helper()
					synctest.Wait()
					b.mu.Lock()
					defer b.mu.Unlock()
					if len(b.contexts) != want {
						t.Errorf("%s: %d contexts are left, and %d should be", what, len(b.contexts), want)
					}
				}
				if err := s.Send(t.Context(), Ref{}, Ref{"b", "p"}, text("plain")); err != nil {
					t.Fatal(err)
				}
				left("no request", 0)

				// The requester gives up.
				err := ask(func(c *Context) {
					handling = c.Context()
					if c.Context() != handling {
						t.Error("a request has several contexts")
					}
					began := time.Now()
					<-handling.Done()
					if waited := time.Since(began); waited != time.Minute {
						t.Errorf("it waited for %v", waited)
					}
					if c.Context().Err() == nil {
						t.Error("a request that was given up has a context that goes on")
					}
				})
				if status.CodeOf(err) != status.DeadlineExceeded || handling.Err() == nil {
					t.Errorf("given up: %v", err)
				}
				left("given up", 0)

				// It is answered, and the handler goes on.
				if err := ask(func(c *Context) {
					handling = c.Context()
					c.Reply(text("yes"))
					time.Sleep(time.Second)
					if later = c.Context(); handling.Err() != nil || later != handling {
						t.Error("the context ended before the handler returned")
					}
				}); err != nil || handling.Err() != nil {
					t.Errorf("answered: %v", err)
				}
				time.Sleep(2 * time.Second)
				if handling.Err() == nil {
					t.Error("the context goes on after the handler")
				}
				left("answered", 0)
				if err := ask(func(c *Context) {
					c.Reply(text("yes"))
					later = c.Context()
				}); err != nil || later.Err() != nil {
					t.Errorf("a context after the answer: %v, %v", err, later.Err())
				}
				left("answered before", 0)

				// It is kept, and answered or given up afterwards.
				for _, answers := range []bool{true, false} {
					ended := make(chan error, 1)
					go func() { ended <- ask(func(c *Context) { request, handling = c.Keep(), c.Context() }) }()
					synctest.Wait()
					if handling.Err() != nil || request.Context() != handling {
						t.Error("the context of a kept request ended with the handler")
					}
					left("kept", 1)
					if answers {
						request.Reply(text("late"))
					}
					if err := <-ended; (err == nil) != answers || handling.Err() == nil || request.Context().Err() == nil {
						t.Errorf("kept: %v, %v", err, handling.Err())
					}
					left("kept and over", 0)
				}

				// Another actor gets it.
				if err := ask(func(c *Context) {
					handling = c.Context()
					if err := c.Forward(Ref{"b", "other"}); err != nil || handling.Err() == nil {
						t.Errorf("forwarded: %v, %v", err, handling.Err())
					}
				}); err != nil {
					t.Error(err)
				}
				left("forwarded", 0)

				// The handler fails, and so does the actor with what it has kept.
				if err := ask(func(c *Context) {
					request, handling = c.Keep(), c.Context()
					c.Crash(errors.New("no more"))
				}); err == nil || handling.Err() == nil {
					t.Errorf("crashed: %v, %v", err, handling.Err())
				}
				left("crashed", 0)

				if asking == "b" {
					return
				}
				// The requester's task is lost.
				spawn(t, b, "p", Ref{Name: "p"})
				ended := make(chan error, 1)
				go func() { ended <- ask(func(c *Context) { request, handling = c.Keep(), c.Context() }) }()
				synctest.Wait()
				n.cut("a", "b")
				if err := <-ended; status.CodeOf(err) != status.Unavailable || handling.Err() == nil {
					t.Errorf("cut off: %v, %v", err, handling.Err())
				}
				left("cut off", 0)
			})
		})
	}
}

// TestAsks lists requests, with the actors that have made them and those that have to answer.
func TestAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		release := make(chan struct{})
		play(t, b, "keeper", func(c *Context, _ any) { c.Keep() })
		play(t, b, "busy", func(c *Context, _ any) {
			<-release
			c.Reply(text("done"))
		})
		play(t, b, "router", func(c *Context, _ any) {
			if err := c.Forward(Ref{"a", "end"}); err != nil {
				t.Error(err)
			}
		})
		play(t, a, "end", func(c *Context, _ any) { c.Keep() })
		play(t, a, "asker", func(c *Context, _ any) {
			if _, err := c.Cast().Ask(c.Context(), Ref{"b", "keeper"}, text("?")); err == nil {
				t.Error("the keeper has answered")
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(task, name string) {
			go a.Ask(ctx, Ref{task, name}, text("?"))
			synctest.Wait()
			time.Sleep(time.Second)
		}
		ask("a", "asker")
		ask("b", "busy")
		ask("b", "busy")
		ask("b", "router")
		type made struct {
			by, to          string
			blocks, forward bool
		}
		for s, want := range map[*Cast][]made{
			a: {{"", "asker", false, false}, {"asker", "keeper", true, false}, {"", "busy", false, false}, {"", "busy", false, false}, {"", "router", false, false}},
			b: {{"", "end", false, true}},
		} {
			got, all := s.Asks(100)
			if len(got) != len(want) || all != len(want) {
				t.Fatalf("%s has made %+v", s.Self(), got)
			}
			for i, w := range want {
				g := got[i]
				if (made{g.By, g.To.Name, g.Blocks, g.Forwards != Ref{}}) != w || g.Type != "google.protobuf.StringValue" || g.Began.IsZero() {
					t.Errorf("%s: %+v, not %+v", s.Self(), g, w)
				}
			}
			if short, all := s.Asks(1); len(short) != 1 || short[0] != got[0] || all != len(want) {
				t.Errorf("the oldest one is %+v", short)
			}
		}
		states := map[string]int{}
		for _, s := range []*Cast{a, b} {
			held, all := s.Held(100)
			if all != len(held) {
				t.Errorf("%d of %d", len(held), all)
			}
			for _, h := range held {
				states[h.Actor.Name+" "+h.State+" "+h.Actor.State]++
			}
		}
		want := map[string]int{"asker answering running": 1, "keeper kept idle": 1, "busy answering running": 1, "busy queued running": 1, "end kept idle": 1}
		for state, n := range want {
			if states[state] != n {
				t.Errorf("%d are %s, of %v", states[state], state, states)
			}
		}
		close(release)
		cancel()
		synctest.Wait()
		for _, s := range []*Cast{a, b} {
			asks, _ := s.Asks(100)
			held, _ := s.Held(100)
			if len(asks)+len(held) > 0 {
				t.Errorf("%s has %+v and %+v after the end", s.Self(), asks, held)
			}
		}
	})
}
