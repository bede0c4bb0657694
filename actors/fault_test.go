package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/internal/lifecycle"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// chain goes over three tasks; none of its values is constant.
const chain = `
	x = Placeholder() @a0
	y = Neg(x) @b0
	z = FloorDiv(x, y) @c0
	w = AddV2(z, y) @a0
`

func TestFailureElsewhere(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	c := open(t, net.node(taskName("a")), chain)
	for range 20 {
		_, err := c.try(t.Context(), request(map[string]int64{"x:0": 0}, "w:0"))
		wantError(t, err, status.InvalidArgument, "From /job:c/replica:0/task:0:\n", "{{node z}}")
		c.run(request(map[string]int64{"x:0": 3}, "w:0"), -4)
	}
	c.idle()
}

// idle fails the test unless nothing runs anywhere for the client's session within a short time.
func (c *client) idle() {
	c.t.Helper()
	for _, task := range c.node.net.tasks {
		if n := c.node.net.node(task); n != nil {
			until(c.t, "the steps of "+task+" end", func() bool { return len(n.task.steps.parts()) == 0 })
		}
	}
	until(c.t, "the session is idle", func() bool { return c.node.task.steps.count(c.session) == 0 })
}

// until polls for a condition that nothing announces.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("it is never so that %s", what)
		}
	}
}

func TestLostTask(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	c := open(t, a, waiting+"n = Neg(five) @b0\nm = Neg(n) @c0\n")
	c.run(request(nil, "m:0"), 5)
	ended := c.begin(t.Context(), request(nil, "z:0"))
	b.awaits("take")
	b.kill()
	wantError(t, <-ended, status.Unavailable, "worker /job:b/replica:0/task:0 was lost")
	c.idle()
	for range 2 {
		_, err := c.try(t.Context(), request(nil, "m:0"))
		wantError(t, err, status.Unavailable, "worker /job:b/replica:0/task:0 was lost")
	}
	net.start("b")
	_, err := c.try(t.Context(), request(nil, "m:0"))
	wantError(t, err, status.Aborted, "/job:b/replica:0/task:0 (", "was restarted")
	c.run(request(nil, "m:0"), 5)
	c.idle()
	t.Run("the master is lost", func(t *testing.T) {
		b := net.node(taskName("b"))
		ended := c.begin(t.Context(), request(nil, "z:0"))
		b.awaits("take")
		net.part(a.name, b.name)
		wantError(t, <-ended, status.Unavailable, "was lost")
		c.idle()
		net.join(a.name, b.name)
		c.run(request(nil, "m:0"), 5)
	})
}

// TestLostTaskOfAClosingSession loses a task whose part is all that keeps a session from being closed: by its client, by a reset and by the end of its
// server. The task has not learned of the end.
func TestLostTaskOfAClosingSession(t *testing.T) {
	for name, end := range map[string]func(c *client) error{
		"closed": func(c *client) error { return c.node.task.CloseSession(context.Background(), c.session.handle) },
		"reset": func(c *client) error {
			_ = c.node.task.Reset(context.Background(), nil, "the test", nil) // names the lost task
			return nil
		},
		"drained": func(c *client) error {
			over, cancel := context.WithCancel(context.Background())
			cancel()
			c.node.task.sessionsOf.drain(over)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			net := newNetwork(t, "a", "b", "c")
			a, b := net.node(taskName("a")), net.node(taskName("b"))
			c := open(t, a, waiting)
			step := c.begin(t.Context(), request(nil, "z:0"))
			b.awaits("take")
			aborted := make(chan struct{}, 10)
			net.filter(func(_, to string, m proto.Message, _ func()) bool {
				_, is := m.(*wire.AbortStep)
				if is = is && to == b.name; is {
					aborted <- struct{}{}
				}
				return !is
			})
			ended := make(chan error, 1)
			go func() { ended <- end(c) }()
			<-aborted
			b.kill()
			if err := <-ended; err != nil || strings.Contains(a.log.String(), "did not end in time") {
				t.Errorf("the session waited for the lost task: %v\n%s", err, a.log.String())
			}
			<-step
		})
	}
}

// TestBrokenLink breaks the link between two tasks, neither of which is the step's master.
func TestBrokenLink(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a, b, d := net.node(taskName("a")), net.node(taskName("b")), net.node(taskName("c"))
	c := open(t, a, waiting+"n = Neg(far) @c0\nm = Neg(n) @a0\nk = Neg(five) @b0\nl = Neg(k) @c0\n")
	ended := c.begin(t.Context(), request(nil, "m:0"))
	b.awaits("take")
	d.awaits("far")
	net.part(b.name, d.name)
	wantError(t, <-ended, status.Unavailable, "was lost")
	c.idle()
	_, err := c.try(t.Context(), request(nil, "l:0"))
	wantError(t, err, status.Unavailable, "worker /job:c/replica:0/task:0 was lost")
	c.idle()
	net.join(b.name, d.name)
	c.run(request(nil, "l:0"), 5)
}

