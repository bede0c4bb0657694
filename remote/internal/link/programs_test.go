package link

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
)

// stage receives what is sent to programs' actors, and keeps it until next is called.
type stage struct {
	mu      sync.Mutex
	waiting []cast.Letter
	came    chan struct{} // capacity 1
}

func newStage() *stage { return &stage{came: make(chan struct{}, 1)} }

func (s *stage) Receive(_ string, _ uint64, letters []cast.Letter) {
	s.mu.Lock()
	s.waiting = append(s.waiting, slices.Clone(letters)...)
	s.mu.Unlock()
	select {
	case s.came <- struct{}{}:
	default:
	}
}

func (s *stage) ReceiveOutside(context.Context, string, []cast.Letter) {}

// next waits for a message and handles it.
func (s *stage) next(t *testing.T) (to string, value []byte) {
	t.Helper()
	for {
		s.mu.Lock()
		if len(s.waiting) > 0 {
			m := s.waiting[0]
			s.waiting = s.waiting[1:]
			s.mu.Unlock()
			v := &wrapperspb.BytesValue{}
			if err := proto.Unmarshal(m.Data, v); err != nil || m.Kind.Name != "google.protobuf.BytesValue" {
				t.Fatalf("%+v: %v", m, err)
			}
			if m.Room != nil {
				m.Room.Handled(1, len(m.Data))
			}
			return m.To, v.Value
		}
		s.mu.Unlock()
		wait(t, s.came, "the next message")
	}
}

// on makes a stage the Programs of a node.
func (s *stage) on(index int) option {
	return func(c *Config) {
		if c.Self.Index == index {
			c.Programs = s
		}
	}
}

func letterTo(name string, value []byte) *cast.Letter {
	return &cast.Letter{To: name, Message: wrapperspb.Bytes(value)}
}

// cautious streams leave all writing to a goroutine that may block, as real ones do when they are full.
func cautious(c *Config) {
	open := c.Open
	c.Open = func(ctx context.Context, address, method string) (Stream, error) {
		s, err := open(ctx, address, method)
		return never{s}, err
	}
}

type never struct{ Stream }

func (never) Takes(int) bool { return false }

