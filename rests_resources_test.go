package troupe

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues/pipeline"
)

// queuesThatRest are elements that wait in a queue for dequeues, and dequeues that wait for elements.
func queuesThatRest(r *resting) []restOperation {
	type ends struct {
		enqueue func()
		dequeue func(ctx context.Context) error
	}
	endsOf := func(m Master) ends {
		s := op.NewScope().WithDevice("/job:w/task:1")
		types := []tensor.DType{tensor.Int64}
		q := op.FIFOQueueV2(s, types, attr.SharedName("q"), attr.Capacity(100))
		put, take := op.QueueEnqueueV2(s, q, []op.Output{op.Const(s, int64(7))}), op.QueueDequeueV2(s, q, types)[0]
		session := sessionOf(r.T, m, s)
		return ends{
			func() {
				_, err := session.Eval(r.bounded(), nil, put)
				r.check(err)
			},
			func(ctx context.Context) error {
				got, err := Fetch[int64](ctx, session, nil, take)
				if err == nil && got != 7 {
					err = fmt.Errorf("%d was dequeued", got)
				}
				return err
			}}
	}
	c, _ := r.dial(0)
	producer, consumer := endsOf(r.tasks[1]), endsOf(c)
	elements := 0
	var blocked []chan error
	return []restOperation{
		{"an enqueue", func() {
			producer.enqueue()
			if len(blocked) == 0 {
				elements++
				return
			}
			r.check(<-blocked[0])
			blocked = blocked[1:]
		}},
		{"a dequeue", func() {
			if elements > 0 {
				r.check(consumer.dequeue(r.bounded()))
				elements--
				return
			}
			done := make(chan error, 1)
			blocked = append(blocked, done)
			go func() { done <- consumer.dequeue(r.Context()) }()
			synctest.Wait()
		}},
	}
}

// loansThatRest are elements of a queue that a consumer has leased, and has to renew.
func loansThatRest(r *resting) []restOperation {
	const lent = 30 * time.Second
	s := op.NewScope().WithDevice("/job:w/task:1")
	types := []tensor.DType{tensor.Int64}
	q := op.FIFOQueueV2(s, types, attr.SharedName("lent"), attr.Capacity(100), attr.Shapes([]shape.Shape{shape.Scalar()}))
	put := op.QueueEnqueueV2(s, q, []op.Output{op.Const(s, int64(7))})
	tokens := op.Placeholder(s, tensor.String, attr.Shape(shape.Of(-1)))
	lease, _, elements := op.TroupeQueueLease(s, q, op.Const(s, int32(1)), tokens, nil, types, attr.LeaseMs(lent.Milliseconds()))
	renewed, used := op.TroupeQueueRenew(s, q, tokens), op.TroupeQueueAcknowledge(s, q, tokens)
	c, _ := r.dial(0)
	session := sessionOf(r.T, c, s)
	_, err := session.Eval(r.bounded(), nil, put)
	r.check(err)
	token, since := "", time.Time{}
	run := func(held op.Output, names ...string) bool {
		v, err := tensor.FromStrings(tensor.Shape{int64(len(names))}, names)
		r.check(err)
		defer v.Release()
		got, err := session.Eval(r.bounded(), Feeds{tokens: v}, held)
		r.check(err)
		defer got[0].Release()
		kept := tensor.Of[bool](got[0])[0]
		if want := time.Since(since) < lent; kept != want {
			r.Errorf("after %v, whether an element is still lent for %v: %v", time.Since(since), lent, kept)
		}
		return kept
	}
	return []restOperation{
		{"an element is leased", func() {
			if token != "" && run(used, token) {
				_, err := session.Eval(r.bounded(), nil, put)
				r.check(err)
			} // else it is in the queue again
			none, err := tensor.FromStrings(tensor.Shape{0}, nil)
			r.check(err)
			defer none.Release()
			got, err := session.Eval(r.bounded(), Feeds{tokens: none}, lease, elements[0])
			r.check(err)
			if n := tensor.Of[int64](got[1])[0]; n != 7 {
				r.Errorf("%d was leased", n)
			}
			token, since = got[0].Strings()[0], time.Now()
			got[0].Release()
			got[1].Release()
		}},
		{"a lease is renewed", func() {
			if token != "" && run(renewed, token) {
				since = time.Now()
			}
		}},
	}
}

