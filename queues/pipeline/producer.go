package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// ProducerOptions configures how a producer sends. The zero value has useful defaults.
type ProducerOptions struct {
	// Batch is the maximum number of elements that one step puts into the queue; 0 means 128. A step has fewer if the source is slow: an
	// element never waits for others when no step is in flight.
	Batch int
	// InFlight is the maximum number of steps in flight; 0 means 1, which preserves the order. Together with the batch that is being
	// filled, it bounds the elements that were put and are not in the queue yet: Batch*(InFlight+1).
	InFlight int
	// KeepOpen leaves the queue open for other producers when Range ends without an error.
	KeepOpen bool
	// Retry is how long a step is retried that fails with UNAVAILABLE or ABORTED, because a task or a connection was lost; 0 means not at
	// all. The producer then numbers its elements, so that the queue stores each once. It needs InFlight to be 1. A queue remembers the
	// 1,024 producers that were active last; see TroupeQueueEnqueueManyOnce of graph/op, which TensorFlow's servers lack: there, Producer
	// fails with NOT_FOUND. A queue whose task was restarted is empty, and its elements are lost. See Reconnect.
	Retry time.Duration
}

// Producer puts elements into a queue. Its methods may be called concurrently. Close or Fail ends it. So does the end of the context that
// it was made with, which leaves the queue as it is.
type Producer[T any] struct {
	*nodes
	queue   *Of[T]
	options ProducerOptions
	ctx     context.Context
	cancel  context.CancelFunc
	feeds   []string
	first   int64 // the number of the next element, if they are numbered; used by the only sender
	senders sync.WaitGroup

	mu      sync.Mutex
	filling []*tensor.Tensor // rows waiting for a sender, or nil
	filled  int
	flying  int
	changed chan struct{} // closed and replaced when any of these, or err, changes
	ending  bool
	err     error
	stats   counters
}

