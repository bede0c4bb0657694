package cast

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/graph/status"
)

// door puts everything aside until it is opened, with the text "open", and then answers requests. It closes with "close", and crashes with "crash".
func door(t *testing.T, s *Cast, restart *Restart) *record {
	t.Helper()
	got := &record{}
	s.kinds["door"] = &actorKind{"door", Maker{Restart: restart, Make: func(*Context, proto.Message) (Actor, error) {
		open := false
		return player{got: &record{}, handle: func(c *Context, message any) {
			text := fmt.Sprint(message)
			if m, ok := message.(*wrapperspb.StringValue); ok {
				text = m.Value
			}
			switch {
			case text == "open":
				open = true
				c.Unstash()
			case text == "close":
				open = false
			case text == "crash":
				c.Crash(nil)
			case !open:
				if err := c.Stash(); err != nil {
					t.Error(err)
				}
				return
			}
			got.add(text)
			if c.Sender() != (Ref{}) {
				if err := c.Reply(wrapperspb.String(text)); err != nil {
					t.Error(err)
				}
			}
		}}, nil
	}}}
	spawn(t, s, "door", Ref{Name: "door"})
	return got
}

func sends(t *testing.T, s *Cast, to string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := s.Send(deadline(t), Ref{}, Ref{Name: to}, wrapperspb.String(text)); err != nil {
			t.Error(err)
		}
	}
	synctest.Wait()
}

// asks asks on another goroutine, and returns where the outcome arrives.
func asks(t *testing.T, s *Cast, to Ref, text string) <-chan error {
	done := make(chan error, 1)
	ctx := deadline(t)
	go func() {
		answer, err := s.Ask(ctx, to, wrapperspb.String(text))
		if a, ok := answer.(*wrapperspb.StringValue); err == nil && (!ok || a.Value != text) {
			err = fmt.Errorf("the answer is %v", answer)
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

func statusOf(t *testing.T, s *Cast, name string) (handled uint64, waiting int) {
	t.Helper()
	p, err := s.find(name)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return p.status().Handled, p.status().Waiting
}

// Messages, requests and notices that were put aside are handled in order, before the queue, and again put aside if the actor wants so.
func TestStash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a", "b")
		a, b := n.casts["a"], n.casts["b"]
		got := door(t, b, nil)
		sends(t, b, "door", "1")
		answer := asks(t, a, Ref{"b", "door"}, "2")
		tell(t, b, "door", func(c *Context) { c.After(time.Second, "tick") })
		time.Sleep(time.Second) // simulated
		synctest.Wait()
		sends(t, b, "door", "close", "3")
		equal(t, "closed", got, "close")
		if handled, waiting := statusOf(t, b, "door"); handled != 1 || waiting != 3 {
			t.Errorf("%d are handled, %d wait", handled, waiting)
		}
		later(t, b, "door", func(*Context) {}) // the rest waits for this one
		sends(t, b, "door", "open", "4")
		equal(t, "opened", got, "open", "1", "2", "tick", "3", "4")
		if err := <-answer; err != nil {
			t.Error(err)
		}
		sends(t, b, "door", "close", "5", "close", "6")
		sends(t, b, "door", "open")
		equal(t, "again", got, "close", "close", "open", "5", "6")
		if handled, waiting := statusOf(t, b, "door"); handled != 11 || waiting != 0 {
			t.Errorf("%d are handled, %d wait", handled, waiting)
		}
	})
}

// A message that is handled again may close the door for those behind it, which keep their order.
func TestStashAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		var opened int
		got := play(t, a, "gate", func(c *Context, message any) {
			text := message.(*wrapperspb.StringValue).Value
			if text == "open" {
				opened++
				c.Unstash()
				return
			}
			if opened == 0 || strings.HasPrefix(text, "late") && opened < 2 {
				if err := c.Stash(); err != nil {
					t.Error(err)
				}
			}
		})
		sends(t, a, "gate", "late 1", "2", "late 3", "open", "4", "late 5", "open")
		equal(t, "gate", got, "late 1", "2", "late 3", "open", "late 1", "2", "late 3", "4", "late 5", "open", "late 1", "late 3", "late 5")
	})
}