// Messages that many senders post concurrently arrive in batches, those of each sender in order.
func TestPostsAreGathered(t *testing.T) {
	s := newStage()
	_, b, p := talkers(t, s.on(1))
	const senders, each = 8, 3000
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			for n := range each {
				value := make([]byte, 4+rand.IntN(64))
				if n%500 == 0 {
					value = make([]byte, direct+rand.IntN(direct))
				}
				value[0], value[1], value[2] = byte(i), byte(n), byte(n>>8)
				if err := p.Post(within(t, patience), letterTo(fmt.Sprint("actor", i%3), value)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var next [senders]int
	for range senders * each {
		to, value := s.next(t)
		i, n := int(value[0]), int(value[1])|int(value[2])<<8
		if to != fmt.Sprint("actor", i%3) || next[i] != n {
			t.Fatalf("message %d of sender %d came to %s for number %d", n, i, to, next[i])
		}
		next[i]++
	}
	all.Wait()
	if n := b.Stats().MessagesReceived; n != senders*each {
		t.Errorf("%d messages are counted", n)
	}
	if writes, _, _ := p.programs.pipe.out.progress(); writes > senders*each/2 {
		t.Errorf("%d messages took %d writes", senders*each, writes)
	}
}

// A sender to an actor that handles nothing waits or is refused, by choice. Messages to others and the
// link's own do not wait. Nothing is lost.
func TestSlowActorsHoldTheirSendersUp(t *testing.T) {
	for name, size := range map[string]int{"messages": 1, "bytes": cast.MaxMessage} {
		t.Run(name, func(t *testing.T) {
			s := newStage()
			a, b, p := talkers(t, s.on(1), cautious)
			hear(t, b, "quick", func(c actor.Context) { c.Respond(c.Message()) })
			sent := 0
			for ; sent < 2*windowMessages; sent++ {
				err := p.TryPost(within(t, patience), letterTo("slow", make([]byte, size)))
				if status.CodeOf(err) == status.ResourceExhausted {
					if size > 1 && sent < windowBytes/(size+16) { // bytes that wait to be written
						sent--
						continue
					}
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if sent != windowMessages && sent != windowBytes/(size+8) {
				t.Fatalf("there is room for %d messages", sent)
			}
			ctx, cancel := context.WithCancel(context.Background())
			waits := make(chan error)
			go func() { waits <- p.Post(ctx, letterTo("slow", make([]byte, size))) }()
			if err := p.Post(within(t, patience), letterTo("other", []byte{7})); err != nil {
				t.Error(err)
			}
			if err := p.Post(within(t, patience), letterTo("?answer", []byte{8})); err != nil {
				t.Error(err)
			}
			if _, err := a.system.Root.RequestFuture(actor.NewPID(b.self.Address, "quick"), &wrapperspb.BoolValue{}, patience).Result(); err != nil {
				t.Error(err)
			}
			cancel()
			if err := <-waits; status.CodeOf(err) != status.Cancelled {
				t.Errorf("who waits: %v", err)
			}
			go func() { waits <- p.Post(within(t, patience), letterTo("slow", make([]byte, size))) }()
			for range sent + 2 {
				s.next(t)
			}
			if err := <-waits; err != nil {
				t.Error(err)
			}
			s.next(t)
		})
	}
}

// A stream of programs that breaks ends the link, on both ends, and nothing is posted to a peer that is gone.
func TestBrokenPostEndsTheLink(t *testing.T) {
	for _, whole := range []bool{false, true} {
		s := newStage()
		a, b, p := talkers(t, s.on(1))
		lost, left := watch(a.Links), watch(b.Links)
		if err := p.Post(within(t, patience), letterTo("ears", nil)); err != nil {
			t.Fatal(err)
		}
		s.next(t)
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
		wantError(t, p.Post(within(t, patience), letterTo("ears", nil)), status.Unavailable, task1)
	}
}

// A peer that has stopped says goodbye. A stream of programs does not delay its end.
func TestPostsEndWithTheLinks(t *testing.T) {
	s := newStage()
	a, b, p := talkers(t, s.on(1))
	if err := p.Post(within(t, patience), letterTo("ears", nil)); err != nil {
		t.Fatal(err)
	}
	s.next(t)
	began := time.Now()
	b.stop()
	wait(t, p.Done(), "the end of the peer") // which a's own end would precede
	a.stop()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("the links took %v to close", d)
	}
	wantError(t, p.Post(within(t, patience), letterTo("ears", nil)), status.Unavailable)
}

// The actor system's own messages are not messages of programs.
func TestProgramsDoNotGetSystemMessages(t *testing.T) {
	s := newStage()
	_, b, p := talkers(t, s.on(1))
	err := p.Post(within(t, patience), &cast.Letter{To: "ears", Message: &actor.PoisonPill{}})
	wantError(t, err, status.InvalidArgument, "actor.PoisonPill")
	if err := p.Post(within(t, patience), letterTo("ears", nil)); err != nil {
		t.Fatal(err)
	}
	s.next(t)
	o := p.programs.pipe.out // sends what a misbehaving task would
	if err := o.gather(within(t, patience), &cast.Letter{To: "ears", Message: &actor.Stop{}}, nil, false, true); err != nil {
		t.Fatal(err)
	}
	if err := p.Post(within(t, patience), letterTo("ears", []byte{9})); err != nil {
		t.Fatal(err)
	}
	if _, value := s.next(t); len(value) != 1 || b.Stats().SystemRefused != 1 {
		t.Errorf("%v came, %d were refused", value, b.Stats().SystemRefused)
	}
}
