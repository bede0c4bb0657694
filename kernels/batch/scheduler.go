package batch

import (
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// batchOptions configure a batcher.
type batchOptions struct {
	maxBatch    int   // maximum rows of an input and of a batch, unless allowed is more restrictive
	allowed     []int // the sizes that a batch is padded to, increasing; if empty, there is no padding
	maxEnqueued int   // maximum number of waiting batches, including the one being gathered
	threads     int   // maximum number of batches that run concurrently
	timeout     time.Duration
	splits      bool // large inputs are split among several batches
	trims       bool // a batch that has timed out is cut to an allowed size rather than padded
	adaptive    bool
}

// largest returns the maximum number of rows in a batch.
func (o *batchOptions) largest() int {
	if o.splits && len(o.allowed) > 0 {
		return o.allowed[len(o.allowed)-1]
	}
	return o.maxBatch
}

// filled returns the size that a batch of n rows is padded to.
func (o *batchOptions) filled(n int) int {
	for _, size := range o.allowed {
		if size >= n {
			return size
		}
	}
	return n
}

// batchRequest is one run of a kernel, whose rows may be in several batches. end is called once.
type batchRequest struct {
	ctx      *kernels.Context
	end      func(error)
	fn       kernels.Function // nil for Batch
	captured []kernels.Value
	id       int64

	// Guarded by the batcher's mutex.
	parts   int  // tasks that are not done
	leads   int  // batches that run in this step
	over    bool // the context must not be used any more
	err     error
	outputs [][]*tensor.Tensor // of each part
}

// batchTask holds the rows of a request that are in one batch.
type batchTask struct {
	*batchRequest
	inputs []*tensor.Tensor
	size   int
	part   int
}

func (t *batchTask) drop() {
	for _, in := range t.inputs {
		in.Release()
	}
	t.inputs = nil
}

// gathering is a waiting or running batch.
type gathering struct {
	tasks []*batchTask
	size  int
	since time.Time // arrival of the first task
}

func (g *gathering) add(t *batchTask) {
	g.tasks = append(g.tasks, t)
	g.size += t.size
}

// batchQueue holds the waiting batches, oldest first. The last one is open: it accepts tasks.
type batchQueue struct {
	batches []*gathering
	timer   *time.Timer // of the open batch
}

func (q *batchQueue) open() *gathering { return q.batches[len(q.batches)-1] }

// batcher gathers the tasks of concurrent steps into batches and runs them, as TensorFlow's BatchResource does with a SharedBatchScheduler.
// A waiting task holds memory but no goroutine; a function runs on the goroutines of the step that calls it.
type batcher struct {
	options batchOptions
	mu      sync.Mutex
	queues  map[string]*batchQueue
	running int
	deleted bool
}

func newBatcher(o batchOptions) (*batcher, error) {
	if o.maxEnqueued == 0 && !o.splits {
		o.maxEnqueued = 1
	}
	switch {
	case o.maxBatch <= 0:
		return nil, status.InvalidArgumentf("input_batch_size_limit must be positive; was %d", o.maxBatch)
	case len(o.allowed) > 0 && o.allowed[0] <= 0:
		return nil, status.InvalidArgumentf("allowed_batch_sizes must be positive; was %d", o.allowed[0])
	case o.timeout < 0:
		return nil, status.InvalidArgumentf("batch_timeout_micros must be non-negative; was %d", o.timeout.Microseconds())
	case o.maxEnqueued <= 0:
		return nil, status.InvalidArgumentf("max_enqueued_batches must be positive; was %d", o.maxEnqueued)
	case o.splits && !o.adaptive && o.maxBatch < o.largest():
		return nil, status.InvalidArgumentf("When enable_large_batch_splitting is true, input_batch_size_limit must be greater than or equal to max_execution_batch_size.")
	}
	return &batcher{options: o, queues: map[string]*batchQueue{}}, nil
}

// Describe describes the batcher for listings.
func (b *batcher) Describe() string { return "BatchResource" }

// Deleted reports whether Close was called.
func (b *batcher) Deleted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deleted
}

// Close ends the waiting requests. Running batches continue.
func (b *batcher) Close() {
	b.mu.Lock()
	var ended []*batchRequest
	b.deleted = true
	for name, q := range b.queues {
		q.timer.Stop()
		for _, g := range q.batches {
			for _, t := range g.tasks {
				t.drop()
				t.fail(status.Errorf(status.Aborted, "The batch scheduling queue was deleted."))
				ended = t.less(ended)
			}
		}
		delete(b.queues, name)
	}
	b.mu.Unlock()
	endBatched(ended)
}

