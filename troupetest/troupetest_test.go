package troupetest

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// fake is a testing.TB whose failures a test can read.
type fake struct {
	testing.TB
	failures []string
	cleanups []func() // nil unless the fake itself ends
	own      bool     // the fake runs its cleanups
}

func (f *fake) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}
func (f *fake) Failed() bool { return len(f.failures) > 0 }
func (f *fake) Helper()      {}

func (f *fake) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fake) Cleanup(do func()) {
	if !f.own {
		f.TB.Cleanup(do)
		return
	}
	f.cleanups = append(f.cleanups, do)
}

// run calls do as a test of its own.
func (f *fake) run(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
}

// failsWith checks that do ends its test, with a message that matches a pattern.
func failsWith(t *testing.T, c *Cluster, pattern string, do func()) {
	t.Helper()
	f := &fake{TB: t}
	before := c.t
	c.t = f
	f.run(do)
	c.t = before
	if len(f.failures) != 1 || !regexp.MustCompile("^troupetest: "+pattern+"$").MatchString(f.failures[0]) {
		t.Errorf("it failed with %q, want %s", f.failures, pattern)
	}
}

// inBoth runs a test in simulated and in real time, beside others: in real time, clusters mostly wait.
func inBoth(t *testing.T, test func(t *testing.T)) {
	t.Parallel()
	t.Run("simulated", func(t *testing.T) { synctest.Test(t, test) })
	t.Run("real", test)
}

// soon is how long what takes no time may take in real time.
const soon = 20 * time.Second

// forwarders send each message on to the actor whose address they were made with, and answer questions with their task's name. The text
// "end" ends them.
var forwarders = troupe.WithActor("forwarder", func(c *troupe.ActorContext, arguments any) (troupe.Actor, error) {
	var to troupe.ActorRef
	if text, ok := arguments.(*wrapperspb.StringValue); ok {
		var err error
		if to, err = troupe.ParseActorRef(text.Value); err != nil {
			return nil, err
		}
	}
	return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
		switch m := message.(type) {
		case *emptypb.Empty:
			_ = c.Reply(wrapperspb.String(c.Node().Task()))
		case *wrapperspb.StringValue:
			if m.Value == "end" {
				c.Stop()
				return
			}
			_ = c.Send(to, m)
		case proto.Message:
			_ = c.Send(to, m)
		}
	}), nil
})

