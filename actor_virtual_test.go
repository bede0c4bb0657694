package troupe_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// newCounting makes virtual actors that count their messages, and answer with their task, identity and count.
func newCounting(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
	n := 0
	return troupe.Handlers(troupe.Handle(func(c *troupe.ActorContext, _ *emptypb.Empty) {
		n++
		c.Reply(wrapperspb.String(fmt.Sprint(c.Node().Task(), " ", c.Self().Name(), " ", n)))
	})), nil
}

// home asks a virtual actor, and returns the task that it lives on and its count.
func home(t testing.TB, s *troupe.Server, identity string) (task string, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := troupe.Ask[*wrapperspb.StringValue](ctx, s, troupe.VirtualActor("counting", identity), &emptypb.Empty{})
	if err != nil {
		t.Fatalf("%s: %v", identity, err)
	}
	var name string
	if _, err := fmt.Sscan(answer.Value, &task, &name, &count); err != nil || name != identity {
		t.Fatalf("the answer of %s is %q", identity, answer.Value)
	}
	return task, count
}

func TestVirtualActorsLiveOnOneTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 3}, troupe.WithActor("counting", newCounting, troupe.Virtual{Job: "worker"}))
		homes, tasks := map[string]string{}, map[string]bool{}
		for round, from := range []string{"ps:0", "worker:0", "worker:2"} {
			for i := range 30 {
				id := fmt.Sprint("id", i)
				task, count := home(t, c.Server(from), id)
				if round > 0 && homes[id] != task || count != round+1 {
					t.Fatalf("%s lives on %s with the count %d, and lived on %s", id, task, count, homes[id])
				}
				homes[id], tasks[task] = task, true
			}
		}
		if len(tasks) != 3 || tasks["/job:ps/replica:0/task:0"] {
			t.Errorf("the actors live on %v, not on the three workers", tasks)
		}
	})
}

func TestVirtualActorsMoveWhenTheirTaskIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 3}, troupe.WithActor("counting", newCounting, troupe.Virtual{Job: "worker"}))
		before := map[string]string{}
		for i := range 30 {
			id := fmt.Sprint("id", i)
			before[id], _ = home(t, c.Server("ps:0"), id)
		}
		c.Kill("worker:1")
		start := time.Now()
		moved := 0
		for id, task := range before {
			now, count := home(t, c.Server("ps:0"), id)
			lost := strings.HasSuffix(task, "task:1")
			switch {
			case lost && (now == task || count != 1):
				t.Errorf("%s lives on %s, which is lost, with the count %d", id, now, count)
			case !lost && (now != task || count != 2):
				t.Errorf("%s has moved from %s to %s, with the count %d", id, task, now, count)
			case lost:
				moved++
			}
		}
		if took := time.Since(start); moved == 0 || took > 5*time.Second {
			t.Errorf("%d actors moved in %v", moved, took)
		}
		c.Restart("worker:1")
		for range 100 {
			back := 0
			for id, task := range before {
				if now, _ := home(t, c.Server("ps:0"), id); now == task {
					back++
				}
			}
			if back == len(before) {
				return
			}
			time.Sleep(200 * time.Millisecond) // simulated
		}
		t.Error("the actors of the lost task did not return to it")
	})
}

func TestVirtualActorsEndWithoutAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"worker": 3}, troupe.WithActor("counting", newCounting, troupe.Virtual{}))
		for i := range 10 {
			home(t, c.Server("worker:0"), fmt.Sprint("id", i))
		}
		c.Cut("worker:2", "worker:0")
		c.Cut("worker:2", "worker:1")
		time.Sleep(10 * time.Second) // simulated
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := troupe.Ask[*wrapperspb.StringValue](ctx, c.Server("worker:2"), troupe.VirtualActor("counting", "id1"), &emptypb.Empty{})
		if took := time.Since(start); status.CodeOf(err) != status.Unavailable || took > 20*time.Second {
			t.Errorf("a task without a majority answered %v after %v", err, took)
		}
		for i := range 10 {
			if task, _ := home(t, c.Server("worker:0"), fmt.Sprint("id", i)); strings.HasSuffix(task, "task:2") {
				t.Errorf("id%d lives on the task that is cut off", i)
			}
		}
	})
}

func TestVirtualActorsEndWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"worker": 2}, troupe.WithActor("counting", newCounting, troupe.Virtual{Idle: time.Minute}))
		s := c.Server("worker:0")
		for want := 1; want <= 3; want++ {
			if _, count := home(t, s, "a"); count != want {
				t.Fatalf("the count is %d, not %d", count, want)
			}
			time.Sleep(50 * time.Second) // simulated
		}
		time.Sleep(time.Minute)
		if _, count := home(t, s, "a"); count != 1 {
			t.Errorf("the count after a minute without messages is %d, not 1", count)
		}
	})
}

func TestVirtualActorsThatAlwaysLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan string, 10)
		c := troupetest.Start(t, map[string]int{"worker": 3}, troupe.WithActor("only", func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
			begun <- c.Node().Task()
			return troupe.ActorFunc(func(*troupe.ActorContext, any) {}), nil
		}, troupe.Virtual{Always: []string{"one"}}))
		first := <-begun
		c.Kill(first)
		select {
		case second := <-begun:
			if second == first {
				t.Errorf("the singleton began on %s, which is lost", second)
			}
		case <-time.After(8 * time.Second):
			t.Error("the singleton did not begin again")
		}
		time.Sleep(time.Hour) // simulated
		if len(begun) > 0 {
			t.Errorf("a second singleton began on %s", <-begun)
		}
	})
}

func TestVirtualActorsAreHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 2}, troupe.WithActor("counting", newCounting, troupe.Virtual{Job: "worker"}))
		ps := c.Server("ps:0")
		var id string
		for i := 0; id == ""; i++ {
			if task, _ := home(t, ps, fmt.Sprint("id", i)); strings.HasSuffix(task, "task:1") {
				id = fmt.Sprint("id", i)
			}
		}
		if err := c.Server("worker:1").Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if task, count := home(t, ps, id); !strings.HasSuffix(task, "task:0") || count != 1 {
			t.Errorf("%s lives on %s with the count %d", id, task, count)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("an actor of a task that had stopped in order began %v later", took)
		}
	})
}

// TestVirtualActorsAvoidATaskThatStopped stops a task that has no virtual actor: none begins late because it would live there.
func TestVirtualActorsAvoidATaskThatStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 2}, troupe.WithActor("counting", newCounting, troupe.Virtual{Job: "worker"}))
		ps := c.Server("ps:0")
		for i := 0; ; i++ { // until there is a view
			if task, _ := home(t, ps, fmt.Sprint("first", i)); strings.HasSuffix(task, "task:0") {
				break
			}
		}
		if err := c.Server("worker:1").Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for i := range 20 {
			home(t, ps, fmt.Sprint("id", i))
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("actors began %v after a task had stopped in order", took)
		}
	})
}

func TestVirtualActorsAreNotSpawnedOrWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"worker": 1}, troupe.WithActor("counting", newCounting, troupe.Virtual{}))
		s := c.Server("worker:0")
		for what, do := range map[string]func() error{
			"Spawn of the kind": func() error {
				_, err := s.Spawn(t.Context(), "counting", troupe.ActorAt("", "a"), nil)
				return err
			},
			"Spawn of an identity": func() error {
				_, err := s.Spawn(t.Context(), "counting", troupe.VirtualActor("counting", "a"), nil)
				return err
			},
			"WatchActor": func() error {
				_, err := s.WatchActor(t.Context(), troupe.VirtualActor("counting", "a"))
				return err
			},
			"an identity with a space": func() error {
				return s.Send(t.Context(), troupe.VirtualActor("counting", "a b"), &emptypb.Empty{})
			},
		} {
			if err := do(); status.CodeOf(err) != status.InvalidArgument {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := s.Send(t.Context(), troupe.VirtualActor("other", "a"), &emptypb.Empty{}); status.CodeOf(err) != status.NotFound {
			t.Errorf("a kind that the program does not have: %v", err)
		}
	})
}

// TestVirtualActorsOneLifeAtATime asks virtual actors from all tasks while the network parts and heals, and processes freeze, die and start
// again. It checks that no life of an identity handles a message after a later one has begun to.
func TestVirtualActorsOneLifeAtATime(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var lives int64
			handled := map[string][]int64{} // by identity, the life of each message
			c := troupetest.Start(t, map[string]int{"worker": 5}, troupe.WithActor("logging", func(*troupe.ActorContext, any) (troupe.Actor, error) {
				life := atomic.AddInt64(&lives, 1)
				return troupe.ActorFunc(func(c *troupe.ActorContext, _ any) {
					mu.Lock()
					handled[c.Self().Name()] = append(handled[c.Self().Name()], life)
					mu.Unlock()
					c.Reply(&emptypb.Empty{})
				}), nil
			}, troupe.Virtual{Idle: 20 * time.Second}), troupe.WithLogger(slog.New(slog.DiscardHandler)))
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			var work sync.WaitGroup
			for i := range 5 {
				work.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						one, cancel := context.WithTimeout(ctx, time.Second)
						// Errors are expected: it asks servers that are dead and cut off, too.
						_, err := troupe.Ask[*emptypb.Empty](one, c.Server(fmt.Sprint("worker:", i)), troupe.VirtualActor("logging", fmt.Sprint("id", n%20)), &emptypb.Empty{})
						cancel()
						pause := 50 * time.Millisecond
						if err != nil {
							pause *= 2
						}
						time.Sleep(pause) // simulated
					}
				})
			}
			disturb(ctx, c, rand.New(rand.NewPCG(seed, 7)))
			work.Wait()
			mu.Lock() // actors may still handle messages
			defer mu.Unlock()
			answers := 0
			for id, by := range handled {
				answers += len(by)
				over, last := map[int64]bool{}, int64(0)
				for _, life := range by {
					if life != last {
						over[last], last = true, life
					}
					if over[life] {
						t.Errorf("seed %d: a life of %s handled a message after a later one had begun: %v", seed, id, by)
						break
					}
				}
			}
			if answers < 1000 || lives < 40 {
				t.Errorf("seed %d: %d messages were handled in %d lives, which shows little", seed, answers, lives)
			}
		})
	}
}

