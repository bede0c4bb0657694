package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues/pipeline"
	"github.com/troupe-run/troupe/troupetest"
)

// numbered declares a queue of the numbers below n, and fills and closes it. The session is one of a client of worker:0; the queue is on ps:0.
func numbered(t *testing.T, c *troupetest.Cluster, name string, n int) (*pipeline.Of[int64], pipeline.Session) {
	t.Helper()
	session, err := c.Dial("worker:0").NewSession(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(context.Background()) })
	queue := declare[int64](t, pipeline.Queue{Name: name, Device: "/job:ps/task:0"})
	producer, err := queue.Producer(t.Context(), session, pipeline.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = producer.Range(t.Context(), func(yield func(int64, error) bool) {
		for i := range n {
			if !yield(int64(i), nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return queue, session
}

// values returns the elements of a batch.
func values(b *pipeline.Batch[int64]) (all []int64) {
	for _, v := range b.All() {
		all = append(all, v)
	}
	return all
}

// all runs a consumer to the end of its queue, and returns the elements of its batches.
func all(t *testing.T, queue *pipeline.Of[int64], session pipeline.Session, o pipeline.ConsumerOptions) (got []int64) {
	t.Helper()
	consumer, err := queue.Consumer(t.Context(), session, o)
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range consumer.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, values(batch)...)
	}
	if s := consumer.Stats(); s.Elements != int64(len(got)) || s.Expired != 0 {
		t.Errorf("stats %+v of %d elements", s, len(got))
	}
	return got
}

func expect(t *testing.T, what string, got []int64, want ...int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestLease checks what a loop acknowledges: the batches after which it went on, and those that it acknowledged itself.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 1})
		for _, prefetch := range []int{0, 2} {
			queue, session := numbered(t, c, "numbers", 10)
			options := pipeline.ConsumerOptions{Batch: 2, Prefetch: prefetch, Lease: time.Minute}
			consumer, err := queue.Consumer(t.Context(), session, options)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for batch, err := range consumer.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				switch got = append(got, values(batch)...); batch.At(0) {
				case 2:
					if err := batch.Acknowledge(t.Context()); err != nil {
						t.Error(err)
					}
				case 4:
					synctest.Wait() // for what is prefetched
					if err := batch.Return(t.Context()); err != nil {
						t.Error(err)
					}
					if err := batch.Acknowledge(t.Context()); status.CodeOf(err) != status.FailedPrecondition {
						t.Errorf("acknowledging a batch that was returned: %v", err)
					}
				}
				if len(got) == 8 {
					break // without an acknowledgement
				}
			}
			again := []int64{4, 5} // the batch that was returned comes at once, or after what was prefetched
			if prefetch > 0 {
				again = []int64{6, 7}
			}
			expect(t, "the first loop", got, append([]int64{0, 1, 2, 3, 4, 5}, again...)...)
			got = all(t, queue, session, options)
			slices.Sort(got)
			expect(t, "the second loop", got, 4, 5, 6, 7, 8, 9)
		}
	})
}

// TestLeaseOfTheDead checks that the elements of a consumer that freezes come back when its lease expires, and not as long as it lives.
func TestLeaseOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 2})
		queue, session := numbered(t, c, "numbers", 5)
		other, err := c.Server("worker:1").NewSession(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(t.Context())
		options := pipeline.ConsumerOptions{Batch: 3, Lease: 30 * time.Second}
		consumer, err := queue.Consumer(t.Context(), other, options)
		if err != nil {
			t.Fatal(err)
		}
		late := make(chan []int64)
		var since time.Time
		for batch, err := range consumer.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			expect(t, "the first batch", values(batch), 0, 1, 2)
			go func() { late <- all(t, queue, session, options) }()
			time.Sleep(10 * time.Minute)
			c.Freeze("worker:1")
			since = time.Now()
			expect(t, "another consumer", <-late, 3, 4, 0, 1, 2)
			if took := time.Since(since); took < 20*time.Second || took > 31*time.Second {
				t.Errorf("the elements came back after %v", took)
			}
			c.Thaw("worker:1")
			if err := batch.Acknowledge(t.Context()); err == nil {
				t.Error("a batch that has gone to another consumer is acknowledged")
			}
			break
		}
	})
}