// forwarder makes a forwarder to a probe.
func forwarder(t *testing.T, c *Cluster, task string, to *Probe) troupe.ActorRef {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	ref, err := to.server.Spawn(ctx, "forwarder", troupe.ActorAt(task, "f"), wrapperspb.String(to.Ref().String()))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestProbes(t *testing.T) {
	inBoth(t, func(t *testing.T) {
		c := Start(t, map[string]int{"ps": 1, "worker": 2}, forwarders)
		p := c.Probe("worker:0", "p")
		for _, task := range []string{"worker:0", "/job:worker/task:1", "/job:ps/replica:0/task:0"} {
			f := forwarder(t, c, task, p)
			p.Watch(f)
			for i := range int64(10) {
				p.Send(f, wrapperspb.Int64(i))
			}
			for i := range int64(10) {
				if got := Expect[*wrapperspb.Int64Value](p, soon); got.Value != i {
					t.Errorf("it got %d, not %d", got.Value, i)
				}
				if !p.Sender().Equal(f) {
					t.Errorf("it is from %v, not from %v", p.Sender(), f)
				}
			}
			p.Send(f, &emptypb.Empty{})
			if got := Expect[*wrapperspb.StringValue](p, soon).Value; got != c.Server(task).Task() {
				t.Errorf("it is on %s", got)
			}
			if got := Ask[*wrapperspb.StringValue](p, f, &emptypb.Empty{}, soon).Value; got != c.Server(task).Task() {
				t.Errorf("it says that it is on %s", got)
			}
			p.Reply(wrapperspb.Bool(true)) // to the forwarder, which forwards it
			Expect[*wrapperspb.BoolValue](p, soon)
			p.Send(f, wrapperspb.String("end"))
			if err := p.ExpectEnded(f, soon); err != nil {
				t.Errorf("it ended with %v", err)
			}
		}
		p.ExpectNothing(time.Millisecond)
		var targets []string
		for _, s := range c.Servers() {
			targets = append(targets, s.Target())
		}
		if want := []string{"grpc://10.0.0.1:2222", "grpc://10.0.0.2:2222", "grpc://10.0.0.3:2222"}; !slices.Equal(targets, want) {
			t.Errorf("the targets are %q", targets)
		}
	})
}

func TestProbesThatAreAsked(t *testing.T) {
	inBoth(t, func(t *testing.T) {
		c := Start(t, map[string]int{"worker": 2})
		p := c.Probe("worker:1", "")
		type answer struct {
			text string
			err  error
		}
		answers := make(chan answer, 1)
		ask := func() {
			m, err := troupe.Ask[*wrapperspb.StringValue](t.Context(), c.Server("worker:0"), p.Ref(), wrapperspb.Int64(3))
			answers <- answer{m.GetValue(), err}
		}
		go ask()
		if got := Expect[proto.Message](p, soon); got.(*wrapperspb.Int64Value).Value != 3 {
			t.Errorf("it was asked %v", got)
		}
		p.Reply(wrapperspb.String("three"))
		if a := <-answers; a.text != "three" || a.err != nil {
			t.Errorf("the answer is %v", a)
		}
		failsWith(t, c, "probe .* on worker:1 cannot reply: .*answered already.*", func() { p.Reply(&emptypb.Empty{}) })
		go ask()
		Expect[*wrapperspb.Int64Value](p, soon)
		p.Fail(status.Errorf(status.OutOfRange, "three is too many"))
		if a := <-answers; status.CodeOf(a.err) != status.OutOfRange {
			t.Errorf("it failed with %v", a.err)
		}
		failsWith(t, c, "probe .* cannot fail a request: .*answered already.*", func() { p.Fail(status.Internalf("again")) })
	})
}

// Each expectation that is not met ends the test, and says what came instead.
func TestFailures(t *testing.T) {
	inBoth(t, func(t *testing.T) {
		c := Start(t, map[string]int{"worker": 2}, forwarders)
		p, q := c.Probe("worker:0", "p"), c.Probe("worker:1", "q")
		f := forwarder(t, c, "worker:1", p)
		const within = 50 * time.Millisecond
		fails := func(pattern string, do func()) {
			t.Helper()
			failsWith(t, c, pattern, do)
		}
		// arrives sends a message to p that has arrived when it returns.
		arrives := func(m proto.Message) {
			q.Send(p.Ref(), m)
			Ask[*wrapperspb.StringValue](p, f, &emptypb.Empty{}, soon)
			q.act("wait", func(*troupe.ActorContext) error { return nil })
		}
		fails("probe p on worker:0 got nothing within 50ms, want a \\*wrapperspb.Int64Value", func() { Expect[*wrapperspb.Int64Value](p, within) })
		fails("probe p on worker:0 got nothing within 50ms, want the end of /job:worker/replica:0/task:1/actor:f", func() { _ = p.ExpectEnded(f, within) })
		fails("probe p on worker:0 cannot reply: .*received nothing", func() { p.Reply(&emptypb.Empty{}) })
		fails("probe p on worker:0 has nobody to fail: .*", func() { p.Fail(status.Internalf("x")) })
		arrives(wrapperspb.String("hello"))
		fails(`probe p on worker:0 got a \*wrapperspb.StringValue \{value: *"hello"\} from /job:worker/replica:0/task:1/actor:q, want a \*wrapperspb.Int64Value`,
			func() { Expect[*wrapperspb.Int64Value](p, soon) })
		arrives(wrapperspb.String("hello"))
		fails(`probe p .* got a \*wrapperspb.StringValue \{.*\} .*, want the end of /job:worker/replica:0/task:1/actor:f`, func() { _ = p.ExpectEnded(f, soon) })
		arrives(wrapperspb.String("hello"))
		fails(`probe p .* got a \*wrapperspb.StringValue \{.*\} .*, want nothing within 20s`, func() { p.ExpectNothing(soon) })
		nobody := troupe.ActorAt("worker:1", "nobody")
		p.Watch(nobody)
		fails(`probe p .* got the end of /job:worker/replica:0/task:1/actor:nobody \(.*nobody.*\), want the end of /job:worker/replica:0/task:1/actor:f`, func() { _ = p.ExpectEnded(f, soon) })
		fails("probe p .* asked /job:worker/replica:0/task:1/actor:nobody: .*", func() { Ask[*emptypb.Empty](p, nobody, &emptypb.Empty{}, soon) })
		fails("probe p .* cannot send to /job:worker/replica:0/task:9/actor:x: .*not a task.*", func() { p.Send(troupe.ActorAt("worker:9", "x"), &emptypb.Empty{}) })
		fails("probe p .* cannot watch /job:worker/replica:0/task:9/actor:x: .*not a task.*", func() { p.Watch(troupe.ActorAt("worker:9", "x")) })
		fails(`the cluster has no task "worker:2"; its tasks are \[worker:0 worker:1\]`, func() { c.Server("worker:2") })
		fails(`the cluster has no task "worker"; .*`, func() { c.Kill("worker") })
		fails("no probe on worker:0: .*already.*", func() { c.Probe("worker:0", "p") })
		fails("worker:0 cannot be made: .*10.0.0.1:2222.*", func() { c.Restart("worker:0") })
		if err := c.Server("worker:0").EndActor(t.Context(), p.Ref()); err != nil {
			t.Fatal(err)
		}
		fails("probe p .* cannot watch tasks: .*no actor.*", func() { p.WatchTasks() })
		for _, arguments := range []proto.Message{nil, wrapperspb.Int64(99)} {
			if _, err := c.Server("worker:0").Spawn(t.Context(), probeKind, troupe.ActorRef{}, arguments); status.CodeOf(err) != status.InvalidArgument {
				t.Errorf("a probe without a test: %v", err)
			}
		}
	})
}

func TestKillAndRestart(t *testing.T) {
	inBoth(t, func(t *testing.T) {
		c := Start(t, map[string]int{"worker": 3}, forwarders)
		p := c.Probe("worker:0", "p")
		p.WatchTasks()
		state := func(task, want string) uint64 {
			t.Helper()
			for {
				s := Expect[troupe.TaskStatus](p, soon)
				if s.Task == "/job:worker/replica:0/task:"+task && s.State == want {
					return s.Boot
				}
			}
		}
		boot := state("1", "up")
		q := c.Probe("worker:0", "q")
		f := forwarder(t, c, "worker:1", q)
		on := c.Probe("worker:1", "on")
		q.Watch(f)
		q.Send(f, &emptypb.Empty{})
		Expect[*wrapperspb.StringValue](q, soon)
		before := c.Server("worker:1")
		c.Kill("worker:1")
		c.Kill("worker:1") // nothing
		if err := q.ExpectEnded(f, soon); status.CodeOf(err) != status.Unavailable {
			t.Errorf("it ended with %v", err)
		}
		failsWith(t, c, "probe on .* cannot send to .*: .*", func() { on.Send(q.Ref(), &emptypb.Empty{}) })
		state("1", "down")
		c.Restart("worker:1", troupe.WithActor("late", func(*troupe.ActorContext, any) (troupe.Actor, error) {
			return troupe.ActorFunc(func(*troupe.ActorContext, any) {}), nil
		}))
		if again := state("1", "up"); again == boot || c.Server("worker:1") == before {
			t.Errorf("it is the same process, %d", again)
		}
		if _, err := c.Server("worker:0").Spawn(t.Context(), "late", troupe.ActorAt("worker:1", ""), nil); err != nil {
			t.Error(err)
		}
		q.Watch(f)
		if err := q.ExpectEnded(f, soon); status.CodeOf(err) != status.NotFound {
			t.Errorf("the restarted task still has its actor: %v", err)
		}
		// A task that the test has stopped starts again too.
		if err := c.Server("worker:2").Stop(t.Context()); err != nil {
			t.Error(err)
		}
		c.Restart("worker:2")
		forwarder(t, c, "worker:2", q)
	})
}

// The runtime takes a link that is silent for 3.5 s for lost.
func TestCutAndFreeze(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(c *Cluster) }{
		"cut":    {func(c *Cluster) { c.Cut("worker:0", "worker:1") }, func(c *Cluster) { c.Heal("worker:0", "worker:1") }},
		"freeze": {func(c *Cluster) { c.Freeze("worker:1") }, func(c *Cluster) { c.Thaw("worker:1") }},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T) {
				if !inBubble() && !extent.Check() {
					t.Skip("a silent link is lost after seconds")
				}
				c := Start(t, map[string]int{"worker": 3}, forwarders)
				p, q := c.Probe("worker:0", "p"), c.Probe("worker:2", "q")
				f := forwarder(t, c, "worker:1", p)
				q.Send(f, wrapperspb.Int64(1))
				Expect[*wrapperspb.Int64Value](p, soon)
				p.Watch(f)
				q.Watch(f)
				Ask[*wrapperspb.StringValue](p, f, &emptypb.Empty{}, soon) // after the watches
				Ask[*wrapperspb.StringValue](q, f, &emptypb.Empty{}, soon)
				fault.begin(c)
				p.ExpectNothing(time.Second) // no reset
				if err := p.ExpectEnded(f, soon); status.CodeOf(err) != status.Unavailable {
					t.Errorf("it ended with %v", err)
				}
				if name == "freeze" {
					if err := q.ExpectEnded(f, soon); status.CodeOf(err) != status.Unavailable {
						t.Errorf("it ended with %v", err)
					}
				}
				if !inBubble() {
					return // the end of the test removes the fault
				}
				if name == "cut" {
					q.ExpectNothing(time.Minute)
				}
				fault.end(c)
				p.ExpectNothing(time.Minute)   // until the tasks have found each other again
				q.Send(f, wrapperspb.Int64(2)) // the actor lives on
				Expect[*wrapperspb.Int64Value](p, soon)
			})
		})
	}
}

