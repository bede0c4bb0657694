package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

const (
	task0 = "/job:worker/replica:0/task:0"
	task1 = "/job:worker/replica:0/task:1"
)

func TestHandshakeTellsWhoIsThere(t *testing.T) {
	s := testSpec(t, 2)
	a, b := startNode(t, s, 0, ""), startNode(t, s, 1, "")
	if st, err := a.State(task1); err != nil || st.Health != NeverSeen || a.Reached(task1) != nil {
		t.Errorf("before: %+v %v", st, err)
	}
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	if p.Boot() != b.self.Boot || p.Task() != task1 || p.Address() != b.self.Address || p.Devices()[0].Incarnation != 7 || p.Err() != nil {
		t.Errorf("peer %v", p.Identity())
	}
	if again, err := a.Ensure(within(t, patience), task1); again != p || err != nil || a.Reached(task1) != p {
		t.Errorf("again: %v %v", again, err)
	}
	if st, _ := a.State(task1); st.Health != Up || st.Boot != b.self.Boot || !st.Accepted.IsZero() {
		t.Errorf("after: %+v", st)
	}
	// The other end has sent no tensors, but knows when the link came into use: soon after its welcome.
	for end := time.Now().Add(patience); ; runtime.Gosched() {
		st, _ := b.State(task0)
		if st.Health != NeverSeen || st.Accepted.IsZero() && time.Now().After(end) {
			t.Fatalf("at the other end: %+v", st)
		}
		if !st.Accepted.IsZero() {
			break
		}
	}
	_, err = a.Ensure(within(t, patience), task0)
	wantError(t, err, status.Internal, "no link to itself")
	_, err = a.Ensure(within(t, patience), "/job:worker/replica:0/task:2")
	wantError(t, err, status.InvalidArgument, "/job:worker/replica:0/task:2 is not a task of the cluster")
}

func TestKilledPeerIsLostAtOnceAndComesBackAsAnother(t *testing.T) {
	s := testSpec(t, 2)
	a, b := startNode(t, s, 0, ""), startNode(t, s, 1, "")
	watched := watch(a.Links)
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	down := make(chan error, 2)
	p.OnDown(func(err error) { down <- err })
	p.OnDown(func(error) { t.Error("a cancelled watch was called") })()
	start := time.Now()
	b.kill()
	err = wait(t, down, "OnDown")
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("the loss was noticed after %v", d)
	}
	wantError(t, err, status.Unavailable, "worker "+task1+" ("+b.self.Address+") was lost: ", ", since 20")
	watched.expect(t, task1+": worker "+task1)
	p.OnDown(func(err error) { down <- err })
	if !errors.Is(wait(t, down, "OnDown after the loss"), p.Err()) {
		t.Error("another error")
	}
	released := false
	if err := p.Push(1, nil, []byte{1}, func() { released = true }); err == nil || !released {
		t.Errorf("a push to a lost peer: %v, released %v", err, released)
	}
	start = time.Now()
	_, err = a.Ensure(within(t, patience), task1)
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("Ensure took %v to fail", d)
	}
	wantError(t, err, status.Unavailable, "was lost: ", "connecting again failed: ", "connection refused")

	again := startNode(t, s, 1, "")
	p2, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	if p2 == p || p2.Boot() != again.self.Boot || p.Err() == nil {
		t.Errorf("boot %x, was %x", p2.Boot(), p.Boot())
	}
}

func TestFrozenPeerIsLostOnBothEnds(t *testing.T) {
	s := testSpec(t, 2)
	bind := spectest.Address(t)
	a, b := startNode(t, s, 0, "", silent), startNode(t, s, 1, bind, silent)
	x := startProxy(t, b.self.Address, bind)
	there := watch(b.Links)
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	down := make(chan error, 1)
	p.OnDown(func(err error) { down <- err })
	x.freeze()
	wantError(t, wait(t, down, "OnDown"), status.Unavailable, "was lost: nothing was heard from it for 300ms")
	there.expect(t, task0+": worker "+task0+" ("+a.self.Address+") was lost: nothing was heard from it for 300ms")
	_, err = a.Ensure(within(t, patience), task1)
	wantError(t, err, status.Unavailable, "was lost: nothing was heard from it", "connecting again failed: it did not answer")
}