// disturb does random things to a cluster of five workers until ctx ends.
func disturb(ctx context.Context, c *troupetest.Cluster, random *rand.Rand) {
	worker := func() string { return fmt.Sprint("worker:", random.IntN(5)) }
	pairs := func(f func(a, b string)) {
		for a := range 5 {
			for b := range a {
				f(fmt.Sprint("worker:", a), fmt.Sprint("worker:", b))
			}
		}
	}
	for ctx.Err() == nil {
		switch random.IntN(4) {
		case 0:
			w := worker()
			c.Kill(w)
			c.Restart(w)
		case 1:
			side := random.IntN(32)
			pairs(func(a, b string) {
				if side>>(a[7]-'0')&1 != side>>(b[7]-'0')&1 {
					c.Cut(a, b)
				}
			})
		case 2:
			w := worker()
			c.Freeze(w)
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(random.IntN(6000)) * time.Millisecond):
			}
			c.Thaw(w)
		case 3:
			pairs(c.Heal)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.IntN(8000)) * time.Millisecond):
		}
	}
	pairs(c.Heal)
}

func TestClientsReachVirtualActors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"worker": 2}, troupe.WithActor("counting", newCounting, troupe.Virtual{}))
		outside := c.Dial("worker:0")
		for i := range 10 {
			a := outside.Actor("/kind:counting", fmt.Sprint("id", i))
			if err := a.Send(t.Context(), &emptypb.Empty{}); err != nil {
				t.Fatal(err)
			}
			answer, err := client.Ask[*wrapperspb.StringValue](t.Context(), a, &emptypb.Empty{})
			if err != nil || !strings.HasSuffix(answer.Value, fmt.Sprintf(" id%d 2", i)) {
				t.Errorf("a client got %v, %v", answer, err)
			}
			text, err := a.AskJSON(t.Context(), `{"@type": "google.protobuf.Empty"}`)
			if err != nil || !strings.Contains(text, fmt.Sprintf(" id%d 3", i)) {
				t.Errorf("a client got %s, %v", text, err)
			}
		}
	})
}

// BenchmarkVirtualActors is BenchmarkActors with virtual actors.
func BenchmarkVirtualActors(b *testing.B) {
	newSum := func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
		sum := int64(0)
		return troupe.Handlers(
			troupe.Handle(func(_ *troupe.ActorContext, m *wrapperspb.Int64Value) { sum += m.Value }),
			troupe.Handle(func(c *troupe.ActorContext, _ *emptypb.Empty) { c.Reply(wrapperspb.Int64(sum)) }),
			troupe.Handle(func(c *troupe.ActorContext, _ *wrapperspb.BoolValue) { c.Reply(wrapperspb.String(c.Node().Task())) }),
		), nil
	}
	cluster := troupe.ClusterSpec{"w": spectest.Addresses(b, 2)}
	var all []*troupe.Server
	for i := range 2 {
		s, err := troupe.NewServer(b.Context(), cluster, troupe.WithTask(i), troupe.WithLending(false), troupe.WithLogger(slog.New(slog.DiscardHandler)),
			troupe.WithActor("sum", newSum, troupe.Virtual{}))
		if err != nil {
			b.Fatal(err)
		}
		defer s.Stop(context.Background())
		all = append(all, s)
	}
	identities := map[string]string{}
	for i := 0; len(identities) < 2; i++ {
		id := fmt.Sprint("id", i)
		task, err := troupe.Ask[*wrapperspb.StringValue](b.Context(), all[0], troupe.VirtualActor("sum", id), wrapperspb.Bool(true))
		if err != nil {
			b.Fatal(err)
		}
		identities[task.Value] = id
	}
	for name, on := range map[string]*troupe.Server{"same task": all[0], "other task": all[1]} {
		troupe.MeasureActor(b, all[0], name, troupe.VirtualActor("sum", identities[on.Task()]))
	}
}

// TestClientsBeginHalf checks that the messages of one client begin half of the actors that a task may have, whichever task it asks, and that the program's
// begin the rest.
func TestClientsBeginHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 6
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 1}, troupe.WithActor("counting", newCounting, troupe.Virtual{Job: "worker"}), troupe.WithActorLimit(limit))
		home(t, c.Server("ps:0"), "own")
		for i, from := range []*troupe.Client{c.Dial("worker:0"), c.Dial("ps:0"), c.Dial("worker:0"), c.Dial("ps:0")} { // from one address
			_, err := client.Ask[*wrapperspb.StringValue](t.Context(), from.Actor("/kind:counting", fmt.Sprint("client", i)), &emptypb.Empty{})
			refused := status.CodeOf(err) == status.ResourceExhausted && strings.Contains(err.Error(), "because of the client")
			if i < limit/2 && err != nil || i == limit/2 && !refused {
				t.Errorf("actor %d of a client: %v", i, err)
			}
		}
		for _, identity := range []string{"client3", "other"} { // the first of them is the one that the client was refused
			home(t, c.Server("ps:0"), identity)
		}
	})
}