func TestDelayAndLoss(t *testing.T) {
	inBoth(t, func(t *testing.T) {
		c := Start(t, map[string]int{"worker": 2}, forwarders)
		p := c.Probe("worker:0", "p")
		f := forwarder(t, c, "worker:1", p)
		roundTrip := func() time.Duration {
			start := time.Now()
			Ask[*wrapperspb.StringValue](p, f, &emptypb.Empty{}, soon)
			return time.Since(start)
		}
		// takes checks the time of a round trip. In real time, the processor takes some more.
		takes := func(want time.Duration) {
			if d := roundTrip(); d != want && (inBubble() || d < want) {
				t.Errorf("a round trip took %v, not %v", d, want)
			}
		}
		takes(0)
		c.Delay(30 * time.Millisecond)
		takes(60 * time.Millisecond)
		c.Lose(0.5)
		var longest time.Duration
		for range 8 {
			longest = max(longest, roundTrip())
		}
		if longest < 200*time.Millisecond {
			t.Errorf("nothing was lost: the longest round trip took %v", longest)
		}
	})
}

// negation returns a graph that negates x on a task.
func negation(t *testing.T, task string) (*op.Scope, op.Output, op.Output) {
	t.Helper()
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32)
	return s, x, op.Neg(s.WithDevice(task), x)
}