// TestNoLateStart fails steps while their parts are being started.
func TestNoLateStart(t *testing.T) {
	net := newNetwork(t, "a", "b", "c", "d")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	c := open(t, a, `
		x = Placeholder() @a0
		y = Neg(x) @b0
		z = Neg(y) @c0
		v = Neg(y) @d0
		w = AddV2(z, v) @a0`)
	for range 30 {
		c.run(request(map[string]int64{"x:0": 3}, "w:0"), 6)
		net.part(a.name, b.name)
		_, err := c.try(t.Context(), request(map[string]int64{"x:0": 3}, "w:0"))
		wantError(t, err, status.Unavailable, "was lost")
		c.idle()
		net.join(a.name, b.name)
	}
}

// TestRefusedAtTheMaster refuses the own part of steps that have parts on other tasks.
func TestRefusedAtTheMaster(t *testing.T) {
	net := newNetwork(t, "a", "b")
	c := open(t, net.node(taskName("a")), "x = Placeholder() @a0\nm = Neg(x) @b0\nn = Neg(m) @a0\n")
	feeds := map[string]int64{"x:0": 5}
	c.run(request(feeds, "n:0"), 5)
	steps := &c.node.task.steps
	atMost := func(n int) {
		steps.mu.Lock()
		defer steps.mu.Unlock()
		steps.partsOf.most = n
	}
	atMost(0)
	_, err := c.try(t.Context(), request(feeds, "n:0"))
	wantError(t, err, status.ResourceExhausted, "steps under way")
	c.idle()
	atMost(maxSteps)
	c.run(request(feeds, "n:0"), 5)
}

func TestUnknownPlan(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	const text = `
		v = VarHandleOp() @b0 shared_name="v"
		x = Placeholder() @a0
		init = AssignVariableOp(v, x) @b0
		read = ReadVariableOp(v) @b0
		y = Neg(read) @a0`
	for _, isolated := range []bool{false, true} {
		c := openWith(t, a, text, &corepb.ConfigProto{IsolateSessionState: isolated})
		c.run(request(map[string]int64{"x:0": 4}, "!init"))
		c.run(request(nil, "y:0"), -4)
		b.task.forgetSession(c.session.handle)
		if isolated {
			_, err := c.try(t.Context(), request(nil, "y:0"))
			wantError(t, err, status.FailedPrecondition, "{{node read}}")
			if s := b.task.session(c.session.handle); s == nil || !s.isolated {
				t.Error("the session is not isolated any more")
			}
		} else {
			c.run(request(nil, "y:0"), -4)
		}
		c.close()
		until(t, "the session is forgotten", func() bool { return b.task.session(c.session.handle) == nil })
	}
}

// TestLiteral: if a session's config turns optimizations off, all tasks run its graph as it is.
func TestLiteral(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	for _, c := range []struct {
		graph   *corepb.GraphOptions
		literal bool
	}{
		{nil, false},
		{&corepb.GraphOptions{OptimizerOptions: &corepb.OptimizerOptions{OptLevel: corepb.OptimizerOptions_L0}}, true},
		{&corepb.GraphOptions{RewriteOptions: &corepb.RewriterConfig{DisableMetaOptimizer: true}}, true},
	} {
		client := openWith(t, a, chain, &corepb.ConfigProto{GraphOptions: c.graph})
		client.run(request(map[string]int64{"x:0": 4}, "w:0"), -5)
		for _, n := range []*node{a, b} {
			if s := n.task.session(client.session.handle); s == nil || s.literal != c.literal {
				t.Errorf("%v: a session that is literal: %v", c.graph, !c.literal)
			}
		}
		client.close()
	}
}

// TestConcurrentFirstSteps runs a new plan many times concurrently.
func TestConcurrentFirstSteps(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	c := open(t, net.node(taskName("a")), chain)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			got, err := c.try(t.Context(), request(map[string]int64{"x:0": int64(i + 1)}, "w:0"))
			if err != nil || got[0] != int64(-i-2) {
				t.Error(i, got, err)
			}
		})
	}
	wg.Wait()
}