// Producer starts a producer in a session. Its steps are cancelled when ctx ends.
//
// If an earlier run has closed the queue, the producer reopens it once all its elements have been taken. If they are not taken within the
// queue's OpenWait, Producer fails with FAILED_PRECONDITION; the error says who closed the queue and how many elements are left. A consumer
// can take them, or Delete drops them.
func (q *Of[T]) Producer(ctx context.Context, session Session, o ProducerOptions) (*Producer[T], error) {
	if o.Batch == 0 {
		o.Batch = 128
	}
	if o.InFlight == 0 {
		o.InFlight = 1
	}
	if o.Batch < 0 || o.InFlight < 0 || o.Retry < 0 {
		return nil, status.InvalidArgumentf("Queue %s: %d elements to a step, %d steps in flight, retries for %v", q.Name, o.Batch, o.InFlight, o.Retry)
	}
	if o.Retry > 0 && o.InFlight > 1 {
		return nil, status.InvalidArgumentf("Queue %s: a producer with Retry has one step in flight, not %d: the queue could not recognize a repeated one", q.Name, o.InFlight)
	}
	n, err := q.addNodes(ctx, session, o.Retry, func(s *op.Scope, queue op.Output, types []tensor.DType) {
		s.WithName("open").Add(op.Spec{Op: "QueueIsClosedV2", Inputs: []op.Input{queue}, Attrs: map[string]any{graph.OpenWaitAttr: q.openWaitMs()}})
		var rows op.List
		for i, t := range types {
			rows = append(rows, s.WithName("row"+strconv.Itoa(i)).Add(op.Spec{Op: "Placeholder", Attrs: map[string]any{"dtype": t}}).Output(0))
		}
		if o.Retry > 0 {
			id := op.Const(s, rand.Text())
			first := s.WithName("first").Add(op.Spec{Op: "Placeholder", Attrs: map[string]any{"dtype": tensor.Int64, "shape": shape.Scalar()}}).Output(0)
			s.WithName("enqueue").Add(op.Spec{Op: "TroupeQueueEnqueueManyOnce", Inputs: []op.Input{queue, id, first, rows}})
		} else {
			s.WithName("enqueue").Add(op.Spec{Op: "QueueEnqueueManyV2", Inputs: []op.Input{queue, rows}})
		}
		s.WithName("close").Add(op.Spec{Op: "QueueCloseV2", Inputs: []op.Input{queue}})
	})
	if err != nil {
		return nil, err
	}
	if err := q.openAnew(ctx, n, o.Retry); err != nil {
		return nil, err
	}
	p := &Producer[T]{nodes: n, queue: q, options: o, changed: make(chan struct{}), stats: started()}
	for i := range q.codec.fields {
		p.feeds = append(p.feeds, n.name("row"+strconv.Itoa(i)+":0"))
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	for range o.InFlight {
		p.senders.Go(p.send)
	}
	return p, nil
}

// openAnew reopens the queue if it is closed.
func (q *Of[T]) openAnew(ctx context.Context, n *nodes, retry time.Duration) error {
	out, err := retried(ctx, retry, func() ([]*tensor.Tensor, error) { return n.session.Run(ctx, nil, []string{n.name("open:0")}, nil) })
	if err != nil {
		return err
	}
	defer release(out)
	if tensor.Of[bool](out[0])[0] {
		return status.Errorf(status.FailedPrecondition, "queue %s is closed, and its server, which is TensorFlow's, does not open queues anew: delete it (Delete)", q.Name)
	}
	return nil
}

// notify wakes all goroutines that wait for a change. The caller holds the lock.
func (p *Producer[T]) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// await unlocks until something changes or a context ends, and adds the time to *spent.
func (p *Producer[T]) await(ctx context.Context, spent *time.Duration) error {
	changed, from := p.changed, time.Now()
	p.mu.Unlock()
	var err error
	select {
	case <-changed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.ctx.Done():
		err = context.Cause(p.ctx)
	}
	p.mu.Lock()
	*spent += time.Since(from)
	return err
}

// Put puts an element into the queue. It returns when the element is in flight. It waits while the queue is full and the producer has
// reached its limit of elements in flight. An error is that of an earlier element and ends the producer; Stats returns how many elements
// are in the queue.
func (p *Producer[T]) Put(ctx context.Context, row T) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && !p.ending && p.filled == p.options.Batch {
		if err := p.await(ctx, &p.stats.waiting); err != nil && p.err == nil {
			return err
		}
	}
	switch {
	case p.err != nil:
		return p.err
	case p.ending:
		return status.Errorf(status.Cancelled, "The producer of queue %s is closed", p.queue.Name)
	case p.filling == nil:
		rows, err := p.queue.codec.make(p.options.Batch)
		if err != nil {
			return err
		}
		p.filling = rows
	}
	if err := p.queue.codec.encode(p.filling, p.filled, &row); err != nil {
		return err
	}
	if p.filled++; p.filled == 1 {
		p.notify()
	}
	return nil
}

// send is a sender: until the producer ends, it takes the filled rows and runs a step with them.
func (p *Producer[T]) send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil {
		if p.filled == 0 {
			if p.ending {
				return
			}
			if err := p.await(p.ctx, &p.stats.idle); err != nil {
				p.fail(err)
			}
			continue
		}
		rows, n := p.filling, p.filled
		p.filling, p.filled = nil, 0
		p.flying++
		p.notify()
		p.mu.Unlock()
		err := p.enqueue(rows, n)
		p.mu.Lock()
		p.flying--
		if err != nil {
			p.fail(err)
			return
		}
		p.stats.elements += int64(n)
		p.stats.steps++
		p.notify()
	}
}

// fail ends the producer with an error. The caller holds the lock.
func (p *Producer[T]) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	release(p.filling)
	p.filling, p.filled = nil, 0
	p.notify()
}

// enqueue puts the first n rows into the queue.
func (p *Producer[T]) enqueue(rows []*tensor.Tensor, n int) error {
	defer release(rows)
	feeds := make(map[string]*tensor.Tensor, len(rows))
	for i, t := range rows {
		part := t
		if n < t.Dim(0) {
			part = t.Rows(0, n)
			defer part.Release()
		}
		if 2*n <= t.Dim(0) {
			// A queue in this process keeps the tensor, including memory that these few rows do not need.
			small, err := part.Clone(tensor.Host)
			if err != nil {
				return err
			}
			defer small.Release()
			part = small
		}
		feeds[p.feeds[i]] = part
	}
	if p.options.Retry > 0 {
		first := tensor.Scalar(tensor.Int64, p.first)
		defer first.Release()
		feeds[p.name("first:0")] = first
		p.first += int64(n)
	}
	_, err := retried(p.ctx, p.options.Retry, func() ([]*tensor.Tensor, error) {
		return p.session.Run(p.ctx, feeds, nil, []string{p.name("enqueue")})
	})
	return err
}

