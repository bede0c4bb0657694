//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
)

// Devices of the cluster on which blocked steps run.
const (
	onPS      = "/job:ps/task:0"
	onWorker  = "/job:worker/task:0"
	onWorker1 = "/job:worker/task:1"
)

// blocked is a cluster with steps that wait.
type blocked struct {
	*testing.T
	cluster *cluster
	ctx     context.Context // of the steps
	name    string          // of the case, for the names of resources
}

// graph begins a graph.
func (b *blocked) graph() *op.Scope { return op.NewScope().WithDevice(onPS) }

// queue adds a queue of float32 scalars on the ps.
func (b *blocked) queue(s *op.Scope, name string, capacity int64) op.Output {
	return op.FIFOQueueV2(s.WithName(name), []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of()}),
		attr.Capacity(capacity), attr.SharedName(b.name+"_"+name))
}

func (b *blocked) dequeue(s *op.Scope, q op.Output) op.Output {
	return op.QueueDequeueV2(s, q, []tensor.DType{tensor.Float32})[0]
}

// session opens a session on worker 0.
func (b *blocked) session(s *op.Scope) *troupe.Session {
	b.Helper()
	def, err := s.GraphDef()
	if err != nil {
		b.Fatal(err)
	}
	session, err := dialTarget(b.T, b.cluster.task("worker", 0).target()).NewSession(b.ctx, def, nil)
	if err != nil {
		b.Fatal(err)
	}
	return session
}

// start runs steps of one session until the case ends.
func (b *blocked) start(s *op.Scope, steps ...op.Runnable) {
	session := b.session(s)
	for _, step := range steps {
		go func() {
			out, err := session.Eval(b.ctx, nil, step)
			if err == nil {
				for _, t := range out {
					t.Release()
				}
			}
		}()
	}
}

// run runs a step to its end, in a session of its own, which it closes.
func (b *blocked) run(s *op.Scope, steps ...op.Runnable) {
	b.Helper()
	session := b.session(s)
	if _, err := session.Eval(b.ctx, nil, steps...); err != nil {
		b.Fatal(err)
	}
	if err := session.Close(b.ctx); err != nil {
		b.Fatal(err)
	}
}

func oneNumber(s *op.Scope, x float32) op.Output { return op.Const(s, x) }

