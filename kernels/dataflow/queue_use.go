package dataflow

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/queues"
)

// queueOf returns the queue named by the handle at input 0.
func queueOf(ctx *kernels.Context) (*queues.Queue, error) { return queueAt(ctx, 0) }

// queueAt returns the queue named by the handle at input i.
func queueAt(ctx *kernels.Context, i int) (*queues.Queue, error) {
	return kernels.ResourceAt[*queues.Queue](ctx, i, kernels.KindQueue)
}

// queueAccess returns the kernel of an op that may wait for a queue. start begins the operation and returns the function that cancels it.
func queueAccess(c *kernels.Construction, verb string, start func(ctx *kernels.Context, q queues.User, end func(error)) (cancel func(error))) (any, error) {
	timeout, err := c.Attrs().Int("timeout_ms")
	if err != nil {
		return nil, err
	}
	if timeout != -1 {
		return nil, status.InvalidArgumentf("Timeout not supported yet.")
	}
	return queueWait(c, verb, start)
}

// queueWait is queueAccess for an op without the attribute timeout_ms.
func queueWait(c *kernels.Construction, verb string, start func(ctx *kernels.Context, q queues.User, end func(error)) (cancel func(error))) (any, error) {
	openWait, late, err := openWait(c.Attrs())
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		q, err := queueOf(ctx)
		if err != nil {
			done(err)
			return
		}
		user := q.For(ctx.Step.Origin, ctx.Step.Cancellation, ctx.Changes()).Noting(ctx.Step.Notes)
		if late {
			user = user.AwaitingOpen(openWait)
		}
		kernels.Wait(ctx, kernels.Awaited{Resource: q, Verb: verb, Amount: elements(ctx)}, done, func(end func(error)) func(error) { return start(ctx, user, end) })
	}), nil
}

// maxOpenWait limits how long an op waits for a queue to be opened or emptied.
const maxOpenWait = 24 * time.Hour