func TestPeerThatNeverComes(t *testing.T) {
	s := testSpec(t, 2)
	first := extent.Slack(200 * time.Millisecond) // at least one attempt is refused in it
	a := startNode(t, s, 0, "", func(c *Config) { c.Timing.First = first })
	start := time.Now()
	_, err := a.Ensure(within(t, patience), task1)
	if d := time.Since(start); d < first*3/4 || d > first+extent.Slack(2*time.Second) {
		t.Errorf("waited %v", d)
	}
	address := s.Tasks()[1].Address
	wantError(t, err, status.Unavailable, "worker "+task1+" ("+address+") has not been reached since 20", ": dial tcp "+address+": connect: connection refused")
	if st, _ := a.State(task1); st.Health != NeverSeen || !strings.Contains(st.Reason, "refused") {
		t.Errorf("%+v", st)
	}
	_, err = a.Ensure(within(t, 20*time.Millisecond), task1)
	wantError(t, err, status.Unavailable, "has not been reached since 20", "the caller's deadline came first")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = a.Ensure(ctx, task1)
	wantError(t, err, status.Cancelled)
}

func TestPeerThatComesLateIsWaitedFor(t *testing.T) {
	s := testSpec(t, 2)
	refused := make(chan struct{})
	a := startNode(t, s, 0, "", func(c *Config) {
		c.Timing.First = patience
	})
	var once sync.Once
	tried := 0
	a.config.Open = func(ctx context.Context, address, method string) (Stream, error) {
		if tried++; tried > 2 {
			once.Do(func() { close(refused) })
		}
		return openTest(ctx, address, method)
	}
	type result struct {
		p   *Peer
		err error
	}
	results := make(chan result, 3)
	for range 3 {
		go func() {
			p, err := a.Ensure(within(t, patience), task1)
			results <- result{p, err}
		}()
	}
	<-refused
	b := startNode(t, s, 1, "")
	for range 3 {
		r := wait(t, results, "Ensure")
		if r.err != nil || r.p.Boot() != b.self.Boot {
			t.Errorf("%v %v", r.p, r.err)
		}
	}
}

