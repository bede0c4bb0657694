package link

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/graph/status"
)

// cautious streams leave all writing to a goroutine that may wait, as real ones do when they are full.
func cautious(c *Config) {
	open := c.Open
	c.Open = func(ctx context.Context, address, method string) (Stream, error) {
		s, err := open(ctx, address, method)
		return never{s}, err
	}
}

type never struct{ Stream }

func (never) Takes(int) bool { return false }

// What is posted waits for its reader, and the link's own messages do not wait for it.
func TestPostsLeaveRoom(t *testing.T) {
	a, b, p := talkers(t, cautious)
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	got := make(chan byte, 1000)
	hear(t, b, "slow", func(c actor.Context) {
		select {
		case begun <- struct{}{}:
			<-goOn
		default:
		}
		got <- c.Message().(*wrapperspb.BytesValue).Value[0]
	})
	hear(t, b, "quick", func(c actor.Context) { c.Respond(c.Message()) })
	sent := 0
	for ; sent < 200; sent++ { // until the kernel and the window are full
		m := wrapperspb.Bytes(make([]byte, 512<<10))
		m.Value[0] = byte(sent)
		err := p.Post(within(t, 500*time.Millisecond), "slow", m)
		if status.CodeOf(err) == status.DeadlineExceeded {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if sent == 200 {
		t.Fatal("there is room for everything")
	}
	for range 10 {
		if _, err := a.system.Root.RequestFuture(actor.NewPID(b.self.Address, "quick"), &wrapperspb.BoolValue{}, patience).Result(); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) > 0 || p.Err() != nil {
		t.Errorf("%d messages got through, %v", len(got), p.Err())
	}
	close(goOn)
	for i := range sent {
		if n := wait(t, got, "the next message"); n != byte(i) {
			t.Fatalf("message %d came for %d", n, i)
		}
	}
}

// A post that breaks ends the link, on both ends, and nothing is posted to a peer that is gone.
func TestBrokenPostEndsTheLink(t *testing.T) {
	for _, whole := range []bool{false, true} {
		a, b, p := talkers(t)
		lost, left := watch(a.Links), watch(b.Links)
		heard := make(chan struct{}, 1)
		hear(t, b, "ears", func(actor.Context) { heard <- struct{}{} })
		if err := p.Post(within(t, patience), "ears", wrapperspb.Bool(true)); err != nil {
			t.Fatal(err)
		}
		wait(t, heard, "the message")
		if whole {
			b.kill()
		} else {
			b.server.mu.Lock()
			last := b.server.conns[len(b.server.conns)-1]
			b.server.mu.Unlock()
			if err := last.Close(); err != nil {
				t.Fatal(err)
			}
			left.expect(t, task0)
		}
		lost.expect(t, task1)
		wait(t, p.Done(), "the end of the peer")
		wantError(t, p.Post(within(t, patience), "ears", wrapperspb.Bool(true)), status.Unavailable, task1)
	}
}

// A peer that has stopped tells so by its goodbye; a post is no reason to wait for it.
func TestPostsEndWithTheLinks(t *testing.T) {
	a, b, p := talkers(t)
	hear(t, b, "ears", func(actor.Context) {})
	if err := p.Post(within(t, patience), "ears", wrapperspb.Bool(true)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	b.stop()
	a.stop()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("the links took %v to close", d)
	}
	wantError(t, p.Post(within(t, patience), "ears", wrapperspb.Bool(true)), status.Unavailable)
}
