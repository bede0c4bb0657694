package pipeline

import (
	"context"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// ConsumerOptions configures a consumer.
type ConsumerOptions struct {
	// Batch is the number of elements in a batch; 0 means 1. Only the last batch of a closed queue may be smaller.
	Batch int
	// Prefetch is the number of batches that may be taken from the queue before the loop asks for them. With 0, a batch is taken only on
	// request, and a loop that ends early loses none.
	Prefetch int
	// Lease makes the delivery at-least-once. A batch is leased to the loop, which acknowledges it when it asks for the next one, or earlier
	// with Batch.Acknowledge. Until then the consumer renews the lease, which lasts this long. If the process dies or freezes, or the
	// connection is lost, the elements go back to the front of the queue when the lease expires, and to another consumer. They do so at once
	// if the loop ends early. With 0, elements leave the queue when they are taken. Servers of TensorFlow have no leases: there, Consumer
	// fails with NOT_FOUND.
	Lease time.Duration
	// MaxDeliveries is the number of deliveries after which an element that comes back becomes a dead letter; 0 means no limit.
	MaxDeliveries int
	// DeadLetters is the queue for dead letters. It has the same element type, and both queues name the same Device. While it is full, the
	// dead letters keep their room in the queue that they come from, which does not end meanwhile. If it is nil, dead letters are dropped;
	// listings count them.
	DeadLetters *Queue
	// Retry is how long a step is retried that fails with UNAVAILABLE or ABORTED, because a task or a connection was lost; 0 means not at
	// all. It needs a Lease. See Reconnect.
	Retry time.Duration
}

// Consumer takes elements from a queue.
type Consumer[T any] struct {
	*nodes
	queue   *Of[T]
	options ConsumerOptions
	fetches map[bool][]string // of the dequeue, keyed by begun

	mu    sync.Mutex
	begun bool // an element has been taken since the queue was opened
	stats counters
}

// Consumer makes a consumer in a session.
func (q *Of[T]) Consumer(ctx context.Context, session Session, o ConsumerOptions) (*Consumer[T], error) {
	if o.Batch == 0 {
		o.Batch = 1
	}
	if o.Batch < 0 || o.Prefetch < 0 {
		return nil, status.InvalidArgumentf("Queue %s: batches of %d elements, %d of them prefetched", q.Name, o.Batch, o.Prefetch)
	}
	if err := q.checkLease(o); err != nil {
		return nil, err
	}
	n, err := q.addNodes(ctx, session, o.Retry, func(s *op.Scope, queue op.Output, types []tensor.DType) {
		count := s.WithName("n").Add(op.Spec{Op: "Const", Attrs: map[string]any{"dtype": tensor.Int32, "value": tensor.Scalar(tensor.Int32, int32(o.Batch))}})
		if o.Lease > 0 {
			q.addLease(s, queue, count.Output(0), types, o)
			return
		}
		inputs := []op.Input{queue, count.Output(0)}
		s.WithName("first").Add(op.Spec{Op: "QueueDequeueUpToV2", Inputs: inputs, Attrs: map[string]any{"component_types": types, graph.OpenWaitAttr: q.openWaitMs()}})
		s.WithName("dequeue").Add(op.Spec{Op: "QueueDequeueUpToV2", Inputs: inputs, Attrs: map[string]any{"component_types": types}})
	})
	if err != nil {
		return nil, err
	}
	c := &Consumer[T]{nodes: n, queue: q, options: o, stats: started(), fetches: map[bool][]string{}}
	outputs := len(q.codec.fields)
	if o.Lease > 0 {
		outputs += 2 // the lease, and which of the leases that it acknowledges were held
	}
	for i := range outputs {
		c.fetches[false] = append(c.fetches[false], n.name("first:"+strconv.Itoa(i)))
		c.fetches[true] = append(c.fetches[true], n.name("dequeue:"+strconv.Itoa(i)))
	}
	return c, nil
}

// Batches yields the elements in batches until the queue is closed and empty. It ends with an error if the
// producer failed, a step fails, or ctx ends. A batch is valid until the next iteration of the loop.
//
// With leases, the end comes when no consumer holds a lease any more. When the loop ends early, the batches that it has not acknowledged go
// back to the queue.
//
// If an earlier run has closed the queue and left it empty, the loop waits up to the queue's OpenWait for a producer to reopen it. Then it
// ends with FAILED_PRECONDITION, or with the code of the earlier producer's failure. The error says who closed the queue, and when. After
// the end, another loop reads the next run's elements.
func (c *Consumer[T]) Batches(ctx context.Context) iter.Seq2[*Batch[T], error] {
	return func(yield func(*Batch[T], error) bool) {
		var leases *leases
		if c.options.Lease > 0 {
			leases = c.newLeases(ctx, c.options, c.countExpired)
			defer leases.close(ctx)
		}
		next, end := c.source(ctx, leases)
		defer end()
		for {
			b, err := next()
			if leases != nil && err == nil {
				err = leases.failed()
			}
			if err != nil {
				b.release()
				yield(nil, err)
				return
			}
			if b == nil || !deliver(b, yield) {
				return
			}
		}
	}
}

// returnTime is how long a loop that ends waits for a batch in flight, to return it.
const returnTime = 200 * time.Millisecond

// source returns a function that returns the next batch, or nil if there are no more, and one that ends the prefetching.
func (c *Consumer[T]) source(ctx context.Context, leases *leases) (next func() (*Batch[T], error), end func()) {
	if c.options.Prefetch == 0 {
		return func() (*Batch[T], error) {
			from := time.Now()
			b, err := c.take(ctx, leases)
			c.count(b, time.Since(from), 0)
			return b, err
		}, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	type taken struct {
		batch *Batch[T]
		err   error
	}
	ahead := make(chan taken, c.options.Prefetch-1) // plus one in hand, waiting to be sent
	var ending atomic.Bool
	go func() {
		defer close(ahead)
		for !ending.Load() {
			b, err := c.take(ctx, leases)
			from := time.Now()
			ahead <- taken{b, err}
			c.count(nil, 0, time.Since(from))
			if b == nil {
				return
			}
		}
	}()
	return func() (*Batch[T], error) {
			from := time.Now()
			t := <-ahead
			c.count(t.batch, time.Since(from), 0)
			return t.batch, t.err
		}, func() {
			ending.Store(true)
			if leases != nil {
				// The lease of a batch in flight would be known to nobody, and would have to expire.
				defer cancel()
				defer time.AfterFunc(returnTime, cancel).Stop()
			} else {
				cancel()
			}
			for t := range ahead {
				t.batch.release()
			}
		}
}

// deliver yields a batch, and reports whether the loop continues. It then acknowledges the batch.
func deliver[T any](b *Batch[T], yield func(*Batch[T], error) bool) bool {
	defer b.release()
	if !yield(b, nil) {
		return false
	}
	if b.leases != nil {
		b.leases.use(b.token)
	}
	return true
}

// countExpired counts elements that were used and not acknowledged in time.
func (c *Consumer[T]) countExpired(elements int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.expired += int64(elements)
}

func (c *Consumer[T]) count(b *Batch[T], waiting, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.waiting += waiting
	c.stats.idle += idle
	if b != nil {
		c.stats.elements += int64(b.Len())
		c.stats.steps++
	}
}

// take takes a batch from the queue. It returns nil if there are no more, with an error unless the queue has ended.
func (c *Consumer[T]) take(ctx context.Context, leases *leases) (*Batch[T], error) {
	c.mu.Lock()
	fetches := c.fetches[c.begun]
	c.mu.Unlock()
	var l lease
	var err error
	if leases != nil {
		l, err = leases.lease(ctx, fetches)
	} else {
		l.components, err = c.session.Run(ctx, nil, fetches, nil)
	}
	ended := status.CodeOf(err) == status.OutOfRange && ctx.Err() == nil
	if err == nil || ended {
		c.mu.Lock()
		c.begun = !ended
		c.mu.Unlock()
	}
	switch {
	case ended:
		return nil, nil
	case err != nil:
		return nil, err
	}
	b := &Batch[T]{codec: c.queue.codec, tensors: l.components, leases: leases, token: l.token}
	if err := c.queue.codec.check(b.tensors); err != nil {
		b.release()
		return nil, err
	}
	if leases != nil {
		leases.add(b.token, b.Len())
	}
	return b, nil
}

// Stats returns the consumer's counters. Waiting is the time that the loop waited for elements; Idle is the time that prefetched batches
// waited for the loop.
func (c *Consumer[T]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats.stats()
}

// Batch holds elements as rows of tensors.
type Batch[T any] struct {
	codec   *codec[T]
	tensors []*tensor.Tensor
	leases  *leases // of the loop; nil without leases
	token   string  // of the batch's lease
}

func (b *Batch[T]) release() {
	if b != nil {
		release(b.tensors)
	}
}

// Len returns the number of elements.
func (b *Batch[T]) Len() int { return b.tensors[0].Dim(0) }

// At returns a copy of the i-th element.
func (b *Batch[T]) At(i int) (row T) {
	b.codec.decode(b.tensors, i, &row)
	return row
}

// All yields copies of the elements with their indexes.
func (b *Batch[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range b.Len() {
			if !yield(i, b.At(i)) {
				return
			}
		}
	}
}

// Tensors returns the components, one for each field, with a first dimension of Len, ready to be fed to a training step. To keep a tensor
// beyond the loop's iteration, retain it.
func (b *Batch[T]) Tensors() []*tensor.Tensor { return b.tensors }