// causes are ways to block a step, with what troupe why must say.
var causes = []struct {
	name     string
	block    func(b *blocked)
	says     []string
	deadlock bool
}{
	{"queue_never_filled", func(b *blocked) {
		s := b.graph()
		x := b.dequeue(s.WithName("take"), b.queue(s, "q", 10))
		b.start(s, op.Neg(s.WithDevice(onWorker1), x))
	}, []string{"{{node take}} (QueueDequeueV2)", "to dequeue from the FIFOQueue", "which is empty (capacity 10)", "no running step enqueues into it", "nobody has ever enqueued"}, false},
	{"queue_whose_producer_closed", func(b *blocked) {
		p := b.graph()
		b.run(p, op.QueueEnqueueV2(p, b.queue(p, "q", 10), []op.Output{oneNumber(p, 1)}))
		s := b.graph()
		q := b.queue(s, "q", 10)
		one := b.dequeue(s, q)
		two := b.dequeue(s.WithControlDependencies(one.Op).WithName("take"), q)
		b.start(s, two)
	}, []string{"{{node take}}", "the last step that brought an element was of session", "which was closed"}, false},
	{"queue_full", func(b *blocked) {
		s := b.graph()
		q := b.queue(s, "q", 1)
		first := op.QueueEnqueueV2(s, q, []op.Output{oneNumber(s, 1)})
		b.start(s, op.QueueEnqueueV2(s.WithControlDependencies(first).WithName("put"), q, []op.Output{oneNumber(s, 1)}))
	}, []string{"{{node put}} (QueueEnqueueV2)", "which is full (1 element, capacity 1)", "no running step dequeues from it", "nobody has ever taken one"}, false},
	{"queue_batch", func(b *blocked) {
		s := b.graph()
		q := b.queue(s, "q", 10)
		first := op.QueueEnqueueV2(s, q, []op.Output{oneNumber(s, 1)})
		b.start(s, op.QueueDequeueManyV2(s.WithControlDependencies(first).WithName("batch"), q, op.Const(s, int32(8)), []tensor.DType{tensor.Float32})[0])
	}, []string{"{{node batch}} (QueueDequeueManyV2)", "to dequeue 8 elements", "it lacks 7"}, false},
	{"queue_min_after_dequeue", func(b *blocked) {
		s := b.graph()
		q := op.RandomShuffleQueueV2(s, []tensor.DType{tensor.Float32}, attr.Capacity(10), attr.MinAfterDequeue(3), attr.SharedName(b.name))
		first := op.QueueEnqueueV2(s, q, []op.Output{oneNumber(s, 1)})
		b.start(s, op.QueueDequeueV2(s.WithControlDependencies(first).WithName("take"), q, []tensor.DType{tensor.Float32})[0])
	}, []string{"{{node take}}", "RandomShuffleQueue", "has 1 element, of which it keeps 3 (min_after_dequeue)"}, false},
	{"queue_close_behind_an_enqueue", func(b *blocked) {
		s := b.graph()
		q := b.queue(s, "q", 1)
		first := op.QueueEnqueueV2(s, q, []op.Output{oneNumber(s, 1)})
		b.start(s, op.QueueEnqueueV2(s.WithControlDependencies(first).WithName("put"), q, []op.Output{oneNumber(s, 1)}))
		b.says("{{node put}}") // it waits
		c := b.graph()
		b.start(c, op.QueueCloseV2(c.WithName("close"), b.queue(c, "q", 1)))
	}, []string{"{{node close}} (QueueCloseV2)", "after the enqueues that came before: {{node put}}"}, false},
	{"deadlock_of_two_queues", func(b *blocked) {
		s := b.graph()
		q1, q2 := b.queue(s, "q1", 10), b.queue(s, "q2", 10)
		forth := op.QueueEnqueueV2(s.WithName("forth"), q2, []op.Output{b.dequeue(s.WithName("take1"), q1)})
		back := op.QueueEnqueueV2(s.WithName("back"), q1, []op.Output{b.dequeue(s.WithName("take2"), q2)})
		b.start(s, forth, back)
	}, []string{"{{node take1}}", "{{node take2}}", "{{node forth}}", "{{node back}}", "a deadlock"}, true},
	{"producer_computes", func(b *blocked) {
		s := b.graph()
		q := b.queue(s, "q", 10)
		x := op.Fill(s, op.Const(s, []int32{2500, 2500}), oneNumber(s, 1e-3))
		for i := range 40 {
			x = op.MatMul(s.WithName(fmt.Sprint("product", i)), x, x)
		}
		put := op.QueueEnqueueV2(s.WithName("put"), q, []op.Output{op.Sum(s, x, op.Const(s, []int32{0, 1}))})
		b.start(s, put, b.dequeue(s.WithName("take"), q))
	}, []string{"{{node take}}", "enqueues into it by {{node put}} after this: {{node product", "(MatMul) on /job:ps/replica:0/task:0 has been computing"}, false},
	{"tensor_of_a_task_that_computes", func(b *blocked) {
		s := b.graph()
		x := op.Fill(s, op.Const(s, []int32{2500, 2500}), oneNumber(s, 1e-3))
		for i := range 40 {
			x = op.MatMul(s.WithName(fmt.Sprint("product", i)), x, x)
		}
		b.start(s, op.Neg(s.WithDevice(onWorker1), op.Sum(s, x, op.Const(s, []int32{0, 1}))))
	}, []string{"for a tensor of /job:ps/replica:0/task:0: {{node product", "has been computing"}, false},
	{"lock", func(b *blocked) {
		hold, want := b.graph(), b.graph()
		lock := op.MutexLock(hold, op.MutexV2(hold, attr.SharedName(b.name)))
		take := b.dequeue(hold.WithControlDependencies(lock.Op).WithName("take"), b.queue(hold, "q", 10))
		b.start(hold, op.ConsumeMutexLock(hold.WithControlDependencies(take.Op), lock))
		b.says("{{node take}}")
		second := op.MutexLock(want.WithName("enter"), op.MutexV2(want, attr.SharedName(b.name)))
		b.start(want, op.ConsumeMutexLock(want, second))
	}, []string{"{{node enter}} (MutexLock)", "to lock 'lock'", "holds: {{node take}}"}, false},
	{"accumulator", func(b *blocked) {
		s := b.graph()
		a := op.ConditionalAccumulator(s, tensor.Float32, shape.Of(), attr.SharedName(b.name))
		b.start(s, op.AccumulatorTakeGradient(s.WithName("mean"), a, op.Const(s, int32(4)), tensor.Float32))
	}, []string{"{{node mean}} (AccumulatorTakeGradient)", "to take 4 of 'accumulator'", "no running step inserts into it", "nobody has ever brought a gradient"}, false},
	{"accumulator_whose_worker_closed", func(b *blocked) {
		p := b.graph()
		b.run(p, op.AccumulatorApplyGradient(p, op.ConditionalAccumulator(p, tensor.Float32, shape.Of(), attr.SharedName(b.name)), op.Const(p, int64(0)), oneNumber(p, 1)))
		s := b.graph()
		a := op.ConditionalAccumulator(s, tensor.Float32, shape.Of(), attr.SharedName(b.name))
		b.start(s, op.AccumulatorTakeGradient(s.WithName("mean"), a, op.Const(s, int32(2)), tensor.Float32))
	}, []string{"{{node mean}}", "an accumulator that has 1 gradients", "the last step that brought a gradient was of session", "which was closed"}, false},
	{"barrier", func(b *blocked) {
		s := b.graph()
		a := op.Barrier(s, []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName(b.name))
		_, keys, _ := op.BarrierTakeMany(s.WithName("some"), a, op.Const(s, int32(3)), []tensor.DType{tensor.Float32})
		b.start(s, keys)
	}, []string{"{{node some}} (BarrierTakeMany)", "to take 3 of 'barrier'", "a barrier that is empty", "nobody has ever inserted"}, false},
	{"barrier_of_incomplete_tuples", func(b *blocked) {
		barrier := func(s *op.Scope) op.Output {
			return op.Barrier(s, []tensor.DType{tensor.Float32, tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of(), shape.Of()}), attr.SharedName(b.name))
		}
		p := b.graph()
		b.run(p, op.BarrierInsertMany(p, barrier(p), op.Const(p, []string{"a", "b"}), op.Const(p, []float32{1, 2}), 0))
		s := b.graph()
		_, keys, _ := op.BarrierTakeMany(s.WithName("some"), barrier(s), op.Const(s, int32(1)), []tensor.DType{tensor.Float32, tensor.Float32})
		b.start(s, keys)
	}, []string{"{{node some}}", "a barrier that has 0 complete tuples and 2 incomplete ones", "the last step that inserted was of session", "which was closed"}, false},
	{"staging_area", func(b *blocked) {
		s := b.graph()
		b.start(s, op.Unstage(s.WithName("next"), []tensor.DType{tensor.Float32}, attr.SharedName(b.name))[0])
	}, []string{"{{node next}} (Unstage)", "to unstage 'staging_area' on /job:ps/replica:0/task:0, a staging area that is empty (no limit)", "no running step stages into it, and nobody has ever staged"}, false},
	{"staging_area_whose_producer_closed", func(b *blocked) {
		p := b.graph()
		b.run(p, op.Stage(p, []op.Output{oneNumber(p, 1)}, attr.SharedName(b.name)))
		s := b.graph()
		first := op.Unstage(s, []tensor.DType{tensor.Float32}, attr.SharedName(b.name))[0]
		b.start(s, op.Unstage(s.WithControlDependencies(first.Op).WithName("next"), []tensor.DType{tensor.Float32}, attr.SharedName(b.name))[0])
	}, []string{"{{node next}} (Unstage)", "the last step that staged was of session", "which was closed"}, false},
	{"staging_area_that_is_full", func(b *blocked) {
		s := b.graph()
		first := op.Stage(s, []op.Output{oneNumber(s, 1)}, attr.SharedName(b.name), attr.Capacity(1))
		b.start(s, op.Stage(s.WithControlDependencies(first).WithName("more"), []op.Output{oneNumber(s, 1)}, attr.SharedName(b.name), attr.Capacity(1)))
	}, []string{"{{node more}} (Stage)", "to stage into 'staging_area_that_is_full'", "is full (1 tuples, capacity 1)", "no running step unstages from it", "nobody has ever unstaged"}, false},
	{"staging_map_of_a_producer_that_waits", func(b *blocked) {
		p := b.graph()
		x := b.dequeue(p.WithName("take"), b.queue(p, "q", 10))
		b.start(p, op.MapStage(p.WithName("put"), op.Const(p, int64(7)), op.Const(p, []int32{0}), []op.Output{x}, []tensor.DType{tensor.Float32}, attr.SharedName(b.name)))
		s := b.graph()
		b.start(s, op.MapUnstage(s.WithName("next"), op.Const(s, int64(7)), op.Const(s, []int32{0}), []tensor.DType{tensor.Float32}, attr.SharedName(b.name))[0])
	}, []string{"{{node next}} (MapUnstage)", "to unstage key 7 of 'staging_map_of_a_producer_that_waits'", "stages into it by {{node put}} after this: {{node take}}", "which is empty"}, false},
	{"reader_without_work", func(b *blocked) {
		s := b.graph()
		q := op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName(b.name))
		_, line := op.ReaderReadV2(s.WithName("read"), op.TextLineReaderV2(s), q)
		b.start(s, line)
	}, []string{"{{node read}} (ReaderReadV2)", "which has read nothing yet", "to dequeue from the FIFOQueue 'reader_without_work'", "which is empty", "nobody has ever enqueued"}, false},
	{"reader_at_the_end_of_its_files", func(b *blocked) {
		file := filepath.Join(b.TempDir(), "lines.txt")
		if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		names := func(s *op.Scope) op.Output {
			return op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName(b.name))
		}
		p := b.graph()
		b.run(p, op.QueueEnqueueV2(p, names(p), []op.Output{op.Const(p, file)}))
		s := b.graph()
		reader := op.TextLineReaderV2(s.WithName("lines"))
		_, first := op.ReaderReadV2(s, reader, names(s))
		_, second := op.ReaderReadV2(s.WithControlDependencies(first.Op), reader, names(s))
		_, third := op.ReaderReadV2(s.WithControlDependencies(second.Op).WithName("read"), reader, names(s))
		b.start(s, third)
	}, []string{"{{node read}} (ReaderReadV2)", "to read from the TextLineReader", "lines.txt' to its end (2 records so far)", "to dequeue from the FIFOQueue 'reader_at_the_end_of_its_files'",
		"the last step that brought an element was of session", "which was closed"}, false},
	{"reader_of_another_step", func(b *blocked) {
		read := func(name string) {
			s := b.graph()
			q := op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName(b.name))
			_, line := op.ReaderReadV2(s.WithName(name), op.TextLineReaderV2(s, attr.SharedName(b.name)), q)
			b.start(s, line)
		}
		read("before")
		b.says("{{node before}}")
		read("behind")
	}, []string{"{{node behind}} (ReaderReadV2)", "it is the turn of step", "{{node before}} (ReaderReadV2)", "which is empty"}, false},
	{"queue_full_before_a_reader", func(b *blocked) {
		names := func(s *op.Scope) op.Output {
			return op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName(b.name), attr.Capacity(1))
		}
		r := b.graph()
		first := b.dequeue(r.WithName("take"), b.queue(r, "q", 10))
		_, line := op.ReaderReadV2(r.WithControlDependencies(first.Op).WithName("read"), op.TextLineReaderV2(r), names(r))
		b.start(r, line)
		b.says("{{node take}}")
		s := b.graph()
		put := op.QueueEnqueueV2(s, names(s), []op.Output{op.Const(s, "a")})
		b.start(s, op.QueueEnqueueV2(s.WithControlDependencies(put).WithName("more"), names(s), []op.Output{op.Const(s, "b")}))
	}, []string{"{{node more}} (QueueEnqueueV2)", "which is full (1 element, capacity 1)", "dequeues from it by {{node read}} after this: {{node take}}"}, false},
	{"endless_loop", func(b *blocked) {
		s := b.graph()
		out := op.While(s.WithName("loop"), []op.Output{op.Const(s, int32(0))},
			func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], op.Const(s, int32(1))) },
			func(s *op.Scope, v []op.Output) []op.Output { return []op.Output{op.Neg(s, op.Abs(s, v[0]))} })
		b.start(s, out[0])
	}, []string{"computes many small nodes, of which none waits"}, false},
	{"partial_run", func(b *blocked) {
		s := b.graph()
		x := op.Placeholder(s.WithName("x"), tensor.Float32)
		y := op.Neg(s.WithName("y"), x)
		session := b.session(s)
		if _, err := session.PartialRun(b.ctx, []string{x.Name()}, []string{y.Name()}, nil); err != nil {
			b.Fatal(err)
		}
	}, []string{"to be fed by the client of the partial run"}, false},
	{"function", func(b *blocked) {
		s := b.graph()
		q := b.queue(s, "q", 10)
		f := op.NewFunction(s, "taking", op.ParamsOf(q), func(s *op.Scope, v []op.Output) []op.Output {
			return []op.Output{b.dequeue(s.WithName("inner"), v[0])}
		})
		b.start(s, f.Call(s, q)[0])
	}, []string{"inner}} (QueueDequeueV2)", "which is empty"}, false},
	{"frozen_task", func(b *blocked) {
		s := b.graph()
		x := b.dequeue(s.WithName("take"), b.queue(s, "q", 10))
		b.start(s, op.Neg(s.WithDevice(onWorker1), x))
		b.says("{{node take}}")
		p := b.cluster.task("ps", 0).proc
		p.freeze()
		b.Cleanup(func() { p.signal(syscall.SIGCONT) })
	}, []string{"for a tensor of /job:ps/replica:0/task:0: /job:ps/replica:0/task:0 is silent"}, false},
}

