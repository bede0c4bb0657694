package dataflow

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/queues"
)

const (
	acknowledgedInput         = 2    // of a lease: the leases that it acknowledges
	leaseInputs, leaseOutputs = 3, 2 // the number of inputs and outputs of a lease before those of any number
)

// newLease returns the kernel that leases elements of the queue at input 0. Input 3 may be the queue for dead letters.
func newLease(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	ms, limit := a.Int("lease_ms"), a.Int("max_deliveries")
	if err := a.Err(); err != nil {
		return nil, err
	}
	terms := queues.Terms{Duration: time.Duration(min(ms, maxLeaseMs)) * time.Millisecond, MaxDeliveries: int(limit)}
	return queueWait(c, "dequeue", func(ctx *kernels.Context, q queues.User, end func(error)) func(error) {
		terms := terms
		n, err := leaseOf(ctx, q, &terms)
		var acknowledged []string
		if err == nil {
			acknowledged, err = leasesAt(ctx, acknowledgedInput)
		}
		if err != nil {
			end(err)
			return func(error) {}
		}
		l := &leasing{ctx: ctx, q: q, end: end}
		l.left.Store(1)
		if len(acknowledged) > 0 {
			// The queue ends these before it serves the lease, but a durable one says so when that is on disk. If it cannot, it refuses the lease
			// as well.
			l.left.Add(1)
			q.Acknowledge(acknowledged, func(held []bool, err error) {
				l.held, l.err = held, err
				l.answered()
			})
		}
		return q.Lease(n, terms, func(token string, tuple []*tensor.Tensor, err error) {
			if err != nil {
				end(err)
				return
			}
			l.token, l.tuple = token, tuple
			l.answered()
		})
	})
}

// leasing is a lease together with the acknowledgement of earlier ones.
type leasing struct {
	ctx  *kernels.Context
	q    queues.User
	end  func(error)
	left atomic.Int32 // answers to come; the last one ends the op

	held  []bool // the acknowledgement's answer
	err   error
	token string // the lease's
	tuple []*tensor.Tensor
}

// answered ends the op when both the acknowledgement and the lease have been answered.
func (l *leasing) answered() {
	if l.left.Add(-1) > 0 {
		return
	}
	err := l.err
	if err == nil {
		err = args.FirstError(args.OutputString(l.ctx, l.token), outputHeld(l.ctx, acknowledgedInput, 1, l.held))
	}
	if err != nil {
		// The step has ended, or there is no memory: nobody gets the elements.
		l.q.Return([]string{l.token}, func([]bool, error) {})
		for _, t := range l.tuple {
			t.Release()
		}
		l.tuple = nil
	}
	for i, t := range l.tuple {
		l.ctx.SetOutput(i+leaseOutputs, t)
	}
	l.end(err)
}

// maxLeaseMs is more than a queue accepts, and no overflow as a time.Duration.
const maxLeaseMs = 1 << 40

// leaseOf checks the inputs of a lease. It returns the number of elements, and completes the terms.
func leaseOf(ctx *kernels.Context, q queues.User, terms *queues.Terms) (n int, err error) {
	node := ctx.Node
	handles := len(node.InTypes) - leaseInputs
	if handles > 1 {
		return 0, status.InvalidArgumentf("Node %s has %d queues for dead letters, and may have one", node.Name, handles)
	}
	if err := matchQueue(node, node.InTypes, slices.Concat([]tensor.DType{tensor.String, tensor.Bool}, q.DTypes())); err != nil {
		return 0, err
	}
	if handles == 1 {
		if terms.DeadLetters, err = queueAt(ctx, leaseInputs); err != nil {
			return 0, err
		}
	}
	return batchSize(ctx)
}

// maxSettled is the maximum number of leases that an op ends or renews. The queue serves nothing else meanwhile.
const maxSettled = 1 << 16

// leasesAt returns the leases at an input.
func leasesAt(ctx *kernels.Context, input int) ([]string, error) {
	tokens := ctx.Input(input)
	if tokens.DType() != tensor.String || tokens.Len() > maxSettled {
		return nil, status.InvalidArgumentf("Node %s has %d leases of type %v, and may have up to %d of type string", ctx.Node.Name, tokens.Len(), tokens.DType(), maxSettled)
	}
	return slices.Clone(tokens.Strings()), nil
}

// outputHeld sets an output to what the queue says of the leases at an input.
func outputHeld(ctx *kernels.Context, input, output int, held []bool) error {
	out, err := ctx.Allocate(output, tensor.Bool, ctx.Input(input).Shape())
	if err == nil {
		copy(tensor.Of[bool](out), held)
	}
	return err
}

// settleLeases returns the constructor of the kernel that ends or renews leases.
func settleLeases(settle func(q *queues.Queue, tokens []string, done func(held []bool, err error))) func(*kernels.Construction) (any, error) {
	return func(*kernels.Construction) (any, error) {
		return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
			q, err := queueOf(ctx)
			var tokens []string
			if err == nil {
				tokens, err = leasesAt(ctx, 1)
			}
			if err != nil {
				done(err)
				return
			}
			settle(q, tokens, func(held []bool, err error) {
				if err == nil {
					err = outputHeld(ctx, 1, 0, held)
				}
				done(err)
			})
		}), nil
	}
}

// newEnqueueManyOnce returns the kernel that enqueues the rows of its inputs, unless they have been stored before.
func newEnqueueManyOnce(c *kernels.Construction) (any, error) {
	return queueWait(c, "enqueue", func(ctx *kernels.Context, q queues.User, end func(error)) func(error) {
		const fixed = 3 // inputs before the components
		err := matchQueue(c.Node, slices.Concat(c.Node.InTypes[:fixed], q.DTypes()), nil)
		var producer string
		var first int64
		if err == nil {
			producer, err = args.ScalarString(ctx, 1, "producer must be a scalar string")
		}
		if err == nil {
			first, err = args.ScalarNumber(ctx, 2, tensor.Int64, "first must be an int64 scalar")
		}
		if err != nil {
			end(err)
			return func(error) {}
		}
		return q.EnqueueManyOnce(producer, first, components(ctx, fixed), end)
	})
}
