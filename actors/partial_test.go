package actors

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/recent"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

const staged = `
	a = Placeholder()
	b = Placeholder()
	c = Placeholder()
	ab = AddV2(a, b)
	abc = Mul(ab, c)
	bad = FloorDiv(abc, c)
	p = Const() value=true
	s = Switch(ab, p)
	no = Identity(s)
`

// part is a call of a partial run.
func (c *client) part(handle string, req *StepRequest) ([]int64, error) {
	req.Partial = handle
	return c.try(c.t.Context(), req)
}

func (c *client) setup(feeds, fetches []string) string {
	c.t.Helper()
	h, err := c.session.PartialSetup(c.t.Context(), feeds, fetches, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return h
}

func TestPartialRun(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := open(t, n, staged)
	feeds, fetches := []string{"a:0", "b:0", "c:0"}, []string{"ab:0", "abc:0"}
	h := c.setup(feeds, fetches)
	if got, err := c.part(h, request(map[string]int64{"a:0": 1, "b:0": 2}, "ab:0")); err != nil || got[0] != 3 {
		t.Fatal(got, err)
	}
	for _, bad := range []struct {
		req  *StepRequest
		says string
	}{
		{request(map[string]int64{"a:0": 1}), "The feed a:0 has already been fed."},
		{request(map[string]int64{"d:0": 1}), "The feed d:0 was not specified in partial_run_setup."},
		{request(nil, "abc:0"), "Fetch abc:0 can't be computed from the feeds that have been fed so far."},
		{request(nil, "ab:0"), "The fetch ab:0 has already been fetched."},
		{request(nil, "a:0"), "The fetch a:0 was not specified in partial_run_setup."},
	} {
		_, err := c.part(h, bad.req)
		wantError(t, err, status.InvalidArgument, bad.says)
	}
	if got, err := c.part(h, request(map[string]int64{"c:0": 5}, "abc:0")); err != nil || got[0] != 15 {
		t.Fatal(got, err)
	}
	_, err := c.part(h, request(nil, "abc:0"))
	wantError(t, err, status.InvalidArgument, "Must run PartialRunSetup before performing partial runs")

	t.Run("a failure between calls", func(t *testing.T) {
		h := c.setup(feeds, []string{"ab:0", "bad:0"})
		if _, err := c.part(h, request(map[string]int64{"a:0": 1, "b:0": 2, "c:0": 0})); err != nil {
			wantError(t, err, status.InvalidArgument, "{{node bad}}")
			return
		}
		until(t, "the step fails", func() bool { return c.node.task.steps.count(c.session) == 0 })
		_, err := c.part(h, request(nil, "bad:0"))
		wantError(t, err, status.InvalidArgument, "{{node bad}}")
		_, err = c.part(h, request(nil, "ab:0"))
		wantError(t, err, status.InvalidArgument, "Must run PartialRunSetup")
	})
	t.Run("a branch that is not taken", func(t *testing.T) {
		h := c.setup(feeds, []string{"no:0"})
		_, err := c.part(h, request(map[string]int64{"a:0": 1, "b:0": 2}, "no:0"))
		wantError(t, err, status.Internal, "no:0", "branch was not taken")
		until(t, "the step ends, though c was not fed", func() bool { return c.node.task.steps.count(c.session) == 0 })
	})
	t.Run("time is over", func(t *testing.T) {
		c := open(t, n, "q = FIFOQueueV2()\ntake = QueueDequeueV2(q)\n"+staged)
		defer c.close()
		h := c.setup([]string{"a:0"}, []string{"take:0"})
		req := request(map[string]int64{"a:0": 1}, "take:0")
		req.Options = &corepb.RunOptions{TimeoutInMs: 50}
		_, err := c.part(h, req)
		wantError(t, err, status.DeadlineExceeded, "{{node take}}")
		_, err = c.part(h, request(nil, "take:0"))
		wantError(t, err, status.InvalidArgument, "Must run PartialRunSetup")
	})
	t.Run("left alone", func(t *testing.T) {
		h := c.setup(feeds, fetches)
		if _, err := c.part(h, request(map[string]int64{"a:0": 1, "b:0": 2, "c:0": 5})); err != nil {
			t.Fatal(err)
		}
		c.setup(feeds, fetches) // never fed
	})
	c.close()
	_, err = c.part(h, request(nil, "abc:0"))
	wantError(t, err, status.FailedPrecondition, "Session is closed.")
}

// A client's graph has the nodes that feed a step and return its results, with arbitrary indices: steps end, and the error says what is
// wrong.
func TestArgumentsOfClients(t *testing.T) {
	n := newNetwork(t, "a").node(taskName("a"))
	const unfed = "No tensor was fed for argument"
	for _, own := range []struct {
		node, fetch string
		want        int64
		says        string
	}{
		{"own = _Arg() index=0\nsum = AddV2(own, a)", "sum:0", 4, ""},
		{"own = _Arg() index=1\nsum = AddV2(own, a)", "sum:0", 0, unfed},
		{"own = _Arg() index=1000000000000\nsum = AddV2(own, a)", "sum:0", 0, unfed},
		{"own = _Retval(a) index=1000000000000\nsum = AddV2(a, a, ^own)", "sum:0", 4, ""},
	} {
		c := open(t, n, "a = Placeholder()\n"+own.node)
		feed := func() *StepRequest { return request(map[string]int64{"a:0": 2}, own.fetch) }
		for name, run := range map[string]func() ([]int64, error){
			"a step":        func() ([]int64, error) { return c.try(t.Context(), feed()) },
			"a partial run": func() ([]int64, error) { return c.part(c.setup([]string{"a:0"}, []string{own.fetch}), feed()) },
		} {
			got, err := run()
			switch {
			case own.says != "":
				wantError(t, err, status.Internal, own.says)
			case err != nil || got[0] != own.want:
				t.Errorf("%s with %s: %v, %v", name, own.node, got, err)
			}
		}
		c.close()
	}
}

func TestCallable(t *testing.T) {
	net := newNetwork(t, "a", "b")
	c := open(t, net.node(taskName("a")), "x = Placeholder() @a0\ny = Neg(x) @b0\n")
	h, err := c.session.MakeCallable(t.Context(), &corepb.CallableOptions{Feed: []string{"x:0"}, Fetch: []string{"y:0"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		feed := kernelstest.I64(kernelstest.S(3), int64(i), 0, 0)
		result, err := c.session.RunCallable(t.Context(), h, []*tensor.Tensor{feed}, nil)
		feed.Release()
		if err != nil {
			t.Fatal(err)
		}
		if got := values(result); got[0] != int64(-i) {
			t.Errorf("got %v", got)
		}
	}
	_, err = c.session.RunCallable(t.Context(), h, nil, nil)
	wantError(t, err, status.InvalidArgument, "Expected 1 feed tensors, but got 0")
	c.session.ReleaseCallable(h)
	_, err = c.session.RunCallable(t.Context(), h, nil, nil)
	wantError(t, err, status.InvalidArgument, fmt.Sprintf("No such callable handle: %d", h))
	for _, o := range []*corepb.CallableOptions{
		{TensorConnection: []*corepb.TensorConnection{{}}},
		{FeedDevices: map[string]string{"x:0": "/gpu:0"}},
		{FetchDevices: map[string]string{"y:0": "/gpu:0"}},
	} {
		_, err := c.session.MakeCallable(t.Context(), o)
		wantError(t, err, status.Unimplemented, "not supported")
	}
	_, err = c.session.MakeCallable(t.Context(), &corepb.CallableOptions{Fetch: []string{"nobody:0"}})
	wantError(t, err, status.NotFound, "nobody")
}

// TestManyPlans runs more signatures than the number of plans that a session keeps.
func TestManyPlans(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	const extra = 20
	text := "x = Placeholder() @a0\n"
	for i := range maxPlans + extra {
		text += fmt.Sprintf("n%d = Neg(x) @b0\n", i)
	}
	c := open(t, a, text)
	for i := range maxPlans + extra {
		c.run(request(map[string]int64{"x:0": int64(i)}, fmt.Sprintf("n%d:0", i)), int64(-i))
		c.run(request(map[string]int64{"x:0": 1}, "n0:0"), -1) // stays, because it is used
	}
	plans := *c.session.plans.Load()
	if len(plans) != maxPlans {
		t.Errorf("%d plans, want %d", len(plans), maxPlans)
	}
	for _, i := range []int{0, maxPlans + extra - 1} {
		if c.session.planned(fmt.Sprintf("n%d:0", i)) == nil {
			t.Errorf("the plan of n%d is gone", i)
		}
	}
	if c.session.planned("n1:0") != nil {
		t.Error("the plan of n1 is still there")
	}
	s := b.task.session(c.session.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plans) > maxPlans {
		t.Errorf("%d plans on the other task", len(s.plans))
	}
}

// planned returns the plan for feeding x:0 and one fetch.
func (s *Session) planned(fetch string) *plan {
	req := request(map[string]int64{"x:0": 0}, fetch)
	defer req.done()
	return (*s.plans.Load())[string(req.appendKey(nil))].plan
}

func TestLease(t *testing.T) {
	net := newNetwork(t, "a", "b")
	for _, lease := range []time.Duration{0, time.Hour} {
		net.lease = lease
		net.node(taskName("a")).stop(context.Background())
		a := net.start("a")
		handle, err := a.task.CreateSession(t.Context(), 7, everything, kernelstest.GraphDef(t, arithmetic), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.task.Session(handle, 8); err != nil {
			t.Fatal(err)
		}
		a.task.ConnectionClosed(7)
		if _, err := a.task.Session(handle, 8); err != nil {
			t.Error("a session was closed that another connection uses:", err)
		}
		a.task.ConnectionClosed(8)
		if lease == 0 {
			until(t, "the session is closed", func() bool { return a.task.Sessions() == 0 })
			// A client that returns learns the reason from every call.
			const why = "since its client had no connection to /job:a/replica:0/task:0, and its lease is over"
			_, err := a.task.Session(handle, 9)
			wantError(t, err, status.Aborted, "Session "+handle+" is not found: it was closed ")
			wantError(t, err, status.Aborted, why)
			wantError(t, a.task.CloseSession(t.Context(), handle), status.Aborted, why)
			_, err = a.task.ListDevices(t.Context(), handle)
			wantError(t, err, status.InvalidArgument, why)
			continue
		}
		if _, err := a.task.Session(handle, 9); err != nil {
			t.Error("a session was closed before its lease was over:", err)
		}
	}
}

// TestLeaseWhereMemoryIsShort: a session without a client lives as long as its lease, or less if memory is short.
func TestLeaseWhereMemoryIsShort(t *testing.T) {
	defer tensor.Process.SetLimit(tensor.Process.Limit())
	for _, short := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			net := newNetwork(t, "a")
			net.lease = 10 * time.Minute
			net.node(taskName("a")).stop(context.Background())
			a := net.start("a")
			handle, err := a.task.CreateSession(t.Context(), 7, everything, kernelstest.GraphDef(t, arithmetic), nil)
			if err != nil {
				t.Fatal(err)
			}
			a.task.ConnectionClosed(7)
			limit := int64(1 << 40)
			if short {
				runtime.GC() // so that live memory is known
				limit = 1
			}
			tensor.Process.SetLimit(limit)
			left := net.lease
			if short {
				left = ShortLease
			}
			time.Sleep(left - time.Millisecond)
			if a.task.Sessions() != 1 {
				t.Errorf("memory is short: %v; the session has ended before %v", short, left)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if a.task.Sessions() != 0 {
				t.Errorf("memory is short: %v; the session lives after %v", short, left)
			}
			tensor.Process.SetLimit(0)
			_, err = a.task.Session(handle, 9)
			wantError(t, err, status.Aborted, map[bool]string{false: "its lease is over", true: "memory is short"}[short])
			a.stop(context.Background())
		})
	}
}

// TestLeaseOfAClientThatRests: a session lives for longer than its lease if its client had not used it for long when the connection ended, as gRPC's
// clients end it. A call that ran until then is a use.
func TestLeaseOfAClientThatRests(t *testing.T) {
	defer tensor.Process.SetLimit(tensor.Process.Limit())
	for _, c := range []struct {
		name         string
		rest         time.Duration
		calls, short bool
		lives        time.Duration
	}{
		{"it does not rest", time.Second, false, false, 10 * time.Minute},
		{"it rests for less", RestTime - time.Second, false, false, 10 * time.Minute},
		{"it rests", 31 * time.Minute, false, false, RestLease},
		{"it rests for longer", 61 * time.Minute, false, false, RestLease},
		{"it rests, and memory is short", 31 * time.Minute, false, true, ShortLease},
		{"a call waits all the while", 31 * time.Minute, true, false, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newNetwork(t, "a")
				net.lease = 10 * time.Minute
				net.node(taskName("a")).stop(context.Background())
				a := net.start("a")
				defer a.stop(context.Background())
				handle, err := a.task.CreateSession(t.Context(), 7, everything, kernelstest.GraphDef(t, arithmetic+`
					q = FIFOQueueV2() @a0 shared_name="q"
					take = QueueDequeueV2(q) @a0
					taken = AddV2(take, two) @a0`), nil)
				if err != nil {
					t.Fatal(err)
				}
				s, err := a.task.Session(handle, 7)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				if c.calls {
					go func() {
						_, err := s.Run(ctx, request(nil, "taken:0"))
						ended <- err
					}()
				}
				time.Sleep(c.rest)
				gone := time.Now()
				a.task.ConnectionClosed(7)
				synctest.Wait()
				if cancel(); c.calls { // the master learns of the connection's end first
					wantError(t, <-ended, status.Cancelled, "")
				}
				if c.short {
					runtime.GC() // so that live memory is known
					tensor.Process.SetLimit(1)
				}
				time.Sleep(time.Until(gone.Add(c.lives - time.Second)))
				if a.task.Sessions() != 1 {
					t.Errorf("the session has ended before %v", c.lives)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if a.task.Sessions() != 0 {
					t.Errorf("the session lives after %v", c.lives)
				}
				tensor.Process.SetLimit(0)
			})
		})
	}
}