// TestDeadLetters checks where elements go that no consumer can use.
func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 1})
		for _, store := range []bool{false, true} {
			queue, session := numbered(t, c, "numbers", 5)
			options := pipeline.ConsumerOptions{Batch: 2, Lease: time.Minute, MaxDeliveries: 3}
			dead := declare[int64](t, pipeline.Queue{Name: "dead", Device: "/job:ps/task:0"})
			if store {
				options.DeadLetters = &dead.Queue
			}
			consumer, err := queue.Consumer(t.Context(), session, options)
			if err != nil {
				t.Fatal(err)
			}
			deliveries := map[int64]int{}
			for batch, err := range consumer.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range batch.All() {
					deliveries[v]++
				}
				if batch.At(0) == 2 {
					if err := batch.Return(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
			for v, n := range deliveries {
				if want := map[int64]int{2: 3, 3: 3}[v]; n != max(want, 1) {
					t.Errorf("%d deliveries of element %d", n, v)
				}
			}
			if !store {
				continue
			}
			letters, err := dead.Consumer(t.Context(), session, pipeline.ConsumerOptions{Batch: 2})
			if err != nil {
				t.Fatal(err)
			}
			for batch, err := range letters.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				expect(t, "dead letters", values(batch), 2, 3)
				break
			}
		}
	})
}

// TestLeaseOfADeletedQueue checks that leases end with their queue, whose name may be in use again.
func TestLeaseOfADeletedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"ps": 1, "worker": 1})
		queue, session := numbered(t, c, "numbers", 4)
		consumer, err := queue.Consumer(t.Context(), session, pipeline.ConsumerOptions{Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for batch, err := range consumer.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if err := queue.Delete(t.Context(), session); err != nil {
				t.Error(err)
			}
			if err := batch.Acknowledge(t.Context()); status.CodeOf(err) != status.FailedPrecondition {
				t.Errorf("acknowledging a batch of a queue that was deleted: %v", err)
			}
			break
		}
		if n := consumer.Stats().Expired; n != 1 {
			t.Errorf("%d elements expired", n)
		}
		if size, err := consumer.Size(t.Context()); err != nil || size != 0 {
			t.Errorf("the new queue has %d elements, %v", size, err)
		}
	})
}

// fakeSession is a session whose steps fail with an error, if it has one.
type fakeSession struct {
	err    error
	nodes  []string
	steps  int
	closed bool
}

func (s *fakeSession) Extend(_ context.Context, more *graphpb.GraphDef) error {
	for _, n := range more.Node {
		s.nodes = append(s.nodes, n.Name)
	}
	return nil
}

func (s *fakeSession) Run(context.Context, map[string]*tensor.Tensor, []string, []string) ([]*tensor.Tensor, error) {
	s.steps++
	return nil, s.err
}

func (s *fakeSession) Close(context.Context) error {
	s.closed = true
	return nil
}

