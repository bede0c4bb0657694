//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Devices of the cluster that blocked steps run on.
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

// queue is a queue of float32 scalars on the ps.
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

// start runs steps of one session that end with the case.
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

// run runs a step that ends, in a session of its own, which is closed.
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

// causes are what holds up a step, and what is said of it.
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
	}, []string{"{{node put}} (QueueEnqueueV2)", "which is full (1 elements, capacity 1)", "no running step dequeues from it", "nobody has ever taken one"}, false},
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
	}, []string{"{{node take}}", "RandomShuffleQueue", "has 1 elements, of which it keeps 3 (min_after_dequeue)"}, false},
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
	}, []string{"{{node mean}} (AccumulatorTakeGradient)", "to take 4 of 'accumulator'", "no running step inserts into it"}, false},
	{"barrier", func(b *blocked) {
		s := b.graph()
		a := op.Barrier(s, []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName(b.name))
		_, keys, _ := op.BarrierTakeMany(s.WithName("some"), a, op.Const(s, int32(3)), []tensor.DType{tensor.Float32})
		b.start(s, keys)
	}, []string{"{{node some}} (BarrierTakeMany)", "to take 3 of 'barrier'"}, false},
	{"staging_area", func(b *blocked) {
		s := b.graph()
		b.start(s, op.Unstage(s.WithName("next"), []tensor.DType{tensor.Float32}, attr.SharedName(b.name))[0])
	}, []string{"{{node next}} (Unstage)", "to unstage 'staging_area'"}, false},
	{"reader_without_work", func(b *blocked) {
		s := b.graph()
		q := op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.Shapes([]shape.Shape{shape.Of()}), attr.SharedName(b.name))
		_, line := op.ReaderReadV2(s.WithName("read"), op.TextLineReaderV2(s), q)
		b.start(s, line)
	}, []string{"{{node read}} (ReaderReadV2)", "to dequeue from the FIFOQueue 'reader_without_work'", "which is empty"}, false},
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

// says waits until `troupe why` says all of that of one step, and gives whether it calls that a deadlock, and how long
// the last answer took.
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

// TestWhy blocks steps in many ways, and has `troupe why` say what holds them up.
func TestWhy(t *testing.T) {
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
			// A task that is frozen is waited for.
			limit := time.Second
			if cause.name == "frozen_task" {
				limit = 3 * time.Second
			}
			if limit *= time.Duration(slackFactor); took > limit {
				t.Errorf("it took %v, more than %v", took, limit)
			}
		})
	}
}