func TestAnotherSpecIsRefusedOnBothSides(t *testing.T) {
	s := testSpec(t, 3)
	other, err := s.WithAddress("worker", 2, "10.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a := startNode(t, s, 0, "")
	b := startNode(t, other, 1, "", func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 2 {
		_, err = a.Ensure(within(t, patience), task1)
		wantError(t, err, status.FailedPrecondition, "were started with different cluster specs", task0+" at "+a.self.Address, task1+" at "+b.self.Address,
			"/job:worker/replica:0/task:2 is at 10.0.0.1:1 here and at "+s.Tasks()[2].Address+" there", "process ", "boot ")
	}
	_, err = a.Greet(within(t, patience), s.Tasks()[1])
	wantError(t, err, status.FailedPrecondition, "different cluster specs")
	b.stop()
	if !strings.Contains(log.String(), "a process was refused") || !strings.Contains(log.String(), a.self.Address) {
		t.Errorf("log: %s", log.String())
	}
}

// Tasks with different protocols refuse each other, whichever greets, with an error that names both.
func TestOtherProtocol(t *testing.T) {
	s := testSpec(t, 2)
	for name, there := range map[string]uint32{"an older one": 0, "a newer one": Protocol + 1} {
		t.Run(name, func(t *testing.T) {
			b := startNode(t, s, 1, "", func(c *Config) { c.Version = "v0.2.0" })
			b.self.Protocol = there
			a := startNode(t, s, 0, "", func(c *Config) { c.Version = "v0.1.0" })
			for _, from := range []struct {
				links *node
				to    string
			}{{a, task1}, {b, task0}} {
				_, err := from.links.Ensure(within(t, patience), from.to)
				wantError(t, err, status.FailedPrecondition, "they cannot be in one cluster", "runs Troupe v0.1.0", "runs Troupe v0.2.0", fmt.Sprintf("protocol %d", Protocol), fmt.Sprintf("protocol %d", there))
			}
		})
	}
}

func TestAddressThatLeadsToAnotherTask(t *testing.T) {
	s := testSpec(t, 3)
	a, b := startNode(t, s, 0, ""), startNode(t, s, 2, "")
	startProxy(t, s.Tasks()[1].Address, b.self.Address)
	_, err := a.Ensure(within(t, patience), task1)
	wantError(t, err, status.FailedPrecondition, task1+" ("+s.Tasks()[1].Address+") was expected, but that address leads to /job:worker/replica:0/task:2 at "+b.self.Address)
}

func TestWhoAndVouch(t *testing.T) {
	s := testSpec(t, 3)
	a, b := startNode(t, s, 0, ""), startNode(t, s, 1, "")
	id, err := Who(within(t, patience), callTest, b.self.Address)
	if err != nil || id.Boot != b.self.Boot || !strings.Contains(Describe(id), task1+" at "+b.self.Address+" (process ") {
		t.Errorf("%v %v", id, err)
	}
	// b reports which process it reaches at the address of a.
	id, err = a.AskVouch(within(t, patience), s.Tasks()[1], task0)
	if err != nil || id.Boot != a.self.Boot {
		t.Errorf("%v %v", id, err)
	}
	_, err = a.AskVouch(within(t, patience), s.Tasks()[1], "/job:worker/replica:0/task:2")
	wantError(t, err, status.Unavailable)
}

func TestUnusedLinkIsClosedWithoutALoss(t *testing.T) {
	s := testSpec(t, 2)
	idle := func(c *Config) { c.Timing.Idle, c.InUse = 50*time.Millisecond, func(string) bool { return false } }
	a, b := startNode(t, s, 0, "", idle), startNode(t, s, 1, "", idle)
	here, there := watch(a.Links), watch(b.Links)
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	watched := New(Config{Spec: s, Self: s.Tasks()[0], Call: callTest})
	defer watched.cancel()
	if !watched.mayClose(task1) {
		t.Error("links that nobody watches stay open")
	}
	cancelWatch := watched.Watch(func(string, error) {})
	if watched.mayClose(task1) {
		t.Error("a watched link may be closed although nobody tells what is in use")
	}
	cancelWatch()
	release := p.Hold()
	unused := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.unused(time.Now().Add(time.Hour))
	}
	if unused() {
		t.Error("a link that is held counts as unused")
	}
	cancel := p.OnDown(func(error) {})
	release()
	if unused() {
		t.Error("a link that is watched counts as unused")
	}
	cancel()
	wait(t, p.Done(), "the end of the link")
	wantError(t, p.Err(), status.Cancelled, "not used")
	if st, _ := a.State(task1); st.Health != Down || st.Reason != "" {
		t.Errorf("%+v", st)
	}
	again, err := a.Ensure(within(t, patience), task1)
	if err != nil || again == p || again.Boot() != b.self.Boot {
		t.Errorf("%v %v", again, err)
	}
	here.none(t)
	there.none(t)
}

func TestLeavingIsToldAtOnce(t *testing.T) {
	s := testSpec(t, 2)
	a, b := startNode(t, s, 0, ""), startNode(t, s, 1, "")
	here, there := watch(a.Links), watch(b.Links)
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	back, err := b.Ensure(within(t, patience), task0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	wait(t, p.Done(), "the end of the link")
	wantError(t, p.Err(), status.Unavailable, "was lost: it is leaving: its server is stopping")
	wantError(t, back.Err(), status.Cancelled, "stopping")
	here.expect(t, "it is leaving")
	there.none(t)
	_, err = b.Ensure(within(t, patience), task0)
	wantError(t, err, status.Cancelled)
}

func TestHeartbeat(t *testing.T) {
	timing := Timing{}.withDefaults()
	synctest.Test(t, func(t *testing.T) {
		p := newHeartbeat(timing, time.Now())
		tick := func(n int) (lost bool) {
			for range n {
				time.Sleep(timing.Beat)
				lost = p.lost(time.Now())
			}
			return lost
		}
		if tick(7) {
			t.Error("lost after 3.5 s")
		}
		p.arrived(time.Now())
		if tick(7) || !tick(1) {
			t.Error("not lost after 4 s of silence")
		}
		// This process is stopped for a minute: the silence of that time is not counted.
		p.arrived(time.Now())
		tick(2)
		time.Sleep(time.Minute)
		if p.lost(time.Now()) {
			t.Error("lost because this process did not run")
		}
		if tick(4) || !tick(2) {
			t.Error("silence after that does not count")
		}
	})
}

// The other end of an attempt to open a link that is given up before the welcome has come takes it for no loss, and the task was not up by that link.
func TestAbandonedAttemptIsNoLoss(t *testing.T) {
	s := testSpec(t, 2)
	var a *node
	ready, changes, up := make(chan struct{}), make(chan string, 100), make(chan State, 100)
	a = startNode(t, s, 0, "", func(c *Config) {
		c.Changed = func(task string) {
			<-ready
			if st, _ := a.State(task); !st.Accepted.IsZero() || st.Health != NeverSeen {
				up <- st
			}
			changes <- task
		}
	})
	b := startNode(t, s, 1, "")
	watched := watch(a.Links)
	close(ready)
	h, err := b.link(task0).shake(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if task := wait(t, changes, "the link"); task != task1 {
		t.Errorf("%s has changed", task)
	}
	shutStream(b.Links, h.stream)
	wait(t, changes, "the end of the link")
	watched.none(t)
	select {
	case st := <-up:
		t.Errorf("its state was %+v", st)
	default:
	}
}
