package troupe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// crew is what the workers of a test have in common.
type crew struct {
	alive atomic.Int64
	mu    sync.Mutex
	got   map[string][]int64 // the numbers that each worker was sent
}

// numbers returns what each worker was sent since the last call.
func (w *crew) numbers() map[string][]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got = map[string][]int64{}
	return got
}

// member is a worker.
type member struct {
	crew *crew
	name string
}

func (m *member) Close() error {
	m.crew.alive.Add(-1)
	return nil
}

// Receive answers with the worker's task and name, at once or after a time. A StringValue makes it fail in some way.
func (m *member) Receive(c *troupe.ActorContext, message any) {
	switch q := message.(type) {
	case *emptypb.Empty:
		c.Reply(wrapperspb.String(m.name))
	case *durationpb.Duration:
		c.After(q.AsDuration(), c.Keep())
	case *troupe.ActorRequest:
		q.Reply(wrapperspb.String(m.name))
	case *wrapperspb.Int64Value:
		m.crew.mu.Lock()
		defer m.crew.mu.Unlock()
		m.crew.got[m.name] = append(m.crew.got[m.name], q.Value)
	case *wrapperspb.StringValue:
		switch q.Value {
		case "panic":
			panic(q.Value)
		case "stop":
			c.Stop()
		default:
			c.Fail(status.Errorf(status.Unavailable, "%s", q.Value))
		}
	}
}

func (w *crew) make(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
	w.alive.Add(1)
	return &member{w, c.Self().String()}, nil
}

// workersOf returns how many workers have answered on each task, after some requests to a pool.
func workersOf(p *troupetest.Probe, pool troupe.ActorRef, requests int) (byTask map[string]int, byWorker map[string]int) {
	byTask, byWorker = map[string]int{}, map[string]int{}
	for range requests {
		name := troupetest.Ask[*wrapperspb.StringValue](p, pool, &emptypb.Empty{}, 20*time.Second).Value
		if byWorker[name]++; byWorker[name] == 1 {
			task, _, _ := strings.Cut(name, "/actor:")
			byTask[strings.TrimPrefix(task, "/job:worker/replica:0/task:")]++
		}
	}
	return byTask, byWorker
}

// withPool starts a cluster with a pool of a crew on ps:0, and waits until it has workers.
func withPool(t *testing.T, workers int, p troupe.Pool, opts ...troupe.ActorOption) (*troupetest.Cluster, *crew, troupe.ActorRef, *troupetest.Probe) {
	t.Helper()
	w := &crew{got: map[string][]int64{}}
	p.Kind, p.Job = "member", "worker"
	// After the end of the cluster, since that is registered later.
	t.Cleanup(func() {
		if n := w.alive.Load(); n != 0 {
			t.Errorf("%d workers are left", n)
		}
	})
	c := troupetest.Start(t, map[string]int{"ps": 2, "worker": workers}, troupe.WithActor("member", w.make), troupe.WithActor("pool", p.Make, opts...))
	pool, err := c.Server("ps:1").Spawn(t.Context(), "pool", troupe.ActorAt("ps:0", "pool"), nil)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // simulated
	return c, w, pool, c.Probe("ps:1", "user")
}

// askFor asks a pool, and returns the answer and its error.
func askFor(t *testing.T, c *troupetest.Cluster, pool troupe.ActorRef, m proto.Message) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	answer, err := troupe.Ask[*wrapperspb.StringValue](ctx, c.Server("ps:1"), pool, m)
	return answer.GetValue(), err
}

func TestPoolPassesRequestsOnInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, pool, p := withPool(t, 3, troupe.Pool{Each: 2})
		byTask, byWorker := workersOf(p, pool, 24)
		if fmt.Sprint(byTask) != "map[0:2 1:2 2:2]" || w.alive.Load() != 6 {
			t.Errorf("%d workers live, and on each task answered %v", w.alive.Load(), byTask)
		}
		for name, n := range byWorker {
			if n != 4 {
				t.Errorf("%s has answered %d of 24 requests", name, n)
			}
		}
	})
}

func TestPoolFollowsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, pool, p := withPool(t, 3, troupe.Pool{Total: 7, Retries: 3})
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() {}, "map[0:3 1:2 2:2]"},
			{func() { c.Kill("worker:1") }, "map[0:4 2:3]"},
			{func() { c.Restart("worker:1") }, "map[0:3 1:2 2:2]"},
			{func() { c.Kill("worker:0"); c.Kill("worker:2") }, "map[1:7]"},
		} {
			step.do()
			time.Sleep(10 * time.Second) // simulated
			if byTask, _ := workersOf(p, pool, 30); fmt.Sprint(byTask) != step.want || w.alive.Load() != 7 {
				t.Errorf("%d workers live, and on each task answered %v, not %s", w.alive.Load(), byTask, step.want)
			}
		}
	})
}

func TestPoolRetriesRequestsOfLostWorkers(t *testing.T) {
	for _, retries := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			c, _, pool, _ := withPool(t, 2, troupe.Pool{Each: 2, Retries: retries, Route: troupe.LeastLoaded})
			answers, errs := make([]string, 8), make([]error, 8)
			var wg sync.WaitGroup
			for i := range answers {
				wg.Go(func() { answers[i], errs[i] = askFor(t, c, pool, durationpb.New(10*time.Second)) })
			}
			time.Sleep(time.Second) // simulated
			c.Kill("worker:0")
			wg.Wait()
			lost := 0
			for i, err := range errs {
				switch {
				case err != nil && status.CodeOf(err) != status.Unavailable:
					t.Errorf("%v, not UNAVAILABLE", err)
				case err != nil:
					lost++
				case !strings.Contains(answers[i], "task:1"):
					t.Errorf("%s has answered", answers[i])
				}
			}
			if want := 4 * (1 - retries); lost != want {
				t.Errorf("with %d retries, %d of 8 requests were lost, not %d", retries, lost, want)
			}
		})
	}
}

func TestPoolRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, pool, p := withPool(t, 2, troupe.Pool{Each: 2, Retries: 2})
		if _, err := askFor(t, c, pool, wrapperspb.String("panic")); status.CodeOf(err) != status.Internal {
			t.Errorf("a request that makes each worker panic ended with %v", err)
		}
		if n := w.alive.Load(); n != 1 {
			t.Errorf("%d workers live on after three failures", n)
		}
		if _, err := askFor(t, c, pool, wrapperspb.String("no disk")); status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "no disk") {
			t.Errorf("the worker's own failure became %v", err)
		}
		time.Sleep(time.Second) // simulated
		if byTask, _ := workersOf(p, pool, 8); fmt.Sprint(byTask) != "map[0:2 1:2]" {
			t.Errorf("after the failures, on each task answered %v", byTask)
		}
		if _, err := askFor(t, c, pool, wrapperspb.String("stop")); err == nil {
			t.Error("a worker that has ended answered")
		}
		time.Sleep(time.Minute) // simulated
		if n := w.alive.Load(); n != 1 {
			t.Errorf("%d workers live: three ended themselves, and are not to be replaced", n)
		}
	})
}

func TestPoolReplacesWorkersAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, pool, _ := withPool(t, 1, troupe.Pool{Each: 1, Backoff: time.Second, MaxBackoff: 4 * time.Second})
		for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			if _, err := askFor(t, c, pool, wrapperspb.String("panic")); status.CodeOf(err) != status.Internal {
				t.Fatal(err)
			}
			failed := time.Now()
			if _, err := askFor(t, c, pool, &emptypb.Empty{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(failed); took < wait || took > wait+time.Second/2 {
				t.Errorf("the worker was replaced after %v, not %v", took, wait)
			}
		}
		if n := w.alive.Load(); n != 1 {
			t.Errorf("%d workers live", n)
		}
	})
}

func TestPoolByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(m any) string { return fmt.Sprint(m.(*wrapperspb.Int64Value).Value % 50) }
		c, w, pool, p := withPool(t, 3, troupe.Pool{Each: 2, Key: key})
		owners := func() map[int64]string {
			for i := range int64(500) {
				p.Send(pool, wrapperspb.Int64(i))
			}
			time.Sleep(time.Second) // simulated
			all := map[int64]string{}
			total := 0
			for name, numbers := range w.numbers() {
				total += len(numbers)
				byKey := map[int64]int64{}
				for _, n := range numbers {
					if last, ok := byKey[n%50]; ok && n < last || all[n%50] != "" && all[n%50] != name {
						t.Errorf("%s got %d after %d; the key is also of %s", name, n, last, all[n%50])
					}
					byKey[n%50], all[n%50] = n, name
				}
			}
			if total != 500 || len(all) != 50 {
				t.Errorf("%d messages of %d keys arrived", total, len(all))
			}
			return all
		}
		before := owners()
		c.Kill("worker:1")
		time.Sleep(5 * time.Second) // simulated
		moved := 0
		for key, name := range owners() {
			if lost := strings.Contains(before[key], "task:1"); lost != (name != before[key]) {
				t.Errorf("the key %d was of %s and is of %s", key, before[key], name)
			} else if lost {
				moved++
			}
		}
		if moved == 0 {
			t.Error("no key was on the lost task")
		}
	})
}

func TestPoolPrefersIdleWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, pool, p := withPool(t, 2, troupe.Pool{Each: 1, Route: troupe.LeastLoaded})
		slow := make(chan string)
		go func() {
			name, _ := askFor(t, c, pool, durationpb.New(time.Minute))
			slow <- name
		}()
		time.Sleep(time.Second) // simulated
		_, byWorker := workersOf(p, pool, 10)
		if busy := <-slow; len(byWorker) != 1 || byWorker[busy] != 0 {
			t.Errorf("%s was busy, and the requests went to %v", busy, byWorker)
		}
	})
}

func TestPoolToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, pool, p := withPool(t, 3, troupe.Pool{Each: 2, Route: troupe.ToAll})
		for i := range int64(10) {
			p.Send(pool, wrapperspb.Int64(i))
		}
		time.Sleep(time.Second) // simulated
		all := w.numbers()
		if len(all) != 6 {
			t.Errorf("%d workers got the messages", len(all))
		}
		for name, got := range all {
			if !slices.Equal(got, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
				t.Errorf("%s got %v", name, got)
			}
		}
		if _, err := askFor(t, c, pool, &emptypb.Empty{}); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("an Ask of a pool that passes messages to all: %v", err)
		}
	})
}

func TestPoolLetsRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, pool, p := withPool(t, 1, troupe.Pool{Each: 1, InFlight: 2, Waiting: 3, WaitLimit: 5 * time.Second})
		codes := func(hold time.Duration, n int) string {
			all := make([]string, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					_, err := askFor(t, c, pool, durationpb.New(hold))
					all[i] = status.CodeOf(err).String()
				})
			}
			wg.Wait()
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		for _, q := range []struct {
			hold time.Duration
			n    int
			want string
		}{
			{time.Second, 5, "OK OK OK OK OK"},
			{time.Second, 6, "OK OK OK OK OK RESOURCE_EXHAUSTED"},
			{7 * time.Second, 3, "OK OK RESOURCE_EXHAUSTED"},
			{70 * time.Second, 2, "DEADLINE_EXCEEDED DEADLINE_EXCEEDED"},
		} {
			if got := codes(q.hold, q.n); got != q.want {
				t.Errorf("%d requests of %v: %s, not %s", q.n, q.hold, got, q.want)
			}
		}
		c.Kill("worker:0")
		time.Sleep(5 * time.Second) // simulated
		start := time.Now()
		if got := codes(0, 4); got != "UNAVAILABLE UNAVAILABLE UNAVAILABLE UNAVAILABLE" || time.Since(start) != 5*time.Second {
			t.Errorf("without workers: %s after %v", got, time.Since(start))
		}
		p.Send(pool, wrapperspb.Int64(1))
		p.Send(pool, wrapperspb.Int64(2))
		c.Restart("worker:0")
		time.Sleep(4 * time.Second) // simulated
		var got []int64
		for _, numbers := range w.numbers() {
			got = append(got, numbers...)
		}
		if !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("of the messages that waited, %v arrived", got)
		}
	})
}

