package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues/pipeline"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"go.uber.org/goleak"
)

// record has every kind of field that an element can have.
type record struct {
	Number int64
	Image  [4][3]float32
	Text   string
	Flags  []bool `shape:"2"`
	Words  [2]string
	Empty  [0]float64
	note   string //nolint:unused // A field that is not exported is no component.
}

func recordOf(i int) record {
	r := record{Number: int64(i), Text: fmt.Sprint("text ", i), Flags: []bool{i%2 == 0, i%3 == 0}, Words: [2]string{"a", fmt.Sprint(i)}}
	for k := range 12 {
		r.Image[k/3][k%3] = float32(i*12 + k)
	}
	return r
}

func same(a, b record) bool {
	return a.Number == b.Number && a.Image == b.Image && a.Text == b.Text && a.Words == b.Words && len(a.Flags) == 2 && [2]bool(a.Flags) == [2]bool(b.Flags)
}

var silent = slog.New(slog.DiscardHandler)

// TestMain fails if a goroutine outlives the producers, the consumers and their servers.
func TestMain(m *testing.M) {
	// A probe of memberlist that is in flight at the stop ends with its own timeout, some seconds later.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// twoTasks returns sessions on two servers in this process.
func twoTasks(t testing.TB) (a, b *troupe.Session) {
	t.Helper()
	spec := troupe.ClusterSpec{"worker": spectest.Addresses(t, 2)}
	var sessions []*troupe.Session
	for task := range spec["worker"] {
		server, err := troupe.NewServer(t.Context(), spec, troupe.WithLogger(silent), troupe.WithTask(task))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		session, err := server.NewSession(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close(context.Background()) })
		sessions = append(sessions, session)
	}
	return sessions[0], sessions[1]
}

func records(n int, end error) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for i := range n {
			if !yield(recordOf(i), nil) {
				return
			}
		}
		if end != nil {
			yield(record{}, end)
		}
	}
}

// TestPipeline passes elements of all types from a session on one task to a session on another through a small queue. They must arrive in
// order, and the end after the last.
func TestPipeline(t *testing.T) {
	from, to := twoTasks(t)
	for _, prefetch := range []int{0, 1, 3} {
		t.Run(fmt.Sprint("prefetch ", prefetch), func(t *testing.T) {
			queue, err := pipeline.Declare[record](pipeline.Queue{Name: fmt.Sprint("records", prefetch), Device: "/job:worker/task:0", Capacity: 50})
			if err != nil {
				t.Fatal(err)
			}
			producer, err := queue.Producer(t.Context(), from, pipeline.ProducerOptions{Batch: 16})
			if err != nil {
				t.Fatal(err)
			}
			consumer, err := queue.Consumer(t.Context(), to, pipeline.ConsumerOptions{Batch: 7, Prefetch: prefetch})
			if err != nil {
				t.Fatal(err)
			}
			const n = 1000
			done := make(chan error, 1)
			go func() { done <- producer.Range(t.Context(), records(n, nil)) }()
			next := 0
			for batch, err := range consumer.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range batch.All() {
					if !same(r, recordOf(next)) {
						t.Fatalf("element %d is %+v", next, r)
					}
					next++
				}
			}
			if err := <-done; err != nil || next != n {
				t.Fatalf("%d elements came, of %d; the producer ended with %v", next, n, err)
			}
			if s := producer.Stats(); s.Elements != n || s.Steps < n/16 {
				t.Errorf("producer's stats %+v", s)
			}
			if s := consumer.Stats(); s.Elements != n || s.Steps != (n+6)/7 {
				t.Errorf("consumer's stats %+v", s)
			}
			if left, err := consumer.Size(t.Context()); err != nil || left != 0 {
				t.Errorf("size %d, %v", left, err)
			}
		})
	}
}

// endless is a session whose queue always has another element. It counts the steps.
type endless struct{ steps atomic.Int64 }

func (*endless) Extend(context.Context, *graphpb.GraphDef) error { return nil }

func (e *endless) Run(ctx context.Context, _ map[string]*tensor.Tensor, _, _ []string) ([]*tensor.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v, err := tensor.From([]int32{int32(e.steps.Add(1))})
	return []*tensor.Tensor{v}, err
}

