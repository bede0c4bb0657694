package link

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/standstill"
)

func TestBudget(t *testing.T) {
	b := &budget{}
	x, y, z := &share{budget: b}, &share{budget: b}, &share{budget: b}
	never := func() { t.Error("called although there was room") }
	asked := func(s *share, n int64) *bool {
		called := new(bool)
		if s.room(n, func() {
			if *called {
				t.Error("called twice")
			}
			*called = true
		}) {
			t.Errorf("there is room for %d bytes", n)
		}
		return called
	}
	if !x.room(maxQueuedAll+1, never) {
		t.Error("no room for a large tensor alone")
	}
	x.reserve(maxQueued)
	one := asked(x, 1)
	if !y.room(maxQueued, never) {
		t.Error("a peer with nothing queued has no room because another has much")
	}
	x.release(1)
	if !*one {
		t.Error("nobody was called when there was room")
	}
	x.reserve(1)
	first, second, third := asked(x, 10), asked(x, 10), asked(x, 1)
	x.release(10)
	if !*first || *second || *third {
		t.Error("not the first that asked, or more than have room")
	}
	x.reserve(10)
	x.release(21)
	if !*second || !*third {
		t.Error("two that have room were not called")
	}
	// The bound of the task.
	x.release(maxQueued - 21)
	var shares []*share
	for range maxQueuedAll / maxQueued {
		s := &share{budget: b}
		s.reserve(maxQueued)
		shares = append(shares, s)
	}
	if y.reserve(1); b.queued() != maxQueuedAll+1 {
		t.Errorf("%d bytes are queued", b.queued())
	}
	more := asked(y, 100)
	if !z.room(1<<40, never) {
		t.Error("a peer with nothing queued has no room because the others have much")
	}
	shares[0].release(100)
	if *more {
		t.Error("called without room")
	}
	shares[1].release(1)
	if !*more {
		t.Error("room at another peer was not noticed")
	}
	gone := asked(shares[2], 1)
	shares[2].end()
	if !*gone || !shares[2].room(1, never) {
		t.Error("the end of a peer was not told")
	}
}

// deafSink accepts nothing of the steps that it is deaf to, until it is released.
func deafSink(step uint64, until chan struct{}) *testSink {
	sink := newTestSink()
	sink.refuse = func(s uint64) error {
		if s == step {
			<-until
		}
		return nil
	}
	return sink
}

// A peer that does not read tensors costs only what was queued for it, is reported, and does not delay
// others. Callers that wait for room are notified when it reads again.
func TestSlowPeer(t *testing.T) {
	for name, lending := range map[string]bool{"sent": false, "lent": true} {
		t.Run(name, func(t *testing.T) {
			log := logs{stalls: make(chan struct{}, 10)}
			until := make(chan struct{})
			slow, fast := deafSink(9, until), newTestSink()
			s := testSpec(t, 3)
			with := func(sink Sink) option {
				return func(c *Config) {
					c.Sink, c.NoLending, c.Timing.Silence = sink, !lending, time.Second
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
				}
			}
			a := startNode(t, s, 0, "", with(nil))
			startNode(t, s, 1, "", with(slow))
			startNode(t, s, 2, "", with(fast))
			p, err := a.Ensure(within(t, patience), task1)
			if err != nil {
				t.Fatal(err)
			}
			q, err := a.Ensure(within(t, patience), s.Tasks()[2].Name())
			if err != nil {
				t.Fatal(err)
			}
			if lending {
				pushUntilLent(t, a, p, slow)
			}
			data := randomBytes(32 << 20)
			var released sync.WaitGroup
			ready := make(chan struct{}, 1)
			pushes := 0
			for p.Room(len(data), func() { ready <- struct{}{} }) {
				released.Add(1)
				step := uint64(2)
				if pushes == 0 {
					step = 9
				}
				if err := p.Push(step, nil, data, released.Done); err != nil {
					t.Fatal(err)
				}
				pushes++
			}
			if queued := a.Stats().BytesQueued; queued > maxQueued || queued < maxQueued/2 {
				t.Errorf("%d bytes are queued in %d pushes", queued, pushes)
			}
			pushOne(t, q, fast, randomBytes(20<<20))
			wait(t, log.stalls, "the warning of the stall")
			if st, err := a.State(task1); err != nil || st.Stalled < time.Second || st.Queued < maxQueued/2 {
				t.Errorf("%+v %v", st, err)
			}
			if s := a.Stats(); s.Stalls != 1 || strings.Count(log.String(), "takes no tensors") != 1 || !strings.Contains(log.String(), task1) {
				t.Errorf("%+v, log %s", s, log.String())
			}
			select {
			case <-ready:
				t.Error("there is room although nothing was taken")
			default:
			}
			close(until)
			wait(t, ready, "room")
			waitGroup(t, &released, "the release")
			for range pushes {
				if got := wait(t, slow.arrivals, "the arrival"); got.err != nil || !bytes.Equal(got.data, data) {
					t.Errorf("step %d: %v", got.step, got.err)
				}
			}
			if st, err := a.State(task1); err != nil || st.Queued != 0 || p.Err() != nil {
				t.Errorf("%+v %v %v", st, err, p.Err())
			}
		})
	}
}

// A peer that accepts nothing for long is lost, although its heartbeats continue.
func TestStalledPeerIsGivenUp(t *testing.T) {
	until := make(chan struct{})
	sink := deafSink(1, until)
	s := testSpec(t, 2)
	a := startNode(t, s, 0, "", func(c *Config) { c.Timing.Stall, c.NoLending = 600*time.Millisecond, true })
	startNode(t, s, 1, "", func(c *Config) { c.Sink = sink })
	defer close(until)
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	var released sync.WaitGroup
	released.Add(1)
	if err := p.Push(1, nil, randomBytes(64<<20), released.Done); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{}, 1)
	if p.Room(maxQueued, func() { ready <- struct{}{} }) {
		t.Error("there is room for more than may wait")
	}
	wait(t, p.Done(), "the loss")
	wantError(t, p.Err(), status.Unavailable, "it accepted none of the 67108864 bytes of tensors that wait for it for 600ms")
	waitGroup(t, &released, "the release")
	wait(t, ready, "the call of who waits for room")
}

// The first tick while a frame or message is being written does not count as a stall, because it does not know how long that has taken.
func TestFirstBeatLosesNobody(t *testing.T) {
	a, _, p := pair(t, newTestSink())
	b := newBulk(p)
	defer b.cancel()
	b.stall.begin()
	b.tick(time.Now())
	p.pipe.unwritten = standstill.Watch[uint64]{}
	p.pipe.out.mu.Lock()
	p.pipe.out.writing, p.pipe.out.writes = true, 0
	p.pipe.out.mu.Unlock()
	p.pipe.tick(time.Now())
	if err := p.Err(); err != nil || a.Stats().Stalls != 0 {
		t.Errorf("%v, %+v", err, a.Stats())
	}
	p.pipe.out.mu.Lock()
	p.pipe.out.writing = false
	p.pipe.out.mu.Unlock()
}

// logs keeps what is logged, and signals stalls.
type logs struct {
	mu     sync.Mutex
	b      bytes.Buffer
	stalls chan struct{}
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(p, []byte("takes no tensors")) {
		l.stalls <- struct{}{}
	}
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