// TestReconnect checks that a step that lost its session is not repeated, and that the next one runs in a session with the same graph.
func TestReconnect(t *testing.T) {
	var opened []*fakeSession
	session := pipeline.Reconnect(func(context.Context) (pipeline.OpenedSession, error) {
		if len(opened) == 2 {
			return nil, status.Errorf(status.Unavailable, "no server")
		}
		opened = append(opened, &fakeSession{})
		return opened[len(opened)-1], nil
	})
	run := func(want status.Code) {
		t.Helper()
		if _, err := session.Run(t.Context(), nil, nil, nil); status.CodeOf(err) != want {
			t.Errorf("a step ended with %v, not %v", err, want)
		}
	}
	extend := func(node string) {
		t.Helper()
		if err := session.Extend(t.Context(), &graphpb.GraphDef{Node: []*nodepb.NodeDef{{Name: node}}}); err != nil {
			t.Error(err)
		}
	}
	extend("a")
	run(status.OK)
	opened[0].err = status.Errorf(status.InvalidArgument, "a mistake")
	run(status.InvalidArgument)
	opened[0].err = status.Errorf(status.Aborted, "a restarted task")
	run(status.Aborted)
	if !opened[0].closed || opened[0].steps != 3 || len(opened) != 1 {
		t.Errorf("%d sessions, the first one is %+v", len(opened), opened[0])
	}
	extend("b")
	run(status.OK)
	if got := opened[1]; !slices.Equal(got.nodes, []string{"a", "b"}) || got.steps != 1 || got.closed {
		t.Errorf("the second session is %+v", got)
	}
	opened[1].err = status.Errorf(status.Unavailable, "a lost connection")
	run(status.Unavailable)
	run(status.Unavailable) // no server
	if err := session.Close(t.Context()); err != nil {
		t.Error(err)
	}
	run(status.FailedPrecondition)
}

// foreign is a session of a server that lacks an op.
type foreign struct{ pipeline.Session }

func (foreign) Extend(_ context.Context, more *graphpb.GraphDef) error {
	for _, n := range more.Node {
		if strings.HasPrefix(n.Op, "Troupe") {
			return status.Errorf(status.NotFound, "Op type not registered '%s' in binary running on host.", n.Op)
		}
	}
	return nil
}

// TestLeaseIsRefused checks options that are invalid or do not apply, and servers that lack the ops.
func TestLeaseIsRefused(t *testing.T) {
	queue := declare[int64](t, pipeline.Queue{Name: "q", Device: "/job:ps/task:0"})
	unplaced := declare[int64](t, pipeline.Queue{Name: "q"})
	dead := &pipeline.Queue{Name: "dead", Device: "/job:ps/task:0"}
	for _, c := range []struct {
		queue *pipeline.Of[int64]
		o     pipeline.ConsumerOptions
		code  status.Code
		want  string
	}{
		{queue, pipeline.ConsumerOptions{Lease: time.Microsecond}, status.InvalidArgument, "a lease of 1µs"},
		{queue, pipeline.ConsumerOptions{Retry: time.Second}, status.InvalidArgument, "need a Lease"},
		{queue, pipeline.ConsumerOptions{MaxDeliveries: 1}, status.InvalidArgument, "need a Lease"},
		{queue, pipeline.ConsumerOptions{Lease: time.Second, DeadLetters: dead}, status.InvalidArgument, "needs MaxDeliveries"},
		{queue, pipeline.ConsumerOptions{Lease: time.Second, MaxDeliveries: 1, DeadLetters: &pipeline.Queue{Name: "dead", Capacity: -1}}, status.InvalidArgument, "a capacity of -1"},
		{queue, pipeline.ConsumerOptions{Lease: time.Second, MaxDeliveries: 1, DeadLetters: &pipeline.Queue{Name: "dead"}}, status.InvalidArgument, "the same device"},
		{unplaced, pipeline.ConsumerOptions{Lease: time.Second, MaxDeliveries: 1, DeadLetters: dead}, status.InvalidArgument, "the same device"},
		{queue, pipeline.ConsumerOptions{Lease: time.Second}, status.NotFound, "'TroupeQueueLease'"},
	} {
		if _, err := c.queue.Consumer(t.Context(), foreign{}, c.o); status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	if _, err := queue.Producer(t.Context(), foreign{}, pipeline.ProducerOptions{Retry: time.Second}); status.CodeOf(err) != status.NotFound || !strings.Contains(err.Error(), "'TroupeQueueEnqueueManyOnce'") {
		t.Errorf("a producer: %v", err)
	}
	if _, err := queue.Producer(t.Context(), foreign{}, pipeline.ProducerOptions{Retry: time.Second, InFlight: 2}); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a producer with two steps in flight: %v", err)
	}
}