// Sessions on a server and of a client reach the other tasks.
func TestSessions(t *testing.T) {
	inBoth(t, func(t *testing.T) {
		c := Start(t, map[string]int{"worker": 2})
		s, x, y := negation(t, "/job:worker/task:1")
		graph, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		for _, master := range []troupe.Master{c.Server("worker:0"), c.Dial("worker:0")} {
			session, err := master.NewSession(t.Context(), graph, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := troupe.Fetch[[]float32](t.Context(), session, troupe.Feeds{x: []float32{1, 2}}, y)
			if err != nil || !slices.Equal(got, []float32{-1, -2}) {
				t.Errorf("it is %v, %v", got, err)
			}
		}
	})
}

// A step that waits on a task ends with the task.
func TestStepsOfAKilledTask(t *testing.T) {
	inBoth(t, func(t *testing.T) {
		c := Start(t, map[string]int{"worker": 2})
		s := op.NewScope()
		on := s.WithDevice("/job:worker/task:1")
		v := op.NewVariable(on, op.Fill(on, op.Const(on, []int32{1000}), op.Const(on, float32(1))))
		queue := op.FIFOQueueV2(on, []tensor.DType{tensor.Float32})
		waits := op.QueueDequeueV2(on, queue, []tensor.DType{tensor.Float32})
		value, start := v.Read(on), op.Initialize(s)
		graph, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		session, err := c.Server("worker:0").NewSession(t.Context(), graph, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Eval(t.Context(), nil, start); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := session.Eval(t.Context(), nil, waits[0], value)
			failed <- err
		}()
		if inBubble() {
			synctest.Wait() // until the step waits; otherwise it may begin after the end of its task
		}
		c.Kill("worker:1")
		if err := <-failed; status.CodeOf(err) != status.Unavailable {
			t.Errorf("the step ended with %v", err)
		}
	})
}

// What a test leaves fails it.
func TestLeaks(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) }) // after the parallel tests
	stubborn := troupe.WithActor("stubborn", func(*troupe.ActorContext, any) (troupe.Actor, error) {
		go stay(stop)
		return troupe.ActorFunc(func(*troupe.ActorContext, any) {}), nil
	})
	spawn := func(c *Cluster) {
		if _, err := c.Server("worker:0").Spawn(c.t.Context(), "stubborn", troupe.ActorAt("worker:1", ""), nil); err != nil {
			c.t.Fatalf("%v", err)
		}
	}
	for name, row := range map[string]struct {
		leave func(c *Cluster)
		want  string
	}{
		"nothing":             {func(*Cluster) {}, ""},
		"a goroutine":         {spawn, `(?s)troupetest: the servers have stopped and left\ngoroutines: 1 @.*troupetest\.stay.*`},
		"an allowed one":      {func(c *Cluster) { spawn(c); c.AllowGoroutine("github.com/troupe-run/troupe/troupetest.stay") }, ""},
		"one that is not its": {func(*Cluster) { go stay(stop) }, ""},
		"a failure before":    {func(c *Cluster) { spawn(c); c.t.Fatalf("before") }, "before"},
		"a tensor": {func(c *Cluster) {
			s := op.NewScope()
			ones := op.Fill(s, op.Const(s, []int32{1000}), op.Const(s, float32(1)))
			graph, err := s.GraphDef()
			if err != nil {
				c.t.Fatalf("%v", err)
			}
			session, err := c.Server("worker:1").NewSession(c.t.Context(), graph, nil)
			if err != nil {
				c.t.Fatalf("%v", err)
			}
			if _, err := session.Eval(c.t.Context(), nil, ones); err != nil {
				c.t.Fatalf("%v", err)
			}
		}, `troupetest: the servers have stopped and left\n\d+ bytes of tensors on /job:worker/replica:0/task:1: .*`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{TB: t, own: true}
			f.run(func() { row.leave(Start(f, map[string]int{"worker": 2}, stubborn)) })
			if got := strings.Join(f.failures, "\n"); !regexp.MustCompile("^" + row.want + "$").MatchString(got) {
				t.Errorf("the test failed with %q, want %s", got, row.want)
			}
		})
	}
}