// openWait returns how long an op waits for its queue to be opened or emptied; given is false for an op that does not wait.
func openWait(a graph.Attrs) (wait time.Duration, given bool, err error) {
	if _, given = a[graph.OpenWaitAttr]; !given {
		return 0, false, nil
	}
	ms, err := a.Int(graph.OpenWaitAttr)
	if err == nil && (ms < 0 || ms > maxOpenWait.Milliseconds()) {
		err = status.InvalidArgumentf("%s is %d, and must be from 0 to %d", graph.OpenWaitAttr, ms, maxOpenWait.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, true, err
}

func newEnqueue(c *kernels.Construction) (any, error) { return enqueue(c, queues.User.Enqueue) }

func newEnqueueMany(c *kernels.Construction) (any, error) {
	return enqueue(c, queues.User.EnqueueMany)
}

// elements returns the number of elements that an op requests from a queue, if its input specifies it.
func elements(ctx *kernels.Context) int64 {
	switch ctx.Node.Op {
	case "QueueDequeueManyV2", "QueueDequeueUpToV2", "QueueDequeueMany", "QueueDequeueUpTo", "TroupeQueueLease":
		if n, err := batchSize(ctx); err == nil { // an invalid size is reported by the op
			return int64(n)
		}
	}
	return 1
}

func enqueue(c *kernels.Construction, start func(queues.User, []*tensor.Tensor, func(error)) func(error)) (any, error) {
	return queueAccess(c, "enqueue", func(ctx *kernels.Context, q queues.User, end func(error)) func(error) {
		if err := matchQueue(c.Node, slices.Concat(c.Node.InTypes[:1], q.DTypes()), nil); err != nil {
			end(err)
			return func(error) {}
		}
		return start(q, components(ctx, 1), end)
	})
}

// matchQueue returns INVALID_ARGUMENT if a node does not have the inputs and outputs that the queue's components require.
func matchQueue(n *graph.Node, inputs, outputs []tensor.DType) error {
	if slices.Equal(n.InTypes, inputs) && slices.Equal(n.OutTypes, outputs) {
		return nil
	}
	return status.InvalidArgumentf("Signature mismatch, have: %s->%s expected: %s->%s",
		dtypes.TypeNames(n.InTypes), dtypes.TypeNames(n.OutTypes), dtypes.TypeNames(inputs), dtypes.TypeNames(outputs))
}

// components takes over the inputs from a position on.
func components(ctx *kernels.Context, from int) []*tensor.Tensor {
	tuple := make([]*tensor.Tensor, ctx.NumInputs()-from)
	for i := range tuple {
		tuple[i] = ctx.Take(i + from)
	}
	return tuple
}

func newDequeue(c *kernels.Construction) (any, error) {
	return dequeue(c, func(ctx *kernels.Context, q queues.User, take func([]*tensor.Tensor, error)) func(error) {
		return q.Dequeue(take)
	})
}

func newDequeueMany(c *kernels.Construction) (any, error) {
	return dequeue(c, func(ctx *kernels.Context, q queues.User, take func([]*tensor.Tensor, error)) func(error) {
		n, err := batchSize(ctx)
		if err != nil {
			take(nil, err)
			return func(error) {}
		}
		return q.DequeueMany(n, take)
	})
}

func newDequeueUpTo(c *kernels.Construction) (any, error) {
	return dequeue(c, func(ctx *kernels.Context, q queues.User, take func([]*tensor.Tensor, error)) func(error) {
		n, err := batchSize(ctx)
		if err != nil {
			take(nil, err)
			return func(error) {}
		}
		return q.DequeueUpTo(n, take)
	})
}

func batchSize(ctx *kernels.Context) (int, error) {
	n := ctx.Input(1)
	if err := args.NeedScalar(n, tensor.Int32, "n must be a scalar, but it has shape %v"); err != nil {
		return 0, err
	}
	return int(tensor.Of[int32](n)[0]), nil
}

func dequeue(c *kernels.Construction, start func(ctx *kernels.Context, q queues.User, take func([]*tensor.Tensor, error)) func(error)) (any, error) {
	return queueAccess(c, "dequeue", func(ctx *kernels.Context, q queues.User, end func(error)) func(error) {
		if err := matchQueue(c.Node, c.Node.InTypes, q.DTypes()); err != nil {
			end(err)
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

func newQueueClose(c *kernels.Construction) (any, error) {
	cancelPending, err := c.Attrs().Bool("cancel_pending_enqueues")
	if err != nil {
		return nil, err
	}
	reason, err := closeReason(c.Attrs())
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		q, err := queueOf(ctx)
		if err != nil {
			done(err)
			return
		}
		// Closing waits for earlier enqueues. A step that is cancelled meanwhile stops waiting; the queue still closes later.
		kernels.Wait(ctx, kernels.Awaited{Resource: q, Verb: "close"}, done, func(end func(error)) func(error) {
			return q.For(ctx.Step.Origin, ctx.Step.Cancellation, ctx.Changes()).CloseQueue(cancelPending, reason, end)
		})
	}), nil
}

// closeReason returns the error that dequeues are to fail with, or nil for a queue that closes normally.
func closeReason(a graph.Attrs) (reason, err error) {
	if _, given := a[graph.CloseReasonAttr]; !given {
		return nil, nil
	}
	text, err := a.Str(graph.CloseReasonAttr)
	if err != nil {
		return nil, err
	}
	code := status.Unknown
	if _, given := a[graph.CloseCodeAttr]; given {
		c, err := a.Int(graph.CloseCodeAttr)
		if err != nil {
			return nil, err
		}
		if c > 0 && status.Code(c) != status.OutOfRange {
			code = status.Code(c)
		}
	}
	return status.New(code, text), nil
}

func newQueueSize(*kernels.Construction) (any, error) {
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
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

func newQueueIsClosed(c *kernels.Construction) (any, error) {
	wait, opens, err := openWait(c.Attrs())
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		q, err := queueOf(ctx)
		if err != nil {
			done(err)
			return
		}
		if opens {
			kernels.Wait(ctx, kernels.Awaited{Resource: q, Verb: "open"}, func(err error) {
				if err == nil {
					ctx.SetOutput(0, tensor.Scalar(tensor.Bool, false))
				}
				done(err)
			}, func(end func(error)) func(error) {
				return q.For(ctx.Step.Origin, ctx.Step.Cancellation, ctx.Changes()).Open(wait, end)
			})
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
