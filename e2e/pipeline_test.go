//go:build unix

package e2e

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/queues/pipeline"
	"github.com/troupe-run/troupe/remote/client"
)

// row is what programs/rows.py calls a row.
type row struct {
	Number int64
	Vector [3]float32
}

func rowOf(i int64) row { return row{i, [3]float32{float32(i), float32(i) / 2, float32(i) / 4}} }

func rows(n int64, end error) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for i := range n {
			if !yield(rowOf(i), nil) {
				return
			}
		}
		if end != nil {
			yield(row{}, end)
		}
	}
}

// goSide returns a queue of rows and a Go client's session on a task.
func goSide(t *testing.T, k *task, name string) (*pipeline.Of[row], *client.Session) {
	t.Helper()
	queue, err := pipeline.Declare[row](pipeline.Queue{Name: name, Device: "/job:ps/task:0", Capacity: 8192})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), k.target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	session, err := c.NewSession(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(context.Background()) })
	return queue, session
}

// take reads all rows, which must come in order.
func take(t *testing.T, queue *pipeline.Of[row], session *client.Session) (n int64, end error) {
	t.Helper()
	consumer, err := queue.Consumer(t.Context(), session, pipeline.ConsumerOptions{Batch: 1000, Prefetch: 2})
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range consumer.Batches(t.Context()) {
		if err != nil {
			return n, err
		}
		for _, r := range batch.All() {
			if r != rowOf(n) {
				t.Fatalf("row %d is %v", n, r)
			}
			n++
		}
	}
	return n, nil
}

func put(t *testing.T, queue *pipeline.Of[row], session *client.Session, n int64, end error) error {
	producer, err := queue.Producer(t.Context(), session, pipeline.ProducerOptions{Batch: 1000})
	if err != nil {
		return err
	}
	return producer.Range(t.Context(), rows(n, end))
}

// TestPipelineOfTwoLanguages sends a million rows from Python to Go and from Go to Python, through different masters. Each must arrive
// once, in order.
func TestPipelineOfTwoLanguages(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=2")
	d := drivers.borrow(t)
	a, b := c.task("worker", 0), c.task("worker", 1)
	n := int64(1_000_000)
	if extent.RaceDetector {
		n /= 10
	}
	t.Run("python to go", func(t *testing.T) {
		queue, session := goSide(t, b, "to_go")
		together(
			func() {
				expect(t, "put", program(t, d, "rows.py", "put", a.target(), "to_go", fmt.Sprint(n)), fmt.Sprint("put ", n))
			},
			func() {
				if got, err := take(t, queue, session); err != nil || got != n {
					t.Errorf("%d of %d rows came, %v", got, n, err)
				}
			})
	})
	t.Run("go to python", func(t *testing.T) {
		queue, session := goSide(t, b, "to_python")
		together(
			func() {
				if err := put(t, queue, session, n, nil); err != nil {
					t.Error(err)
				}
			},
			func() {
				expect(t, "take", program(t, d, "rows.py", "take", a.target(), "to_python", fmt.Sprint(n)), fmt.Sprint("took ", n))
			})
	})
	t.Run("go gives up", func(t *testing.T) {
		queue, session := goSide(t, b, "given_up")
		if err := put(t, queue, session, 0, status.New(status.DataLoss, "shard 3 is torn")); status.CodeOf(err) != status.DataLoss {
			t.Errorf("the producer ended with %v", err)
		}
		got := program(t, d, "rows.py", "take", a.target(), "given_up", "0")
		if !strings.HasPrefix(got, "took 0 DataLossError") || !strings.Contains(got, "was closed by its producer: shard 3 is torn") {
			t.Errorf("Python says %s", got)
		}
	})
}

// TestLeaseOnTensorFlow checks that TensorFlow's server, which has no leases, refuses the two ends that need its ops, and names the op.
func TestLeaseOnTensorFlow(t *testing.T) {
	t.Parallel()
	needPython(t)
	targets, _ := tensorflowServers(t, 1)
	c, err := client.Dial(t.Context(), targets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	queue, err := pipeline.Declare[row](pipeline.Queue{Name: "leased", Device: "/job:worker/task:0"})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(op string, begin func(*client.Session) error) {
		t.Helper()
		session, err := c.NewSession(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close(context.Background())
		if err := begin(session); status.CodeOf(err) != status.NotFound || !strings.Contains(err.Error(), op) {
			t.Errorf("%s: %v", op, err)
		}
	}
	refused("TroupeQueueLease", func(s *client.Session) error {
		_, err := queue.Consumer(t.Context(), s, pipeline.ConsumerOptions{Lease: time.Minute})
		return err
	})
	refused("TroupeQueueEnqueueManyOnce", func(s *client.Session) error {
		_, err := queue.Producer(t.Context(), s, pipeline.ProducerOptions{Retry: time.Minute})
		return err
	})
}