// Flush waits until everything that was put is in the queue.
func (p *Producer[T]) Flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var waited time.Duration
	for p.err == nil && p.filled+p.flying > 0 {
		if err := p.await(ctx, &waited); err != nil {
			return err
		}
	}
	return p.err
}

// Close waits until everything that was put is in the queue, closes the queue, and ends the producer. Later elements from other producers
// are refused.
func (p *Producer[T]) Close(ctx context.Context) error {
	if err := p.stop(ctx); err != nil {
		return err
	}
	return p.closeQueue(ctx, p.nodes)
}

// Detach is like Close, but does not close the queue.
func (p *Producer[T]) Detach(ctx context.Context) error { return p.stop(ctx) }

// stop flushes and ends the senders.
func (p *Producer[T]) stop(ctx context.Context) error {
	err := p.Flush(ctx)
	p.mu.Lock()
	p.ending = true
	if err != nil {
		p.fail(err)
	}
	p.notify()
	p.mu.Unlock()
	if err != nil {
		p.cancel() // cancels a step that still waits for room
	}
	p.senders.Wait()
	p.cancel()
	return err
}

// Fail closes the queue with a reason, and ends the producer. Consumers get what is in the queue, then an error with the code
// (graph/status) and the text of reason. Elements that were put and are not in the queue yet are dropped.
func (p *Producer[T]) Fail(ctx context.Context, reason error) error {
	p.mu.Lock()
	p.ending = true
	p.fail(reason)
	p.mu.Unlock()
	p.cancel()
	p.senders.Wait()
	n, err := p.queue.addNodes(ctx, p.session, p.options.Retry, func(s *op.Scope, queue op.Output, _ []tensor.DType) {
		s.WithName("close").Add(op.Spec{Op: "QueueCloseV2", Inputs: []op.Input{queue},
			Attrs: map[string]any{graph.CloseReasonAttr: reason.Error(), graph.CloseCodeAttr: int(status.CodeOf(reason))}})
	})
	if err != nil {
		return err
	}
	return p.closeQueue(ctx, n)
}

// closeQueue runs the step that closes the queue.
func (p *Producer[T]) closeQueue(ctx context.Context, n *nodes) error {
	attempts := 0
	_, err := retried(ctx, p.options.Retry, func() ([]*tensor.Tensor, error) {
		attempts++
		return n.session.Run(ctx, nil, nil, []string{n.name("close")})
	})
	if attempts > 1 && status.CodeOf(err) == status.Cancelled && ctx.Err() == nil {
		return nil // an earlier attempt has closed it
	}
	return err
}

// Range puts all elements of a sequence into the queue, then closes the queue, or detaches from it if KeepOpen is set. If the sequence
// yields an error, Range closes the queue with that reason and returns it.
func (p *Producer[T]) Range(ctx context.Context, rows iter.Seq2[T, error]) error {
	for row, err := range rows {
		if err == nil {
			if err = p.Put(ctx, row); err == nil {
				continue
			}
		}
		// The queue may be gone or the context done, but the cause is what matters.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if failed := p.Fail(closing, err); failed != nil {
			return errors.Join(err, failed)
		}
		return err
	}
	if p.options.KeepOpen {
		return p.Detach(ctx)
	}
	return p.Close(ctx)
}

// closeTime bounds how long a failed producer tries to close the queue.
const closeTime = 10 * time.Second

// Chan adapts a channel for Range.
func Chan[T any](ch <-chan T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row := range ch {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// All adapts a sequence without errors for Range.
func All[T any](rows iter.Seq[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Stats returns the producer's counters. Waiting is the time that Put waited for consumers to make room; Idle is the time that its senders
// waited for elements.
func (p *Producer[T]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats.stats()
}