// A request that waits until its time has passed says so. The limit of the wait is longer, and holds for messages that nobody waits for.
func TestPoolEndsRequestsThatTakeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, pool, p := withPool(t, 1, troupe.Pool{Each: 1, Timeout: 2 * time.Second, WaitLimit: time.Minute})
		c.Kill("worker:0")
		time.Sleep(5 * time.Second) // simulated
		start := time.Now()
		p.Send(pool, wrapperspb.Int64(1))
		if _, err := askFor(t, c, pool, &emptypb.Empty{}); status.CodeOf(err) != status.DeadlineExceeded || !strings.Contains(err.Error(), "has no workers that are up: the request has taken 2s") ||
			time.Since(start) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		c.Restart("worker:0")
		time.Sleep(5 * time.Second) // simulated
		if got := w.numbers(); len(got) != 1 {
			t.Errorf("of the message that waited, %v arrived", got)
		}
	})
}

// A request whose requester has given up while it waited does not get a worker.
func TestPoolDropsRequestsThatWereGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, pool, p := withPool(t, 1, troupe.Pool{Each: 1, InFlight: 1, WaitLimit: time.Hour, Timeout: time.Hour})
		start := time.Now()
		var asking sync.WaitGroup
		ask := func(hold, within, want time.Duration) {
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				if _, err := troupe.Ask[*wrapperspb.StringValue](ctx, c.Server("ps:1"), pool, durationpb.New(hold)); (err == nil) != (want < within) || time.Since(start).Truncate(time.Second) != want {
					t.Errorf("a request of %v that waits for %v, after %v: %v", hold, within, time.Since(start), err)
				}
			})
			synctest.Wait()
		}
		const s = time.Second
		ask(10*s, time.Hour, 10*s)
		ask(20*s, 2*s, 2*s)
		ask(s, time.Hour, 11*s)
		ask(20*s, 3*s, 3*s)
		asking.Wait()
		if troupetest.Ask[*wrapperspb.StringValue](p, pool, &emptypb.Empty{}, 2*s); time.Since(start) >= 12*s {
			t.Errorf("the worker was idle only after %v", time.Since(start))
		}
	})
}

// A requester that gives up after a worker has begun ends the context of the worker, which gets the next request.
func TestPoolWithdrawsRequestsThatWereGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []time.Duration
		var mu sync.Mutex
		var start time.Time
		worker := troupe.Stateless(troupe.Handle(func(c *troupe.ActorContext, _ *durationpb.Duration) {
			r := c.Keep()
			context.AfterFunc(r.Context(), func() {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, time.Since(start))
			})
		}), troupe.Answer(func(c *troupe.ActorContext, _ *emptypb.Empty) (*wrapperspb.StringValue, error) {
			return wrapperspb.String(c.Self().Task()), nil
		}))
		pool := troupe.Pool{Kind: "worker", Job: "worker", Total: 1, InFlight: 1, Retries: 3, WaitLimit: time.Hour, Timeout: time.Hour}
		c := troupetest.Start(t, map[string]int{"ps": 2, "worker": 1}, troupe.WithActor("worker", worker), troupe.WithActor("pool", pool.Make))
		at, err := c.Server("ps:0").Spawn(t.Context(), "pool", troupe.ActorAt("", "pool"), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // simulated
		start = time.Now()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := troupe.Ask[*emptypb.Empty](ctx, c.Server("ps:1"), at, durationpb.New(0))
			cancel()
			if status.CodeOf(err) != status.DeadlineExceeded {
				t.Errorf("a request that nobody answers: %v", err)
			}
		}
		if _, err := troupe.Ask[*wrapperspb.StringValue](t.Context(), c.Server("ps:1"), at, &emptypb.Empty{}); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if took := time.Since(start).Truncate(time.Second); took != 4*time.Second || len(ended) != 2 || ended[0].Truncate(time.Second) != 2*time.Second || ended[1].Truncate(time.Second) != 4*time.Second {
			t.Errorf("the request after two that were given up was answered after %v; their contexts ended after %v", took, ended)
		}
	})
}

// Messages that wait without a worker do not wait for requests before them to be answered.
func TestPoolLetsMessagesPassRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, pool, p := withPool(t, 1, troupe.Pool{Each: 1, InFlight: 1, WaitLimit: time.Minute})
		c.Kill("worker:0")
		time.Sleep(5 * time.Second) // simulated
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := askFor(t, c, pool, durationpb.New(10*time.Second)); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second) // simulated
		p.Send(pool, wrapperspb.Int64(1))
		p.Send(pool, wrapperspb.Int64(2))
		c.Restart("worker:0")
		time.Sleep(4 * time.Second) // simulated
		for name, got := range w.numbers() {
			if !slices.Equal(got, []int64{1, 2}) {
				t.Errorf("%s got %v", name, got)
			}
		}
		wg.Wait()
		if n := len(w.numbers()); n != 0 {
			t.Errorf("%d workers got messages late", n)
		}
	})
}

func TestPoolOutlivesCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, pool, p := withPool(t, 2, troupe.Pool{Each: 2, Retries: 2})
		c.Cut("ps:0", "worker:0")
		for range 20 {
			if name, err := askFor(t, c, pool, &emptypb.Empty{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.Sleep(time.Minute) // simulated
		if n := w.alive.Load(); n != 2 {
			t.Errorf("%d workers live during the cut", n)
		}
		c.Heal("ps:0", "worker:0")
		time.Sleep(30 * time.Second) // simulated
		if byTask, _ := workersOf(p, pool, 12); fmt.Sprint(byTask) != "map[0:2 1:2]" || w.alive.Load() != 4 {
			t.Errorf("%d workers live, and on each task answered %v", w.alive.Load(), byTask)
		}
	})
}

func TestPoolEndsItsWorkers(t *testing.T) {
	for name, end := range map[string]func(c *troupetest.Cluster, pool troupe.ActorRef) error{
		"ended": func(c *troupetest.Cluster, pool troupe.ActorRef) error {
			return c.Server("ps:1").EndActor(context.Background(), pool)
		},
		"killed": func(c *troupetest.Cluster, _ troupe.ActorRef) error { c.Kill("ps:0"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, w, pool, _ := withPool(t, 3, troupe.Pool{Each: 3})
				if n := w.alive.Load(); n != 9 {
					t.Errorf("%d workers live", n)
				}
				if err := end(c, pool); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // simulated
				if n := w.alive.Load(); n != 0 {
					t.Errorf("%d workers outlive their pool", n)
				}
			})
		})
	}
}

func TestPoolRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(m any) string {
			if s, ok := m.(*wrapperspb.StringValue); ok {
				panic(s.Value)
			}
			return ""
		}
		c, w, pool, _ := withPool(t, 2, troupe.Pool{Each: 2, Key: key}, troupe.Restart{})
		if _, err := askFor(t, c, pool, wrapperspb.String("a bug")); status.CodeOf(err) != status.Internal {
			t.Errorf("%v", err)
		}
		if _, err := askFor(t, c, pool, &emptypb.Empty{}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // simulated
		if n := w.alive.Load(); n != 4 {
			t.Errorf("%d workers live after the restart", n)
		}
	})
}

func TestVirtualPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &crew{}
		pool := troupe.VirtualActor("pool", "images")
		c := troupetest.Start(t, map[string]int{"ps": 2, "worker": 2}, troupe.WithActor("member", w.make),
			troupe.WithActor("pool", troupe.Pool{Kind: "member", Job: "worker", Each: 2}.Make, troupe.Virtual{Job: "ps"}))
		user := c.Probe("worker:0", "user")
		workersOf(user, pool, 1)    // begins the pool
		time.Sleep(3 * time.Second) // simulated
		byTask, _ := workersOf(user, pool, 12)
		if fmt.Sprint(byTask) != "map[0:2 1:2]" {
			t.Errorf("on each task answered %v", byTask)
		}
		time.Sleep(time.Hour) // simulated
		if n := w.alive.Load(); n != 0 {
			t.Errorf("%d workers outlive the idle pool", n)
		}
	})
}

func TestPoolIsChecked(t *testing.T) {
	for _, p := range []troupe.Pool{
		{Each: 1}, {Kind: "a"}, {Kind: "a", Each: 1, Total: 1}, {Kind: "a", Each: -1, Total: 1}, {Kind: "a", Each: 5000}, {Kind: "a", Each: 1, Route: 7},
		{Kind: "a", Each: 1, Route: troupe.ToAll, Key: func(any) string { return "" }}, {Kind: "a", Each: 1, Retries: -1}, {Kind: "a", Total: 1, Timeout: -1},
	} {
		if _, err := p.Make(nil, nil); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "Pool") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