// TestExpiredSessions: beyond the bound, the oldest are forgotten.
func TestExpiredSessions(t *testing.T) {
	e := expiredSessions{since: recent.NewMap[string, expiry](rememberedSessions)}
	const beyond = 10
	for i := range rememberedSessions + beyond {
		e.add(fmt.Sprint(i), "")
	}
	for i := range rememberedSessions + beyond {
		if _, known := e.at(fmt.Sprint(i)); known != (i >= beyond) {
			t.Fatalf("session %d of %d: %v", i, rememberedSessions+beyond, known)
		}
	}
	if n := e.since.Len(); n != rememberedSessions {
		t.Errorf("%d are remembered", n)
	}
}

// TestLateNewsOfAConnection: a session whose client's connection ended before the session existed, or before the last call over it was
// noted, still ends with its lease.
func TestLateNewsOfAConnection(t *testing.T) {
	net := newNetwork(t, "a")
	net.lease = 0
	net.node(taskName("a")).stop(context.Background())
	a := net.start("a")
	a.task.ConnectionClosed(7)
	handle, err := a.task.CreateSession(t.Context(), 7, everything, kernelstest.GraphDef(t, arithmetic), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.task.ConnectionClosed(8)
	if _, err := a.task.Session(handle, 8); err != nil && status.CodeOf(err) != status.Aborted {
		t.Fatal(err)
	}
	until(t, "the session is closed", func() bool { return a.task.Sessions() == 0 })
}

// TestDirectory opens sessions on two tasks that find the same variable, which nothing pins.
func TestDirectory(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	const text = `
		v = VarHandleOp() shared_name="shared" container="box"
		x = Placeholder()
		init = AssignVariableOp(v, x)
		read = ReadVariableOp(v)`
	on := func(job string) *client { return open(t, net.node(taskName(job)), text) }
	first, second := on("a"), on("b")
	first.run(request(map[string]int64{"x:0": 4}, "!init"))
	second.run(request(nil, "read:0"), 4)
	second.run(request(map[string]int64{"x:0": 5}, "!init"))
	first.run(request(nil, "read:0"), 5)
	home := first.session.graph.Load().Lookup("v").Assigned
	if other := second.session.graph.Load().Lookup("v").Assigned; home != other || home != first.node.device.Name() {
		t.Errorf("the variable lives on %s and on %s", home, other)
	}
	if err := net.node(taskName("c")).task.Reset(t.Context(), []string{"box"}, "a test", nil); err != nil {
		t.Fatal(err)
	}
	_, err := first.try(t.Context(), request(nil, "read:0"))
	wantError(t, err, status.FailedPrecondition, "{{node read}}")
	// The name is free again: the next claimer's device becomes its home.
	third := on("c")
	if home := third.session.graph.Load().Lookup("v").Assigned; home != third.node.device.Name() {
		t.Errorf("after a reset the variable lives on %s", home)
	}
	third.run(request(map[string]int64{"x:0": 6}, "!init"))
	third.run(request(nil, "read:0"), 6)

	if err := third.node.task.Reset(t.Context(), nil, "a test", nil); err != nil {
		t.Fatal(err)
	}
	_, err = third.try(t.Context(), request(nil, "read:0"))
	wantError(t, err, status.FailedPrecondition, "Session is closed.")
	if n := third.node.task.Sessions(); n != 0 {
		t.Errorf("%d sessions after a reset", n)
	}
	on("a").run(request(nil, "read:0"), 6) // its container is a named one, which the reset left alone
}

// TestPartialRunsAtOnce checks that partial runs which are set up at the same time do not exceed the limit, and that those that do not begin leave their places.
func TestPartialRunsAtOnce(t *testing.T) {
	c := open(t, newNetwork(t, "a").node(taskName("a")), staged)
	defer c.close()
	c.session.mu.Lock()
	for i := range maxPartials - 1 {
		c.session.partials[fmt.Sprint(i)] = nil
	}
	c.session.mu.Unlock()
	if _, err := c.session.PartialSetup(t.Context(), []string{"a:0"}, []string{"missing:0"}, nil); status.CodeOf(err) == status.OK {
		t.Error("a partial run of a missing tensor was set up")
	}
	const calls = 32
	results := make(chan error, calls)
	for range calls {
		go func() {
			_, err := c.session.PartialSetup(t.Context(), []string{"a:0", "b:0"}, []string{"ab:0"}, nil)
			results <- err
		}()
	}
	begun := 0
	for range calls {
		if err := <-results; err == nil {
			begun++
		} else {
			wantError(t, err, status.ResourceExhausted, "partial runs that have not ended")
		}
	}
	if begun != 1 {
		t.Errorf("%d partial runs began in one place", begun)
	}
}