// says waits until `troupe why` says all parts about one step. It returns whether `troupe why` reports a deadlock, and how long the last
// answer took.
func (b *blocked) says(parts ...string) (deadlock bool, took time.Duration) {
	b.Helper()
	eventually(b.T, time.Minute, "why says "+strings.Join(parts, ", "), func() error {
		cmd := exec.CommandContext(b.ctx, binary(b.T), "why", b.cluster.task("worker", 1).target(), "--json", "--longer-than", "0s")
		begun := time.Now()
		out, err := cmd.Output()
		took = time.Since(begun)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		var reasons []struct {
			Text     string
			Deadlock bool
		}
		if err := json.Unmarshal(out, &reasons); err != nil {
			return err
		}
	next:
		for _, r := range reasons {
			for _, p := range parts {
				if !strings.Contains(r.Text, p) {
					continue next
				}
			}
			deadlock = r.Deadlock
			return nil
		}
		return fmt.Errorf("it says %s", out)
	})
	return deadlock, took
}

// TestWhy blocks steps in many ways, and checks that `troupe why` says what holds them up.
func TestWhy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "ps=1,worker=2", "--insecure")
	for _, cause := range causes {
		t.Run(cause.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := &blocked{T: t, cluster: c, ctx: ctx, name: cause.name}
			cause.block(b)
			deadlock, took := b.says(cause.says...)
			if deadlock != cause.deadlock {
				t.Errorf("deadlock: %v, want %v", deadlock, cause.deadlock)
			}
			t.Logf("it took %v", took)
			// The command waits for a frozen task.
			limit := time.Second
			if cause.name == "frozen_task" {
				limit = 3 * time.Second
			}
			if limit = extent.Slack(limit); took > limit {
				t.Errorf("it took %v, more than %v", took, limit)
			}
		})
	}
}