// TestPrefetch checks how many batches a consumer takes while the loop works on one.
func TestPrefetch(t *testing.T) {
	for _, prefetch := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			queue, err := pipeline.Declare[int32](pipeline.Queue{Name: "endless"})
			if err != nil {
				t.Fatal(err)
			}
			session := &endless{}
			consumer, err := queue.Consumer(t.Context(), session, pipeline.ConsumerOptions{Prefetch: prefetch})
			if err != nil {
				t.Fatal(err)
			}
			used := 0
			for _, err := range consumer.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				used++
				synctest.Wait()
				if ahead := int(session.steps.Load()) - used; ahead != prefetch {
					t.Errorf("%d batches are taken ahead of the loop, want %d", ahead, prefetch)
				}
				if used == 3 {
					break
				}
			}
		})
	}
}

// TestPipelineFails checks that consumers get what is in the queue of a failed producer, then the reason.
func TestPipelineFails(t *testing.T) {
	from, to := twoTasks(t)
	queue, err := pipeline.Declare[record](pipeline.Queue{Name: "failing", Device: "/job:worker/task:1"})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := queue.Producer(t.Context(), from, pipeline.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cause := status.New(status.DataLoss, "shard 7 is torn")
	rows := func(yield func(record, error) bool) {
		for r := range records(10, nil) {
			if !yield(r, nil) {
				return
			}
		}
		// A later failure drops what is in flight, not what is in the queue.
		if err := producer.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		yield(record{}, cause)
	}
	if err := producer.Range(t.Context(), rows); !errors.Is(err, cause) {
		t.Fatalf("the producer ended with %v", err)
	}
	if err := producer.Put(t.Context(), recordOf(1)); !errors.Is(err, cause) {
		t.Errorf("Put after the end: %v", err)
	}
	consumer, err := queue.Consumer(t.Context(), to, pipeline.ConsumerOptions{Batch: 4, Prefetch: 2})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for batch, err := range consumer.Batches(t.Context()) {
		if err != nil {
			if status.CodeOf(err) != status.DataLoss || !strings.Contains(err.Error(), "was closed by its producer: shard 7 is torn") {
				t.Errorf("the consumer ended with %v", err)
			}
			n += 100
			continue
		}
		n += batch.Len()
	}
	if n != 110 {
		t.Errorf("%d elements and errors came, want 10 and 1", n)
	}
}

// TestPipelineEndsEarly checks that a loop that ends early, or whose context ends, leaves no goroutine and no step. Without prefetching it
// loses nothing.
func TestPipelineEndsEarly(t *testing.T) {
	from, to := twoTasks(t)
	queue, err := pipeline.Declare[int32](pipeline.Queue{Name: "early", Device: "/job:worker/task:0"})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := queue.Producer(t.Context(), from, pipeline.ProducerOptions{KeepOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	numbers := make(chan int32, 10)
	for i := range 10 {
		numbers <- int32(i)
	}
	close(numbers)
	if err := producer.Range(t.Context(), pipeline.Chan(numbers)); err != nil {
		t.Fatal(err)
	}
	consumer, err := queue.Consumer(t.Context(), to, pipeline.ConsumerOptions{Batch: 2})
	if err != nil {
		t.Fatal(err)
	}
	for want := int32(0); want < 10; want += 2 {
		for batch, err := range consumer.Batches(t.Context()) {
			if err != nil || batch.At(0) != want || batch.At(1) != want+1 {
				t.Fatalf("%v, %v, want %d", batch, err, want)
			}
			break
		}
	}
	for _, prefetch := range []int{0, 2} {
		waiting, err := queue.Consumer(t.Context(), to, pipeline.ConsumerOptions{Prefetch: prefetch})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		turns := 0
		for _, err := range waiting.Batches(ctx) {
			turns++
			if err == nil {
				t.Error("an element came out of an empty queue")
			}
		}
		cancel()
		if turns != 1 {
			t.Errorf("the loop had %d turns", turns)
		}
	}
}

// TestPipelineCredit checks that a producer has no more elements in flight than its credit allows, and that Put returns when its context
// ends.
func TestPipelineCredit(t *testing.T) {
	from, to := twoTasks(t)
	queue, err := pipeline.Declare[int32](pipeline.Queue{Name: "credit", Device: "/job:worker/task:1", Capacity: 5})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := queue.Producer(t.Context(), from, pipeline.ProducerOptions{Batch: 3})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	put := 0
	for ; err == nil; put++ {
		err = producer.Put(ctx, int32(put))
	}
	put-- // the last one failed
	if !errors.Is(err, context.DeadlineExceeded) || put < 5+3 || put > 5+6 {
		t.Fatalf("%d elements were put into a queue of 5 with a credit of 6, then %v", put, err)
	}
	if producer.Stats().Waiting == 0 {
		t.Error("the producer says it never waited")
	}
	consumer, err := queue.Consumer(t.Context(), to, pipeline.ConsumerOptions{Prefetch: 1})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- producer.Close(t.Context()) }()
	got := 0
	for batch, err := range consumer.Batches(t.Context()) {
		if err != nil || batch.At(0) != int32(got) {
			t.Fatalf("%v, %v, want %d", batch, err, got)
		}
		got++
	}
	if err := <-done; err != nil || got != put {
		t.Errorf("%d elements came out of %d, %v", got, put, err)
	}
}

// TestPipelineDeclarations checks that invalid declarations are refused with an explanation.
func TestPipelineDeclarations(t *testing.T) {
	name := pipeline.Queue{Name: "bad"}
	refuse := func(err error, want string) {
		t.Helper()
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	_, err := pipeline.Declare[int](name)
	refuse(err, "int is not an element type")
	_, err = pipeline.Declare[struct{ A []float32 }](name)
	refuse(err, "field A: a slice needs its sizes in a tag")
	_, err = pipeline.Declare[struct{ a float32 }](name)
	refuse(err, "no exported field")
	_, err = pipeline.Declare[struct {
		A float32 `shape:"1"`
	}](name)
	refuse(err, "is for slices")
	_, err = pipeline.Declare[float32](pipeline.Queue{})
	refuse(err, "needs a name")
	queue, err := pipeline.Declare[struct {
		A []float32 `shape:"3"`
	}](name)
	if err != nil {
		t.Fatal(err)
	}
	from, _ := twoTasks(t)
	producer, err := queue.Producer(t.Context(), from, pipeline.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close(t.Context())
	refuse(producer.Put(t.Context(), struct {
		A []float32 `shape:"3"`
	}{make([]float32, 2)}), "Field A has 2 values, and its shape [3] is of 3")
}

// BenchmarkPipeline passes rows of 784 numbers from a session on one task to a session on another, as a training pipeline does: with leases
// and numbered puts, and without.
func BenchmarkPipeline(b *testing.B) {
	for _, prefetch := range []int{0, 2} {
		b.Run(fmt.Sprintf("prefetch=%d/plain", prefetch), func(b *testing.B) {
			benchmarkPipeline(b, pipeline.ProducerOptions{}, pipeline.ConsumerOptions{Batch: 128, Prefetch: prefetch})
		})
		b.Run(fmt.Sprintf("prefetch=%d/leased", prefetch), func(b *testing.B) {
			benchmarkPipeline(b, pipeline.ProducerOptions{}, pipeline.ConsumerOptions{Batch: 128, Prefetch: prefetch, Lease: 30 * time.Second})
		})
		b.Run(fmt.Sprintf("prefetch=%d/leased-numbered", prefetch), func(b *testing.B) {
			benchmarkPipeline(b, pipeline.ProducerOptions{Retry: time.Minute}, pipeline.ConsumerOptions{Batch: 128, Prefetch: prefetch, Lease: 30 * time.Second})
		})
	}
}

func benchmarkPipeline(b *testing.B, puts pipeline.ProducerOptions, takes pipeline.ConsumerOptions) {
	type row struct{ Image [784]float32 }
	from, to := twoTasks(b)
	queue, err := pipeline.Declare[row](pipeline.Queue{Name: "rows", Device: "/job:worker/task:0", Capacity: 1000})
	if err != nil {
		b.Fatal(err)
	}
	producer, err := queue.Producer(b.Context(), from, puts)
	if err != nil {
		b.Fatal(err)
	}
	consumer, err := queue.Consumer(b.Context(), to, takes)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(784 * 4)
	b.ReportAllocs()
	b.ResetTimer()
	done := make(chan error, 1)
	go func() {
		done <- producer.Range(b.Context(), func(yield func(row, error) bool) {
			var r row
			for i := 0; i < b.N && yield(r, nil); i++ {
			}
		})
	}()
	n := 0
	for batch, err := range consumer.Batches(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		n += batch.Len()
	}
	if err := <-done; err != nil || n != b.N {
		b.Fatal(n, err)
	}
}