// fail records the first error of a request.
func (r *batchRequest) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// less records that a part is done. If it was the last one, it appends the request to ended.
func (r *batchRequest) less(ended []*batchRequest) []*batchRequest {
	r.parts--
	if r.parts > 0 || r.over {
		return ended
	}
	r.over = true
	return append(ended, r)
}

// schedule adds a task to the queue, or ends its request with an error.
func (b *batcher) schedule(queue string, t *batchTask) {
	b.mu.Lock()
	q := b.queues[queue]
	if q == nil {
		q = &batchQueue{batches: []*gathering{{}}, timer: time.AfterFunc(time.Hour, contain.Func(nil, "A batch scheduler", b.drain, nil))}
		q.timer.Stop()
	}
	tasks, err := b.admit(q, t)
	if err != nil {
		t.over = true
		b.mu.Unlock()
		t.drop()
		t.err = err
		endBatched([]*batchRequest{t.batchRequest})
		return
	}
	b.queues[queue] = q
	for _, t := range tasks {
		if q.open().size+t.size > b.options.largest() {
			q.batches = append(q.batches, &gathering{})
		}
		g := q.open()
		if len(g.tasks) == 0 {
			g.since = time.Now()
			q.timer.Reset(b.options.timeout)
		}
		g.add(t)
	}
	b.mu.Unlock()
	b.drain()
}

// admit checks that there is room for a task, and splits it if it does not fit a batch.
func (b *batcher) admit(q *batchQueue, t *batchTask) ([]*batchTask, error) {
	o := &b.options
	largest := o.largest()
	open := q.open().size
	capacity := (o.maxEnqueued-len(q.batches))*largest + largest - open
	switch {
	case b.deleted:
		return nil, status.Errorf(status.Aborted, "The batch scheduling queue was deleted.")
	case t.size > o.maxBatch && o.adaptive:
		return nil, status.InvalidArgumentf("Task size %d is larger than max input task size %d", t.size, o.maxBatch)
	case t.size > o.maxBatch:
		return nil, status.InvalidArgumentf("Task size %d is larger than maximum input batch size %d", t.size, o.maxBatch)
	case o.splits && t.size > capacity && o.adaptive:
		return nil, status.Errorf(status.Unavailable, "The batch scheduling queue is full")
	case o.splits && t.size > capacity:
		return nil, status.Errorf(status.Unavailable, "The batch scheduling queue to which this task was submitted is full; task size is %d but "+
			"scheduling capacity is only %d (num_enqueued_batches=%d, max_enqueued_batches=%d, open_batch_size=%d, max_execution_batch_size=%d)",
			t.size, capacity, len(q.batches), o.maxEnqueued, open, largest)
	case !o.splits && open+t.size > o.maxBatch && len(q.batches) >= o.maxEnqueued:
		return nil, status.Errorf(status.Unavailable, "The batch scheduling queue to which this task was submitted is full; currently %d batches "+
			"enqueued and max_enqueued_batches is %d", len(q.batches), o.maxEnqueued)
	}
	if !o.splits || open+t.size <= largest {
		t.outputs = make([][]*tensor.Tensor, 1)
		return []*batchTask{t}, nil
	}
	var tasks []*batchTask
	room := largest - open
	if room == 0 {
		room = largest
	}
	for at := 0; at < t.size; room = largest {
		if err := t.ctx.Device.Pool().Admits(); err != nil {
			for _, part := range tasks {
				part.drop()
			}
			return nil, err
		}
		size := min(room, t.size-at)
		part := &batchTask{batchRequest: t.batchRequest, size: size, part: len(tasks)}
		for _, in := range t.inputs {
			part.inputs = append(part.inputs, in.Rows(at, at+size))
		}
		tasks = append(tasks, part)
		at += size
	}
	t.drop()
	t.parts = len(tasks)
	t.outputs = make([][]*tensor.Tensor, len(tasks))
	return tasks, nil
}

// cancel removes a request's tasks from the waiting batches and ends it with err. If a batch runs in the request's step, the request ends
// with that batch, which the step's cancellation also cancels.
func (b *batcher) cancel(r *batchRequest, err error) {
	b.mu.Lock()
	if r.over {
		b.mu.Unlock()
		return
	}
	ends := b.withdraw(r, err)
	b.mu.Unlock()
	if ends {
		endBatched([]*batchRequest{r})
	}
}

