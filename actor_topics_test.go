package troupe_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A program subscribes to a topic, and an actor of any task publishes.
func ExampleServer_Subscribe() {
	ctx, cancel := context.WithCancel(context.Background())
	newThermometer := func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
		return troupe.Handlers(troupe.Handle(func(c *troupe.ActorContext, m *wrapperspb.DoubleValue) {
			if m.Value > 30 {
				if err := c.Publish("weather/heat", m); err != nil {
					log.Print(err)
				}
			}
		})), nil
	}
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("thermometer", newThermometer), troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(context.Background())

	heat, err := server.Subscribe(ctx, "weather/heat")
	if err != nil {
		log.Fatal(err)
	}
	thermometer, err := server.Spawn(ctx, "thermometer", troupe.ActorRef{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, degrees := range []float64{21, 33, 28, 31} {
		if err := server.Send(ctx, thermometer, wrapperspb.Double(degrees)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println((<-heat).(*wrapperspb.DoubleValue).Value, (<-heat).(*wrapperspb.DoubleValue).Value)
	cancel()
	_, more := <-heat
	fmt.Println(more)
	// Output:
	// 33 31
	// false
}

// readers subscribe to the topic of their arguments, and send each message to the actor editor of worker 0.
var readers = troupe.WithActor("reader", func(c *troupe.ActorContext, arguments any) (troupe.Actor, error) {
	if err := c.Subscribe(arguments.(*wrapperspb.StringValue).Value); err != nil {
		return nil, err
	}
	return troupe.Handlers(troupe.Handle(func(c *troupe.ActorContext, m *wrapperspb.StringValue) {
		if err := c.Send(troupe.ActorAt("worker:0", "editor"), wrapperspb.String(c.Self().Name()+" "+m.Value)); err != nil {
			panic(err)
		}
		if m.Value == "crash" {
			panic("as requested")
		}
	})), nil
}, troupe.Restart{})

// knowsAll waits until each server knows the others to be up: a message to a topic reaches no others.
func knowsAll(t testing.TB, servers ...*troupe.Server) {
	t.Helper()
	for _, s := range servers {
		up := map[string]bool{}
		for task := range s.WatchTasks(t.Context()) {
			if task.State == "up" {
				up[task.Task] = true
			}
			if len(up) == len(servers) {
				break
			}
		}
	}
}

// expectReaders checks who has read a text, in any order.
func expectReaders(t *testing.T, editor *troupetest.Probe, text string, names ...string) {
	t.Helper()
	got := map[string]bool{}
	for range names {
		got[troupetest.Expect[*wrapperspb.StringValue](editor, time.Minute).Value] = true
	}
	for _, name := range names {
		if !got[name+" "+text] {
			t.Errorf("%s has not read %q: %v", name, text, got)
		}
	}
	editor.ExpectNothing(time.Second)
}

// Topics survive restarts of actors and tasks, and links that break or are idle.
func TestTopicsOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"worker": 3}, readers)
		knowsAll(t, c.Servers()...)
		editor := c.Probe("worker:0", "editor")
		reader := func(task int) {
			t.Helper()
			at := troupe.ActorAt(fmt.Sprint("worker:", task), fmt.Sprint("reader", task))
			if _, err := c.Server("worker:0").Spawn(t.Context(), "reader", at, wrapperspb.String("news")); err != nil {
				t.Fatal(err)
			}
		}
		publish := func(task int, text string) {
			t.Helper()
			if err := c.Server(fmt.Sprint("worker:", task)).Publish(t.Context(), "news", wrapperspb.String(text)); err != nil {
				t.Error(err)
			}
		}
		publish(0, "nobody's")
		reader(1)
		reader(2)
		publish(0, "first")
		expectReaders(t, editor, "first", "reader1", "reader2")
		outside := c.Dial("worker:0")
		if err := outside.Publish(t.Context(), "news", wrapperspb.String("from a client")); err != nil {
			t.Error(err)
		}
		expectReaders(t, editor, "from a client", "reader1", "reader2")
		if err := outside.Publish(t.Context(), "the news", wrapperspb.String("")); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("a name that is none: %v", err)
		}
		publish(1, "from a subscriber's task")
		expectReaders(t, editor, "from a subscriber's task", "reader1", "reader2")

		publish(0, "crash")
		expectReaders(t, editor, "crash", "reader1", "reader2")
		publish(0, "after the restart")
		expectReaders(t, editor, "after the restart", "reader1", "reader2")

		time.Sleep(10 * time.Minute) // simulated; links that are not used are closed
		publish(0, "after a while")
		expectReaders(t, editor, "after a while", "reader1", "reader2")

		c.Kill("worker:2")
		publish(0, "one is lost")
		expectReaders(t, editor, "one is lost", "reader1")
		c.Restart("worker:2")
		time.Sleep(5 * time.Second) // simulated; until it is known to be up
		publish(0, "nobody has subscribed there yet")
		expectReaders(t, editor, "nobody has subscribed there yet", "reader1")
		reader(2)
		publish(0, "it is back")
		expectReaders(t, editor, "it is back", "reader1", "reader2")

		c.Cut("worker:0", "worker:1")
		time.Sleep(10 * time.Second) // simulated; until that is known
		publish(0, "one is out of reach")
		expectReaders(t, editor, "one is out of reach", "reader2")
		c.Heal("worker:0", "worker:1")
		time.Sleep(10 * time.Second) // simulated
		publish(0, "all are within reach")
		expectReaders(t, editor, "all are within reach", "reader1", "reader2")
	})
}

