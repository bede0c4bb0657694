package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// counted counts the connections that a node opens.
func counted(n *atomic.Int32) option {
	return func(c *Config) {
		open := c.Open
		c.Open = func(ctx context.Context, address, method string) (Stream, error) {
			n.Add(1)
			return open(ctx, address, method)
		}
	}
}

// reach returns the way from a node to a task.
func reach(t *testing.T, n *node, task string) cast.Way {
	t.Helper()
	w, err := n.Reach(within(t, patience), task)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func post(t *testing.T, w cast.Way, value byte) {
	t.Helper()
	if err := w.Post(within(t, patience), letterTo("ears", []byte{value})); err != nil {
		t.Fatal(err)
	}
}

// Messages to programs' actors take the stream that the other task has opened, without a connection more, with a secret and without one. They reach
// both ends in order, and one stream is enough for both directions however much passes.
func TestBothDirectionsShareAStream(t *testing.T) {
	for name, secured := range map[string]option{"open": func(*Config) {}, "with a secret": knowing(secretFile(t, "x"))} {
		t.Run(name, func(t *testing.T) {
			s, here, there := testSpec(t, 2), newStage(), newStage()
			var opened, back atomic.Int32
			a := startNode(t, s, 0, "", secured, here.on(0), counted(&opened))
			b := startNode(t, s, 1, "", secured, there.on(1), counted(&back))
			way := reach(t, a, task1)
			post(t, way, 0)
			there.next(t)
			answers := reach(t, b, task0)
			const many = 3 * windowMessages // needs credits
			go func() {
				for i := range many {
					post(t, answers, byte(i))
				}
			}()
			for i := range many {
				if _, value := here.next(t); value[0] != byte(i) {
					t.Fatalf("message %d has arrived for number %d", value[0], byte(i))
				}
				post(t, way, byte(i))
				if _, value := there.next(t); value[0] != byte(i) {
					t.Fatalf("message %d has come back for number %d", value[0], byte(i))
				}
			}
			if opened.Load() != 2 || back.Load() != 0 {
				t.Errorf("%d connections were opened, and %d in the other direction", opened.Load(), back.Load())
			}
			if again := reach(t, b, task0); again != answers {
				t.Error("the way has changed")
			}
		})
	}
}

// A message is neither lost nor overtaken when links end because they are unused, whoever has opened the stream that it takes.
func TestWaysEndInOrder(t *testing.T) {
	idle := func(c *Config) { c.Timing.Idle, c.InUse = time.Nanosecond, func(string) bool { return false } }
	s, here, there := testSpec(t, 2), newStage(), newStage()
	a := startNode(t, s, 0, "", idle, here.on(0))
	b := startNode(t, s, 1, "", idle, there.on(1))
	const many = 100
	send := func(n *node, to string) error {
		pause := time.NewTicker(quick.Beat + quick.Beat/4) // it drifts through the beats, after which links end
		defer pause.Stop()
		for i := range uint32(many) {
			for {
				w, err := n.Reach(within(t, patience), to)
				if err != nil {
					return err
				}
				if err = w.Post(within(t, patience), letterTo("ears", binary.LittleEndian.AppendUint32(nil, i))); err == nil {
					break
				} else if !w.Ended() {
					return err
				}
			}
			<-pause.C
		}
		return nil
	}
	done := make(chan error, 2)
	go func() { done <- send(a, task1) }()
	go func() { done <- send(b, task0) }()
	for i := range uint32(many) {
		for name, stage := range map[string]*stage{"task 0": here, "task 1": there} {
			if _, value := stage.next(t); binary.LittleEndian.Uint32(value) != i {
				t.Fatalf("%s has got message %d for number %d", name, binary.LittleEndian.Uint32(value), i)
			}
		}
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Who has posted on a stream that the other task has opened learns of that task's end, and nothing more is posted on the stream.
func TestEndsOfSharedStreams(t *testing.T) {
	breaks := func(connection int) func(t *testing.T, a, b *node) {
		return func(t *testing.T, _, b *node) {
			b.server.mu.Lock()
			defer b.server.mu.Unlock()
			if err := b.server.conns[connection].Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, end := range map[string]struct {
		how  func(t *testing.T, a, b *node)
		says string
	}{
		"the first connection breaks":  {breaks(0), "was lost: "},
		"the second connection breaks": {breaks(1), "was lost: "},
		"the task stops":               {func(_ *testing.T, a, _ *node) { a.stop() }, "was lost: it is leaving: its server is stopping"},
	} {
		t.Run(name, func(t *testing.T) {
			s, here, there := testSpec(t, 2), newStage(), newStage()
			a, b := startNode(t, s, 0, "", here.on(0)), startNode(t, s, 1, "", there.on(1))
			post(t, reach(t, a, task1), 0)
			there.next(t)
			lost := watch(b.Links)
			w := reach(t, b, task0)
			post(t, w, 1)
			here.next(t)
			end.how(t, a, b)
			lost.expect(t, end.says)
			if !w.Ended() {
				t.Error("the way has not ended")
			}
			wantError(t, w.Post(within(t, patience), letterTo("ears", nil)), status.Unavailable, task0)
		})
	}
}

// A task that still needs another one, to which it has had no link of its own, opens one when the other task closes the link because it does not use it.
func TestNeededLinkIsOpenedAgain(t *testing.T) {
	s, here, there := testSpec(t, 2), newStage(), newStage()
	a := startNode(t, s, 0, "", here.on(0), func(c *Config) { c.Timing.Idle, c.InUse = 50*time.Millisecond, func(string) bool { return false } })
	b := startNode(t, s, 1, "", there.on(1), func(c *Config) { c.InUse = func(string) bool { return true } })
	post(t, reach(t, a, task1), 0)
	there.next(t)
	post(t, reach(t, b, task0), 1)
	here.next(t)
	for end := time.Now().Add(patience); b.Reached(task0) == nil; {
		if time.Now().After(end) {
			t.Fatal("no link was opened")
		}
	}
	lost := watch(b.Links)
	a.stop()
	lost.expect(t, task0)
}

// A stream of programs' actors is admitted once for each link, from the process that has opened it.
func TestStreamsBelongToALink(t *testing.T) {
	for name, secured := range map[string]option{"open": func(*Config) {}, "with a secret": knowing(secretFile(t, "x"))} {
		t.Run(name, func(t *testing.T) {
			s, there := testSpec(t, 2), newStage()
			a, b := startNode(t, s, 0, "", secured), startNode(t, s, 1, "", secured, there.on(1))
			p, err := a.Ensure(within(t, patience), task1)
			if err != nil {
				t.Fatal(err)
			}
			hello := func(nonce, key []byte) *wire.Hello {
				return &wire.Hello{Greeting: a.greeting(s.Tasks()[1], p.Boot()), Nonce: nonce, Key: key}
			}
			nonce := fresh(nonceSize)
			for name, h := range map[string]*wire.Hello{
				"no proof":          hello(nonce, nil),
				"another purpose":   hello(nonce, p.bond.Sign(forReturn, nonce)),
				"another nonce":     hello(fresh(nonceSize), p.bond.Sign(forPrograms, nonce)),
				"no nonce":          hello(nil, p.bond.Sign(forPrograms, nil)),
				"the key of pushes": hello(nonce, p.key),
				"another process":   {Greeting: claim(a, b, 12345).Greeting, Nonce: nonce, Key: p.bond.Sign(forPrograms, nonce)},
			} {
				_, err := strangeStream(t, b, h)
				if status.CodeOf(err) != status.FailedPrecondition {
					t.Errorf("%s: %v", name, err)
				}
			}
			post(t, p, 0)
			there.next(t) // the link's own stream has been admitted
			_, err = strangeStream(t, b, hello(nonce, p.bond.Sign(forPrograms, nonce)))
			wantError(t, err, status.FailedPrecondition, "without a link")
		})
	}
}

// A task that answers a link with one of its own is admitted without being asked at its address and without a challenge, once.
func TestReturnIsAdmittedOnce(t *testing.T) {
	for name, secured := range map[string]option{"open": func(*Config) {}, "with a secret": knowing(secretFile(t, "x"))} {
		t.Run(name, func(t *testing.T) { testReturn(t, secured) })
	}
}

func testReturn(t *testing.T, secured option) {
	s := testSpec(t, 2)
	a, b := startNode(t, s, 0, "", secured), startNode(t, s, 1, "", secured)
	if _, err := a.Ensure(within(t, patience), task1); err != nil {
		t.Fatal(err)
	}
	k := b.link(task0)
	waitAccepted(t, k)
	g := b.greeting(s.Tasks()[0], 0)
	hello := &wire.Hello{Greeting: g, Nonce: fresh(nonceSize)}
	hello.Key = k.returning().Sign(forReturn, hello.Nonce)
	if _, err := stranger(t, a, hello, nil); err != nil { // b is not opening a link with this nonce
		t.Errorf("the first return: %v", err)
	}
	_, err := stranger(t, a, hello, func(*wire.Challenge) []byte { return nil })
	if code := status.CodeOf(err); code != status.PermissionDenied && code != status.Unauthenticated {
		t.Errorf("the second return: %v", err)
	}
}

// A link in the other direction has a bond and a key of its own, so streams may belong to it.
func TestReturnHasItsBond(t *testing.T) {
	for name, secured := range map[string]option{"open": func(*Config) {}, "with a secret": knowing(secretFile(t, "x"))} {
		t.Run(name, func(t *testing.T) {
			s, here := testSpec(t, 2), newStage()
			a, b := startNode(t, s, 0, "", secured, here.on(0)), startNode(t, s, 1, "", secured)
			there, err := a.Ensure(within(t, patience), task1)
			if err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patience); b.link(task0).returning() == nil; {
				if time.Now().After(end) {
					t.Fatal("the link is not there")
				}
			}
			back, err := b.Ensure(within(t, patience), task0)
			if err != nil {
				t.Fatal(err)
			}
			there.mu.Lock()
			bonded := there.bonded
			there.mu.Unlock()
			if !bonded || bytes.Equal(back.bond, there.bond) || bytes.Equal(back.key, there.key) {
				t.Errorf("admitted by the bond: %v", bonded)
			}
			post(t, back, 3)
			here.next(t)
			if err := back.Push(1, nil, make([]byte, 10), nil); err != nil {
				t.Error(err)
			}
			post(t, back, 4)
			here.next(t)
			if err := back.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