// After a restart, the messages that were put aside are handled first. Notices belong to the former life.
func TestStashAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		got := door(t, a, &Restart{Most: 1, Within: time.Hour, Backoff: time.Second, MaxBackoff: time.Second})
		tell(t, a, "door", func(c *Context) { c.After(0, "tick") })
		sends(t, a, "door", "1")
		answer := asks(t, a, Ref{"a", "door"}, "2")
		sends(t, a, "door", "crash", "open", "3")
		equal(t, "before", got, "crash")
		time.Sleep(time.Second) // simulated
		equal(t, "after", got, "open", "1", "2", "3")
		if err := <-answer; err != nil {
			t.Error(err)
		}
		sends(t, a, "door", "close", "4")
		answer = asks(t, a, Ref{"a", "door"}, "5")
		sends(t, a, "door", "crash") // and ends
		if err := <-answer; status.CodeOf(err) != status.Internal {
			t.Errorf("a request in the stash: %v", err)
		}
	})
}

// TestStashCountsForTheTask checks that what an actor puts aside needs room among the messages that wait for all
// actors of its task.
func TestStashCountsForTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		play(t, a, "keeper", func(c *Context, _ any) {
			most := MaxBytes - Overhead - int64(c.life.performer.size) - a.bytes.Load()
			a.bytes.Add(most + 1)
			if err := c.Stash(); status.CodeOf(err) != status.ResourceExhausted {
				t.Errorf("a byte too many: %v", err)
			}
			a.bytes.Add(-1)
			if err := c.Stash(); err != nil {
				t.Errorf("as much as there is room for: %v", err)
			}
			a.bytes.Add(-most)
		})
		sends(t, a, "keeper", "x")
	})
}

// What cannot be put aside, and how much.
func TestStashIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetwork(t, "a")
		a := n.casts["a"]
		var last *Context
		failed := func(c *Context, what string, want status.Code) {
			t.Helper()
			if err := c.Stash(); status.CodeOf(err) != want {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		play(t, a, "keeper", func(c *Context, message any) {
			switch text := message.(*wrapperspb.StringValue).Value; {
			case text == "twice":
				failed(c, "once", status.OK)
				failed(c, "twice", status.FailedPrecondition)
				if err := c.Reply(wrapperspb.String("")); status.CodeOf(err) != status.FailedPrecondition {
					t.Errorf("the answer of a stashed request: %v", err)
				}
			case text == "kept":
				r := c.Keep()
				failed(c, "kept", status.FailedPrecondition)
				if err := r.Reply(message.(proto.Message)); err != nil {
					t.Error(err)
				}
				last = c
			case strings.HasPrefix(text, "full"):
				failed(c, "full", status.ResourceExhausted)
			default:
				failed(c, "one", status.OK)
			}
		})
		twice := asks(t, a, Ref{"a", "keeper"}, "twice")
		if err := <-asks(t, a, Ref{"a", "keeper"}, "kept"); err != nil {
			t.Error(err)
		}
		failed(last, "a message that has been handled", status.FailedPrecondition)
		for range MaxQueuedBytes/(MaxMessage-10) - 1 {
			sends(t, a, "keeper", strings.Repeat("x", MaxMessage-10))
		}
		sends(t, a, "keeper", strings.Repeat("x", MaxMessage-100))
		for range 3 {
			sends(t, a, "keeper", "full"+strings.Repeat("x", 1000))
		}
		if err := a.End(deadline(t), Ref{"a", "keeper"}); err != nil {
			t.Error(err)
		}
		if err := <-twice; status.CodeOf(err) != status.NotFound {
			t.Errorf("a request in the stash of an actor that ended: %v", err)
		}
		play(t, a, "many", func(c *Context, message any) {
			want := status.OK
			if message.(*wrapperspb.StringValue).Value == "full" {
				want = status.ResourceExhausted
			}
			failed(c, "many", want)
		})
		for range MaxQueued {
			sends(t, a, "many", "")
		}
		sends(t, a, "many", "full")
	})
}