func stay(stop <-chan struct{}) { <-stop }

// An actor that does not return when its context ends fails the test.
func TestStopThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		f := &fake{TB: t, own: true}
		f.run(func() {
			c := Start(f, map[string]int{"worker": 1}, troupe.WithActor("deaf", func(*troupe.ActorContext, any) (troupe.Actor, error) {
				return troupe.ActorFunc(func(*troupe.ActorContext, any) { <-stop }), nil
			}))
			ref, err := c.Server("worker:0").Spawn(t.Context(), "deaf", troupe.ActorAt("", "deaf"), nil)
			if err != nil {
				t.Error(err)
			}
			if err := c.Server("worker:0").Send(t.Context(), ref, &emptypb.Empty{}); err != nil {
				t.Error(err)
			}
			synctest.Wait() // until it has the message, which a stop could drop
		})
		close(stop)
		if got := strings.Join(f.failures, "\n"); !strings.HasPrefix(got, "troupetest: /job:worker/replica:0/task:0 did not stop in order: ") || !strings.Contains(got, "deaf") {
			t.Errorf("it failed with %q", got)
		}
	})
}

func TestOptionsOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := StartEach(t, map[string]int{"ps": 1, "worker": 2}, func(job string, task int) []troupe.Option {
			if job == "worker" && task == 1 {
				return []troupe.Option{forwarders}
			}
			return nil
		})
		for task, code := range map[string]status.Code{"ps:0": status.NotFound, "worker:0": status.NotFound, "worker:1": status.OK} {
			if _, err := c.Server("worker:0").Spawn(t.Context(), "forwarder", troupe.ActorAt(task, ""), nil); status.CodeOf(err) != code {
				t.Errorf("%s: %v", task, err)
			}
		}
		for text, bad := range map[string]troupe.Option{"negative": troupe.WithMemoryLimit(-1), "WithTask": troupe.WithTask(0), "WithStart": troupe.WithStart(true)} {
			f := &fake{TB: t, own: true}
			f.run(func() { Start(f, map[string]int{"worker": 1}, bad) })
			if len(f.failures) != 1 || !strings.HasPrefix(f.failures[0], "troupetest: worker:0 cannot be made: ") || !strings.Contains(f.failures[0], text) {
				t.Errorf("%s: %q", text, f.failures)
			}
		}
	})
}

// Warnings go to the test's log, and never to that of a test that has ended.
func TestLog(t *testing.T) {
	var b strings.Builder
	l := &testLog{to: &b}
	fmt.Fprint(l, "one")
	l.close()
	if n, err := fmt.Fprint(l, "two"); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if b.String() != "one" {
		t.Errorf("the log has %q", &b)
	}
}