// pipelinesThatRest are Go values that wait in a queue for their consumer.
func pipelinesThatRest(r *resting) []restOperation {
	queue, err := pipeline.Declare[int64](pipeline.Queue{Name: "rows", Device: "/job:w/task:1", Capacity: 100})
	r.check(err)
	c, _ := r.dial(0)
	session := func(m Master) *Session {
		s, err := m.NewSession(r.Context(), nil, nil)
		r.check(err)
		return s
	}
	producer, err := queue.Producer(r.Context(), session(r.tasks[1]), pipeline.ProducerOptions{})
	r.check(err)
	consumer, err := queue.Consumer(r.Context(), session(c), pipeline.ConsumerOptions{})
	r.check(err)
	put, taken := int64(0), int64(0)
	// Another queue's consumer holds a lease for as long as the program has the batch, which it renews.
	lent, err := pipeline.Declare[int64](pipeline.Queue{Name: "lent", Device: "/job:w/task:1", Capacity: 100})
	r.check(err)
	lender, err := lent.Producer(r.Context(), session(r.tasks[1]), pipeline.ProducerOptions{})
	r.check(err)
	borrower, err := lent.Consumer(r.Context(), session(c), pipeline.ConsumerOptions{Lease: 30 * time.Second})
	r.check(err)
	loop, end := context.WithCancel(r.Context())
	r.Cleanup(end)
	values, next := make(chan int64), make(chan struct{})
	go func() {
		for batch, err := range borrower.Batches(loop) {
			if err != nil {
				if loop.Err() == nil {
					r.Error(err)
				}
				return
			}
			select {
			case values <- batch.At(0):
			case <-loop.Done():
				return
			}
			select {
			case <-next:
			case <-loop.Done():
				return
			}
		}
	}()
	borrowed := int64(0)
	return []restOperation{
		{"a value is leased", func() {
			r.check(lender.Put(r.bounded(), borrowed))
			if borrowed > 0 {
				next <- struct{}{} // the last one has been used
			}
			select {
			case v := <-values:
				if v != borrowed {
					r.Errorf("%d was leased, want %d", v, borrowed)
				}
			case <-r.bounded().Done():
				r.Fatal("nothing was leased")
			}
			borrowed++
		}},
		{"a value is put", func() {
			r.check(producer.Put(r.bounded(), put))
			put++
		}},
		{"a value is taken", func() {
			if taken == put {
				r.check(producer.Put(r.bounded(), put))
				put++
			}
			for batch, err := range consumer.Batches(r.bounded()) {
				r.check(err)
				if got := batch.At(0); got != taken {
					r.Errorf("%d was taken, want %d", got, taken)
				}
				taken++
				break
			}
		}},
	}
}

// iteratorsThatRest are iterators of datasets with stages that work ahead.
func iteratorsThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	s := op.NewScope().WithDevice("/job:w/task:1")
	types, shapes := []tensor.DType{tensor.Int64}, []shape.Shape{shape.Scalar()}
	numbers := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, int64(1<<40)), op.Const(s, int64(1)), types, shapes)
	ahead := op.PrefetchDataset(s, numbers, op.Const(s, int64(4)), types, shapes)
	it := op.IteratorV2(s, "it", "", types, shapes)
	begin, next := op.MakeIterator(s, ahead, it), op.IteratorGetNext(s, it, types, shapes)[0]
	session := sessionOf(r.T, c, s)
	want := int64(-1)
	anew := func() {
		_, err := session.Eval(r.bounded(), nil, begin)
		r.check(err)
		want = 0
	}
	anew()
	return []restOperation{
		{"the next element", func() {
			got, err := Fetch[int64](r.bounded(), session, nil, next)
			if err != nil || got != want {
				r.Errorf("%d, %v; want %d", got, err, want)
			}
			want++
		}},
		{"the iterator begins anew", anew},
	}
}

// snapshotsThatRest are iterators that write a snapshot, unless another one is writing it and has not been at it for too long.
func snapshotsThatRest(r *resting) []restOperation {
	const expiry = 30 * time.Second
	dir := r.TempDir()
	s := op.NewScope()
	types, shapes := []tensor.DType{tensor.Int64}, []shape.Shape{shape.Scalar()}
	numbers := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, int64(1<<40)), op.Const(s, int64(1)), types, shapes)
	kept := op.SnapshotDataset(s, numbers, op.Const(s, dir), types, shapes, attr.PendingSnapshotExpirySeconds(int64(expiry/time.Second)))
	it := op.IteratorV2(s, "it", "", types, shapes)
	begin, next := op.MakeIterator(s, kept, it), op.IteratorGetNext(s, it, types, shapes)[0]
	session := sessionOf(r.T, r.tasks[0], s)
	want, runs, since := int64(0), 0, time.Time{}
	take := func() {
		got, err := Fetch[int64](r.bounded(), session, nil, next)
		if err != nil || got != want {
			r.Errorf("%d, %v; want %d", got, err, want)
		}
		want++
	}
	anew := func() {
		_, err := session.Eval(r.bounded(), nil, begin)
		r.check(err)
		want = 0
		take()
		if runs == 0 || time.Since(since) > expiry {
			runs, since = runs+1, time.Now()
		}
		// Each that writes has a folder of its own in that of the snapshot, with one file.
		if files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*")); err != nil || len(files) != runs {
			r.Errorf("%d iterators have written, not %d: %v, %v", len(files), runs, files, err)
		}
	}
	anew()
	return []restOperation{{"the next element", take}, {"the iterator begins anew", anew}}
}