// TestEarlyTensors holds back the message that starts a part until the part's inputs have arrived.
func TestEarlyTensors(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a, last := net.node(taskName("a")), net.node(taskName("c"))
	c := open(t, a, chain)
	c.run(request(map[string]int64{"x:0": 3}, "w:0"), -4)
	hold := func() (start func()) {
		held := make(chan func(), 1)
		arrived := make(chan struct{}, 8)
		net.filter(func(_, to string, m proto.Message, deliver func()) bool {
			if to != last.name {
				return true
			}
			switch m.(type) {
			case *wire.RunPartition:
				held <- deliver
				return false
			case *wire.Tensors:
				deliver()
				arrived <- struct{}{}
				return false
			}
			return true
		})
		return func() {
			<-arrived
			(<-held)()
		}
	}
	parked := func() int {
		last.task.steps.mu.Lock()
		defer last.task.steps.mu.Unlock()
		return last.task.steps.table.Parked()
	}
	t.Run("in time", func(t *testing.T) {
		start := hold()
		ended := c.begin(t.Context(), request(map[string]int64{"x:0": 3}, "w:0"))
		start()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
	t.Run("too late", func(t *testing.T) {
		start := hold()
		ended := c.begin(t.Context(), request(map[string]int64{"x:0": 3}, "w:0"))
		until(t, "a tensor is parked", func() bool { return parked() > 0 })
		last.task.steps.tick(time.Now().Add(lifecycle.ParkTime))
		start()
		wantError(t, <-ended, status.Aborted, "were dropped")
	})
	t.Run("never", func(t *testing.T) {
		hold()
		ctx, cancel := context.WithCancel(t.Context())
		ended := c.begin(ctx, request(map[string]int64{"x:0": 3}, "w:0"))
		until(t, "a tensor is parked", func() bool { return parked() > 0 })
		cancel()
		wantError(t, <-ended, status.Cancelled)
		net.filter(nil)
		net.part(a.name, last.name) // the master gives the part up
		net.join(a.name, last.name)
	})
	c.idle()
}

// TestLargeTensors sends tensors that travel beside the messages.
func TestLargeTensors(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	c := open(t, a, "x = Placeholder() @a0\ny = Neg(x) @b0\n")
	for range 10 {
		req := &StepRequest{Fetches: []string{"y:0"}, Feeds: []Feed{{"x:0", kernelstest.Iota[int64](tensor.Int64, kernelstest.S(100_000))}}}
		result, err := c.session.Run(t.Context(), req)
		req.done()
		if err != nil {
			t.Fatal(err)
		}
		if v := tensor.Of[int64](result.Tensors[0]); v[99_999] != -99_999 {
			t.Errorf("got %d", v[99_999])
		}
		result.Release()
	}
	if a.large != 10 || b.large != 10 {
		t.Errorf("%d and %d large tensors, want 10 each", a.large, b.large)
	}
}

// TestStop stops tasks while steps run.
func TestStop(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	c := open(t, a, waiting)
	ended := c.begin(t.Context(), request(nil, "z:0"))
	b.awaits("take")
	b.stop(over)
	wantCut(t, b, "master=/job:a/replica:0/task:0")
	// The reason is that the task stops or that it is gone, whichever is learned first.
	wantError(t, <-ended, status.Unavailable, "/job:b/replica:0/task:0")
	net.start("b")
	c2 := open(t, a, waiting)
	ended = c2.begin(t.Context(), request(nil, "z:0"))
	net.node(taskName("b")).awaits("take")
	a.stop(over)
	wantCut(t, a, "master=/job:a/replica:0/task:0", "fetches=[z:0]")
	wantError(t, <-ended, status.Unavailable, "/job:a/replica:0/task:0 is shutting down")
	_, err := a.task.CreateSession(t.Context(), 0, everything, kernelstest.GraphDef(t, chain), nil)
	if err == nil {
		t.Error("a stopped task opened a session")
	}
}

// wantCut checks that a task that has stopped has named the one step that it cancelled, with these words.
func wantCut(t *testing.T, n *node, words ...string) {
	t.Helper()
	text := n.log.String()
	if strings.Count(text, `level=WARN msg="a step is cancelled: the time to drain has ended" step=`) != 1 {
		t.Errorf("%s has not named the step that it cancelled:\n%s", n.name, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q of the step that it cancelled:\n%s", n.name, w, text)
		}
	}
}

// TestChaos runs steps while clients abandon theirs and links break.
func TestChaos(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	c := open(t, net.node(taskName("a")), chain)
	var wg, breaker sync.WaitGroup
	stop := make(chan struct{})
	breaker.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			x, y := net.tasks[i%3], net.tasks[(i+1)%3]
			net.part(x, y)
			net.join(x, y)
			runtime.Gosched()
		}
	})
	for i := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for k := range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				if rng.IntN(3) == 0 {
					timer := time.AfterFunc(time.Duration(rng.IntN(300))*time.Microsecond, cancel)
					defer timer.Stop()
				}
				got, err := c.try(ctx, request(map[string]int64{"x:0": int64(k + 1)}, "w:0"))
				switch code := status.CodeOf(err); {
				case err == nil && got[0] != int64(-k-2):
					t.Error(k, got)
				case err != nil && code != status.Cancelled && code != status.Unavailable && !errors.Is(err, context.Canceled):
					t.Error(fmt.Sprint(code), err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	close(stop)
	breaker.Wait()
	c.run(request(map[string]int64{"x:0": 3}, "w:0"), -4)
	c.idle()
}