// A subscriber on another task that reads nothing makes the publisher wait, once the bounded queues between them are full.
func TestPublishWaitsForASlowTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"worker": 2})
		here, there := c.Server("worker:0"), c.Server("worker:1")
		knowsAll(t, here, there)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		messages, err := there.Subscribe(ctx, "news")
		if err != nil {
			t.Fatal(err)
		}
		sent := int64(0)
		for ; ; sent++ {
			within, cancel := context.WithTimeout(t.Context(), time.Second)
			err := here.Publish(within, "news", wrapperspb.Int64(sent))
			cancel()
			if status.CodeOf(err) == status.DeadlineExceeded {
				break
			}
			if err != nil || sent > 4*troupe.MaxActorQueue {
				t.Fatal(sent, err)
			}
		}
		if err := here.TryPublish(t.Context(), "news", wrapperspb.Int64(0)); status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("TryPublish: %v", err)
		}
		for n := range sent {
			if got := (<-messages).(*wrapperspb.Int64Value).Value; got != n {
				t.Fatalf("message %d is %d", n, got)
			}
		}
		if err := here.Publish(t.Context(), "news", wrapperspb.Int64(sent)); err != nil {
			t.Error(err)
		}
		if got := (<-messages).(*wrapperspb.Int64Value).Value; got != sent {
			t.Errorf("message %d is %d", sent, got)
		}
		cancel()
		if _, more := <-messages; more {
			t.Error("the channel is open")
		}
	})
}

// While links break and tasks freeze, each message arrives at most once, and those of a publisher in their order. Once all is well again, each one
// arrives everywhere.
func TestTopicsInPartitions(t *testing.T) {
	runs := 10
	if extent.Check() && !extent.RaceDetector {
		runs = 100
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			const tasks = 3
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			c := troupetest.Start(t, map[string]int{"worker": tasks})
			name := func(i int) string { return fmt.Sprint("worker:", i) }
			ctx, cancel := context.WithCancel(t.Context())
			var work sync.WaitGroup
			var mu sync.Mutex
			var last [tasks][tasks]int64 // by subscriber and publisher
			for i := range tasks {
				messages, err := c.Server(name(i)).Subscribe(ctx, "news")
				if err != nil {
					t.Fatal(err)
				}
				work.Go(func() {
					for m := range messages {
						n := m.(*wrapperspb.Int64Value).Value
						mu.Lock()
						if before := &last[i][n%tasks]; n > *before {
							*before = n
						} else {
							t.Errorf("seed %d: task %d got message %d of task %d after %d", seed, i, n, n%tasks, *before)
						}
						mu.Unlock()
					}
				})
			}
			sent := [tasks]int64{0, 1, 2}
			publish := func(i int) error {
				within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				sent[i] += tasks
				return c.Server(name(i)).Publish(within, "news", wrapperspb.Int64(sent[i]))
			}
			stop := make(chan struct{})
			var publishers sync.WaitGroup
			for i := range tasks {
				publishers.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(50 * time.Millisecond):
							if err := publish(i); err != nil && status.CodeOf(err) != status.DeadlineExceeded {
								t.Errorf("seed %d: task %d: %v", seed, i, err)
							}
						}
					}
				})
			}
			for range 10 {
				a := random.IntN(tasks)
				b := (a + 1 + random.IntN(tasks-1)) % tasks
				wait := func() { time.Sleep(time.Duration(random.IntN(8000)) * time.Millisecond) }
				if random.IntN(2) == 0 {
					c.Cut(name(a), name(b))
					wait()
					c.Heal(name(a), name(b))
				} else {
					c.Freeze(name(a))
					wait()
					c.Thaw(name(a))
				}
				wait()
			}
			close(stop)
			publishers.Wait()
			time.Sleep(time.Minute)
			for range 3 {
				for i := range tasks {
					if err := publish(i); err != nil {
						t.Errorf("seed %d: task %d: %v", seed, i, err)
					}
				}
				time.Sleep(time.Second)
				mu.Lock()
				for i := range tasks {
					if last[i] != sent {
						t.Errorf("seed %d: task %d has got %v, and %v were sent", seed, i, last[i], sent)
					}
				}
				mu.Unlock()
			}
			cancel()
			work.Wait()
		})
	}
}

// BenchmarkTopics measures messages to a topic with subscribers on two tasks of the process, until all have arrived.
func BenchmarkTopics(b *testing.B) {
	for _, subscribers := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d subscribers on each of two tasks", subscribers), func(b *testing.B) {
			arrived := make(chan struct{}, 2*subscribers)
			counter := troupe.WithActor("counter", func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
				if err := c.Subscribe("news"); err != nil {
					return nil, err
				}
				return troupe.Handlers(troupe.Handle(func(_ *troupe.ActorContext, m *wrapperspb.Int64Value) {
					if m.Value == 0 {
						arrived <- struct{}{}
					}
				})), nil
			})
			silent := troupe.WithLogger(slog.New(slog.DiscardHandler))
			cluster := troupe.ClusterSpec{"w": spectest.Addresses(b, 2)}
			var all []*troupe.Server
			for i := range 2 {
				s, err := troupe.NewServer(b.Context(), cluster, troupe.WithTask(i), troupe.WithLending(false), silent, counter)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Stop(context.Background())
				all = append(all, s)
			}
			for _, s := range all {
				for range subscribers {
					if _, err := s.Spawn(b.Context(), "counter", troupe.ActorRef{}, nil); err != nil {
						b.Fatal(err)
					}
				}
			}
			knowsAll(b, all...)
			one, last := wrapperspb.Int64(1), wrapperspb.Int64(0)
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				m := one
				if i%500 == 0 {
					m = last
				}
				if err := all[0].Publish(b.Context(), "news", m); err != nil {
					b.Fatal(err)
				}
				if m == last {
					for range 2 * subscribers {
						<-arrived
					}
				}
			}
		})
	}
}