// batchesThatRest are inputs that gather in batches, which are handled when they have waited long enough, and steps that wait for their rows of a batch
// of another step's.
func batchesThatRest(r *resting) []restOperation {
	const unclaimed = 30 * time.Second // how long a step waits for its rows, and rows for their step
	u := op.NewScope()
	rows := op.Placeholder(u, tensor.Float32, attr.Shape(shape.Of(-1, 1)))
	index := op.Placeholder(u, tensor.Int64, attr.Shape(shape.Of(-1, 3)))
	id := op.Placeholder(u, tensor.Int64, attr.Shape(shape.Of()))
	mine := op.Unbatch(u, rows, index, id, unclaimed.Microseconds(), attr.SharedName("u"))
	unbatching := sessionOf(r.T, r.tasks[0], u)
	// gets runs a step that brings rows of the steps with the given ids, each with its id, and gets those of its own.
	gets := func(own int64, ids ...int64) error {
		values, places := make([]float32, 0, len(ids)), make([]int64, 0, 3*len(ids))
		for i, id := range ids {
			values, places = append(values, float32(id)), append(places, id, int64(i), int64(i)+1)
		}
		v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{int64(len(ids)), 1}, values)
		r.check(err)
		defer v.Release()
		x, err := tensor.FromSlice(tensor.Int64, tensor.Shape{int64(len(ids)), 3}, places)
		r.check(err)
		defer x.Release()
		n := tensor.FromScalar(own)
		defer n.Release()
		got, err := unbatching.Eval(r.Context(), Feeds{rows: v, index: x, id: n}, mine)
		if err != nil {
			return err
		}
		defer got[0].Release()
		if f := tensor.Of[float32](got[0]); len(f) != 1 || f[0] != float32(own) {
			return fmt.Errorf("step %d got the rows %v", own, f)
		}
		return nil
	}
	next := int64(0)
	type waits struct {
		id    int64
		since time.Time
		done  chan error
	}
	var waiting []waits
	// late checks the steps whose time to wait is over.
	late := func() {
		for len(waiting) > 0 && time.Since(waiting[0].since) > unclaimed {
			if err := <-waiting[0].done; status.CodeOf(err) != status.DeadlineExceeded {
				r.Errorf("a step that waits for its rows since %v: %v", time.Since(waiting[0].since), err)
			}
			waiting = waiting[1:]
		}
	}
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(1)))
	batched, _, _ := op.Batch(s, []op.Output{x}, 1, 100, 10_000, 60_000_000, attr.SharedName("b"), attr.BatchingQueue("q"))
	session := sessionOf(r.T, r.tasks[0], s)
	return []restOperation{{"a step waits for its rows", func() {
		late()
		w := waits{next, time.Now(), make(chan error, 1)}
		next++
		waiting = append(waiting, w)
		go func() { w.done <- gets(w.id) }()
		synctest.Wait()
	}}, {"a step brings rows", func() {
		late()
		own := next
		next += 2
		ids := []int64{own, own + 1} // nobody claims the second
		for _, w := range waiting {
			ids = append(ids, w.id)
		}
		r.check(gets(own, ids...))
		for _, w := range waiting {
			r.check(<-w.done)
		}
		waiting = nil
	}}, {"rows that were brought before", func() {
		late()
		own := next
		next += 2
		r.check(gets(own, own, own+1))
		r.check(gets(own + 1))
	}}, {"a batch of one", func() {
		v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{1}, []float32{3})
		r.check(err)
		defer v.Release()
		got, err := session.Eval(r.bounded(), Feeds{x: v}, batched[0])
		r.check(err)
		if n, err := got[0].Shape().NumElements(); err != nil || n > 1 {
			r.Errorf("a batch of %d, %v", n, err)
		}
		got[0].Release()
	}}}
}

// eventsFlush is how long a summary may wait before it is written.
const eventsFlush = 120 * time.Second

// eventsThatRest are summaries that are flushed after a while.
func eventsThatRest(r *resting) []restOperation {
	dir := r.TempDir()
	s := op.NewScope()
	w := op.SummaryWriter(s, attr.SharedName("w"))
	open := op.CreateSummaryFileWriter(s, w, op.Const(s, dir), op.Const(s, int32(1000)), op.Const(s, int32(eventsFlush.Milliseconds())), op.Const(s, ".v2"))
	write := op.WriteScalarSummary(s, w, op.Const(s, int64(1)), op.Const(s, "a tag"), op.Const(s, float32(1)))
	session := sessionOf(r.T, r.tasks[0], s)
	_, err := session.Eval(r.bounded(), nil, open)
	r.check(err)
	var written []time.Time
	return []restOperation{
		{"a summary is written", func() {
			_, err := session.Eval(r.bounded(), nil, write)
			r.check(err)
			written = append(written, time.Now())
		}},
		{"the file is read", func() {
			files, err := filepath.Glob(filepath.Join(dir, "*.v2"))
			r.check(err)
			all, due := 0, 0
			for _, f := range files {
				b, err := os.ReadFile(f)
				r.check(err)
				all += bytes.Count(b, []byte("a tag"))
			}
			for _, at := range written {
				if time.Since(at) > eventsFlush {
					due++
				}
			}
			if all < due || all > len(written) {
				r.Errorf("the files have %d summaries; %d were written, %d of them more than %v ago", all, len(written), due, eventsFlush)
			}
		}},
	}
}