// withdraw removes a request's tasks from the waiting batches and from others, which are about to run. It reports whether the request is over.
// The caller holds b.mu.
func (b *batcher) withdraw(r *batchRequest, err error, others ...*gathering) (ends bool) {
	r.fail(err)
	remove := func(g *gathering) {
		g.tasks = slices.DeleteFunc(g.tasks, func(t *batchTask) bool {
			if t.batchRequest != r {
				return false
			}
			g.size -= t.size
			r.parts--
			t.drop()
			return true
		})
	}
	for _, q := range b.queues {
		for _, g := range q.batches {
			remove(g)
		}
	}
	for _, g := range others {
		remove(g)
	}
	r.over = r.leads == 0
	return r.over
}

// withdrawEnded withdraws the requests of a batch, which is about to run, whose steps have ended, and returns those that are over. Their
// cancellation may not have arrived yet, and a batch that is given to an ended step is lost for all its steps. The caller holds b.mu.
func (b *batcher) withdrawEnded(g *gathering) (over []*batchRequest) {
	for _, t := range slices.Clone(g.tasks) {
		if t.over { // its context must not be used any more
			continue
		}
		if err := t.ctx.Ended(); err != nil && b.withdraw(t.batchRequest, kernels.Cancelled(err), g) {
			over = append(over, t.batchRequest)
		}
	}
	return over
}

// drain runs the batches that are full or have timed out, as many as may run.
func (b *batcher) drain() {
	for {
		b.mu.Lock()
		g := b.next()
		if g == nil {
			b.mu.Unlock()
			return
		}
		over := b.withdrawEnded(g)
		if len(g.tasks) == 0 {
			b.mu.Unlock()
			endBatched(over)
			continue
		}
		b.running++
		last := g.tasks[len(g.tasks)-1]
		last.leads++
		b.mu.Unlock()
		endBatched(over)
		if last.fn == nil {
			ended := b.emit(g, last)
			b.ran(last)
			endBatched(ended)
			continue
		}
		const what = "A batch's run"
		last.ctx.Step.Continue(what, contain.Func(last.ctx.Step.Log, what, func() { b.call(g, last) }, func(err error) { b.called(g, last, nil, err) }))
	}
}

// ran records that a batch has ended, which makes room for another.
func (b *batcher) ran(leader *batchTask) {
	b.mu.Lock()
	b.running--
	leader.leads--
	b.mu.Unlock()
}

// next removes and returns the next batch to run, if any. The caller holds b.mu.
func (b *batcher) next() *gathering {
	if b.running >= b.options.threads {
		return nil
	}
	var from *batchQueue
	now := time.Now()
	for name, q := range b.queues {
		// Cancellation leaves batches without tasks.
		open := q.open()
		q.batches = slices.DeleteFunc(q.batches, func(g *gathering) bool { return len(g.tasks) == 0 && g != open })
		first := q.batches[0]
		if len(first.tasks) == 0 {
			q.timer.Stop()
			delete(b.queues, name)
			continue
		}
		due := len(q.batches) > 1 || first.size >= b.options.largest() || now.Sub(first.since) >= b.options.timeout
		if due && (from == nil || first.since.Before(from.batches[0].since)) {
			from = q
		}
	}
	if from == nil {
		return nil
	}
	g := from.batches[0]
	if g == from.open() {
		from.timer.Stop()
		from.batches = append(from.batches, b.trim(g))
		if next := from.open(); len(next.tasks) > 0 {
			next.since = now
			from.timer.Reset(b.options.timeout)
		}
	}
	from.batches = from.batches[1:]
	return g
}

// trim cuts a batch to the largest allowed size that it reaches, if a task ends there, and returns the rest as a batch.
func (b *batcher) trim(g *gathering) *gathering {
	rest := &gathering{}
	if !b.options.trims {
		return rest
	}
	fits := 0
	for _, size := range b.options.allowed {
		if size <= g.size {
			fits = size
		}
	}
	sum := 0
	for i, t := range g.tasks {
		if sum == fits && i > 0 {
			for _, later := range g.tasks[i:] {
				rest.add(later)
			}
			g.tasks, g.size = g.tasks[:i:i], fits
			break
		}
		sum += t.size
	}
	return rest
}
