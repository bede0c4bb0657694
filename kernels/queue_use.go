package kernels

import (
	"slices"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues"
)

// queueOf is the queue that the handle at input 0 names.
func queueOf(ctx *Context) (*queues.Queue, error) {
	container, name, err := "", "", error(nil)
	if ref := ctx.Ref(0); ref != nil {
		t := ref.Read()
		if t == nil {
			return nil, ref.Uninitialized()
		}
		defer t.Release()
		if t.DType() != tensor.String || t.Len() != 2 {
			return nil, status.InvalidArgumentf("A queue's reference handle must hold 2 strings, got %v%v", t.DType(), t.Shape())
		}
		container, name = t.Strings()[0], t.Strings()[1]
	} else {
		var h *tensor.Handle
		if h, err = ctx.Handle(0); err != nil {
			return nil, err
		}
		if q, ok := h.Local.(*queues.Queue); ok {
			return q, nil
		}
		container, name = h.Container, h.Name
	}
	r, err := ctx.Device.Resources().Lookup(container, kindQueue, name)
	if err != nil {
		return nil, err
	}
	q, ok := r.(*queues.Queue)
	if !ok {
		return nil, status.InvalidArgumentf("Resource %s/%s is not a queue", container, name)
	}
	return q, nil
}

// queueAccess makes the kernel of an op that may wait for a queue. start begins the operation;
// it gets the step's cancellation by way of the function that it returns.
func queueAccess(c *Construction, start func(ctx *Context, q *queues.Queue, end func(error)) (cancel func(error))) (any, error) {
	timeout, err := c.Attrs().Int("timeout_ms")
	if err != nil {
		return nil, err
	}
	if timeout != -1 {
		return nil, status.InvalidArgumentf("Timeout not supported yet.")
	}
	return AsyncFunc(func(ctx *Context, done func(error)) {
		q, err := queueOf(ctx)
		if err == nil {
			err = ctx.Step.Cancellation.Err()
		}
		if err != nil {
			done(err)
			return
		}
		cancellation := ctx.Step.Cancellation
		w := &cancellable{done: done}
		// From here on the operation may end at any time, and the context with it.
		w.attach(cancellation, start(ctx, q, w.end))
	}), nil
}

// cancellable is an operation that is under way: what ends it tells the step's cancellation so,
// whichever comes first.
type cancellable struct {
	done     func(error)
	mu       sync.Mutex
	ended    bool
	withdraw func() bool
}

// attach makes c cancel the operation while it lasts.
func (w *cancellable) attach(c *Cancellation, cancel func(error)) {
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	if ended {
		return
	}
	withdraw, ok := c.OnCancel(cancel)
	if !ok {
		cancel(c.Err())
		return
	}
	w.mu.Lock()
	ended = w.ended
	w.withdraw = withdraw
	w.mu.Unlock()
	if ended {
		withdraw()
	}
}

// end ends the operation; only the first call counts.
func (w *cancellable) end(err error) {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return
	}
	w.ended = true
	withdraw := w.withdraw
	w.mu.Unlock()
	if withdraw != nil {
		withdraw()
	}
	w.done(err)
}

func newEnqueue(c *Construction) (any, error) {
	return queueAccess(c, func(ctx *Context, q *queues.Queue, end func(error)) func(error) {
		return q.Enqueue(components(ctx), end)
	})
}

func newEnqueueMany(c *Construction) (any, error) {
	return queueAccess(c, func(ctx *Context, q *queues.Queue, end func(error)) func(error) {
		return q.EnqueueMany(components(ctx), end)
	})
}

// components takes over the inputs after the handle.
func components(ctx *Context) []*tensor.Tensor {
	tuple := make([]*tensor.Tensor, ctx.NumInputs()-1)
	for i := range tuple {
		tuple[i] = ctx.Take(i + 1)
	}
	return tuple
}

func newDequeue(c *Construction) (any, error) {
	return dequeue(c, func(ctx *Context, q *queues.Queue, take func([]*tensor.Tensor, error)) func(error) {
		return q.Dequeue(take)
	})
}

func newDequeueMany(c *Construction) (any, error) {
	return dequeue(c, func(ctx *Context, q *queues.Queue, take func([]*tensor.Tensor, error)) func(error) {
		n, err := batchSize(ctx)
		if err != nil {
			take(nil, err)
			return func(error) {}
		}
		return q.DequeueMany(n, take)
	})
}

func newDequeueUpTo(c *Construction) (any, error) {
	return dequeue(c, func(ctx *Context, q *queues.Queue, take func([]*tensor.Tensor, error)) func(error) {
		n, err := batchSize(ctx)
		if err != nil {
			take(nil, err)
			return func(error) {}
		}
		return q.DequeueUpTo(n, take)
	})
}

func batchSize(ctx *Context) (int, error) {
	n := ctx.Input(1)
	if err := needScalar(n, tensor.Int32, "n must be a scalar, but it has shape %v"); err != nil {
		return 0, err
	}
	return int(tensor.Of[int32](n)[0]), nil
}

func dequeue(c *Construction, start func(ctx *Context, q *queues.Queue, take func([]*tensor.Tensor, error)) func(error)) (any, error) {
	want, err := c.Attrs().TypeList("component_types")
	if err != nil {
		return nil, err
	}
	return queueAccess(c, func(ctx *Context, q *queues.Queue, end func(error)) func(error) {
		if have := q.DTypes(); !slices.Equal(have, want) {
			end(status.InvalidArgumentf("Signature mismatch, have: %s expected: %s", typeNames(want), typeNames(have)))
			return func(error) {}
		}
		return start(ctx, q, func(tuple []*tensor.Tensor, err error) {
			for i, t := range tuple {
				ctx.SetOutput(i, t)
			}
			end(err)
		})
	})
}

func typeNames(dtypes []tensor.DType) string {
	names := make([]string, len(dtypes))
	for i, d := range dtypes {
		names[i] = d.String()
	}
	return strings.Join(names, ", ")
}

func newQueueClose(c *Construction) (any, error) {
	cancelPending, err := c.Attrs().Bool("cancel_pending_enqueues")
	if err != nil {
		return nil, err
	}
	return AsyncFunc(func(ctx *Context, done func(error)) {
		q, err := queueOf(ctx)
		if err != nil {
			done(err)
			return
		}
		// Closing waits for the enqueues before it. A step that is cancelled meanwhile does not:
		// the queue closes later without it.
		cancellation := ctx.Step.Cancellation
		w := &cancellable{done: done}
		q.CloseQueue(cancelPending, w.end)
		w.attach(cancellation, func(cause error) { w.end(cancelled(cause)) })
	}), nil
}

// cancelled is the error of what a cancelled step gave up waiting for.
func cancelled(cause error) error {
	if cause == nil {
		return ErrStepCancelled
	}
	return status.Derive(status.Errorf(status.Cancelled, "Step was cancelled: %v", cause))
}

func newQueueSize(*Construction) (any, error) {
	return AsyncFunc(func(ctx *Context, done func(error)) {
		q, err := queueOf(ctx)
		if err != nil {
			done(err)
			return
		}
		q.Size(func(n int, err error) {
			if err == nil {
				ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(n)))
			}
			done(err)
		})
	}), nil
}

func newQueueIsClosed(*Construction) (any, error) {
	return AsyncFunc(func(ctx *Context, done func(error)) {
		q, err := queueOf(ctx)
		if err != nil {
			done(err)
			return
		}
		q.IsClosed(func(closed bool, err error) {
			if err == nil {
				ctx.SetOutput(0, tensor.Scalar(tensor.Bool, closed))
			}
			done(err)
		})
	}), nil
}
