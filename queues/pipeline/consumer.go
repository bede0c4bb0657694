package pipeline

import (
	"context"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// ConsumerOptions configures how a consumer takes elements.
type ConsumerOptions struct {
	// Batch is the number of elements of a batch, 1 if it is 0. Only the last batch of a closed queue may be
	// smaller.
	Batch int
	// Prefetch is the number of batches that may be taken from the queue before the loop asks for them. With 0, a
	// batch is taken when the loop asks, and a loop that ends early loses none.
	Prefetch int
}

// Consumer takes elements out of a queue.
type Consumer[T any] struct {
	*nodes
	queue   *Of[T]
	options ConsumerOptions
	fetches []string

	mu    sync.Mutex
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
	n, err := q.open(ctx, session, func(s *op.Scope, queue op.Output, types []tensor.DType) {
		count := s.WithName("n").Add(op.Spec{Op: "Const", Attrs: map[string]any{"dtype": tensor.Int32, "value": tensor.Scalar(tensor.Int32, int32(o.Batch))}})
		s.WithName("dequeue").Add(op.Spec{Op: "QueueDequeueUpToV2", Inputs: []op.Input{queue, count.Output(0)}, Attrs: map[string]any{"component_types": types}})
	})
	if err != nil {
		return nil, err
	}
	c := &Consumer[T]{nodes: n, queue: q, options: o, stats: started()}
	for i := range q.codec.fields {
		c.fetches = append(c.fetches, n.name("dequeue:"+strconv.Itoa(i)))
	}
	return c, nil
}

// Batches yields the elements in batches until the queue is closed and empty. It ends with an error if the
// producer failed, a step fails, or ctx ends. A batch is valid until the next iteration of the loop.
func (c *Consumer[T]) Batches(ctx context.Context) iter.Seq2[*Batch[T], error] {
	if c.options.Prefetch == 0 {
		return func(yield func(*Batch[T], error) bool) {
			for {
				from := time.Now()
				b, err := c.take(ctx)
				c.count(b, time.Since(from), 0)
				if !deliver(b, err, yield) {
					return
				}
			}
		}
	}
	return func(yield func(*Batch[T], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		type taken struct {
			batch *Batch[T]
			err   error
		}
		ahead := make(chan taken, c.options.Prefetch-1) // one more waits to go in
		go func() {
			defer close(ahead)
			for {
				b, err := c.take(ctx)
				from := time.Now()
				ahead <- taken{b, err}
				c.count(nil, 0, time.Since(from))
				if b == nil {
					return
				}
			}
		}()
		defer func() {
			cancel()
			for t := range ahead {
				t.batch.release()
			}
		}()
		for {
			from := time.Now()
			t := <-ahead
			c.count(t.batch, time.Since(from), 0)
			if !deliver(t.batch, t.err, yield) {
				return
			}
		}
	}
}

// deliver gives the loop a batch or an error, and tells whether it goes on.
func deliver[T any](b *Batch[T], err error, yield func(*Batch[T], error) bool) bool {
	if b == nil {
		if err != nil {
			yield(nil, err)
		}
		return false
	}
	defer b.release()
	return yield(b, nil)
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

// take takes a batch out of the queue; nil where there will be none, with an error if that is not the queue's end.
func (c *Consumer[T]) take(ctx context.Context) (*Batch[T], error) {
	out, err := c.session.Run(ctx, nil, c.fetches, nil)
	if err != nil {
		if status.CodeOf(err) == status.OutOfRange && ctx.Err() == nil {
			return nil, nil
		}
		return nil, err
	}
	if err := c.queue.codec.check(out); err != nil {
		release(out)
		return nil, err
	}
	return &Batch[T]{c.queue.codec, out}, nil
}

// Stats returns the consumer's counters. Waiting is the time that the loop waited for elements, Idle the time
// that prefetched batches waited for the loop.
func (c *Consumer[T]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats.stats()
}

// Batch is some elements, as rows of tensors.
type Batch[T any] struct {
	codec   *codec[T]
	tensors []*tensor.Tensor
}

func (b *Batch[T]) release() {
	if b != nil {
		release(b.tensors)
	}
}

// Len is how many elements there are.
func (b *Batch[T]) Len() int { return b.tensors[0].Dim(0) }

// At is the i-th element, a copy.
func (b *Batch[T]) At(i int) (row T) {
	b.codec.decode(b.tensors, i, &row)
	return row
}

// All is the elements with their indexes. Each is a copy.
func (b *Batch[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range b.Len() {
			if !yield(i, b.At(i)) {
				return
			}
		}
	}
}

// Tensors are the components, one for each field, with a first dimension of Len, ready to be fed to a training
// step. Retain a tensor that has to outlive the loop's iteration.
func (b *Batch[T]) Tensors() []*tensor.Tensor { return b.tensors }