// TestOverdueStepsSayWhy has steps exceed their deadlines: the errors say what `troupe why` does.
func TestOverdueStepsSayWhy(t *testing.T) {
	t.Parallel()
	b := &blocked{T: t, cluster: newCluster(t, "ps=1,worker=2", "--insecure"), ctx: t.Context(), name: "overdue"}
	p := b.graph()
	b.run(p, op.Stage(p, []op.Output{oneNumber(p, 1)}, attr.SharedName(b.name)))
	b.run(p, op.Unstage(p, []tensor.DType{tensor.Float32}, attr.SharedName(b.name))[0])
	for _, overdue := range []struct {
		step func(s *op.Scope) op.Output
		says []string
	}{
		{func(s *op.Scope) op.Output {
			return op.Unstage(s.WithName("next"), []tensor.DType{tensor.Float32}, attr.SharedName(b.name))[0]
		}, []string{"to unstage 'overdue' on /job:ps/replica:0/task:0, a staging area that is empty (no limit)", "the last step that staged was of session", "which was closed"}},
		{func(s *op.Scope) op.Output {
			q := op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName("names"))
			_, line := op.ReaderReadV2(s.WithName("read"), op.TextLineReaderV2(s.WithName("lines")), q)
			return line
		}, []string{"to read from the TextLineReader", "which has read nothing yet, and waits to dequeue from the FIFOQueue 'names' on /job:ps/replica:0/task:0", "nobody has ever enqueued"}},
	} {
		s := b.graph()
		step := overdue.step(s)
		session := b.session(s)
		ctx, cancel := context.WithTimeout(b.ctx, extent.Slack(500*time.Millisecond))
		_, err := session.Eval(ctx, nil, step)
		cancel()
		if status.CodeOf(err) != status.DeadlineExceeded {
			t.Fatalf("the step ended with %v", err)
		}
		for _, text := range overdue.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("the error does not say %q: %v", text, err)
			}
		}
	}
}
