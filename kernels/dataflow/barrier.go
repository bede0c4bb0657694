package dataflow

import (
	"github.com/troupe-run/troupe/containers/barrier"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// newBarrier returns the kernel that outputs a barrier's handle. A barrier without shared_name is private to the session.
func newBarrier(c *kernels.Construction) (any, error) {
	o := barrier.Options{Pool: c.Device.Pool()}
	var err error
	if o.DTypes, err = c.Attrs().TypeList("component_types"); err != nil {
		return nil, err
	}
	shapes, err := c.Attrs().List("shapes")
	if err != nil {
		return nil, err
	}
	for i, p := range shapes.GetShape() {
		// A shape of unknown rank, which the client sends if none was given, stands for a scalar's.
		s, _ := tensor.ShapeFromProto(p)
		if _, err := s.NumElements(); err != nil {
			return nil, status.InvalidArgumentf("Component %d of barrier '%s' needs a fully defined shape: %v", i, c.Node.Name, err)
		}
		o.Shapes = append(o.Shapes, s)
	}
	if len(o.Shapes) != len(o.DTypes) {
		return nil, status.InvalidArgumentf("All of the component shapes must be specified")
	}
	capacity, err := c.Attrs().Int("capacity")
	if err != nil {
		return nil, err
	}
	if capacity != -1 {
		return nil, status.InvalidArgumentf("Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce a limited capacity.")
	}
	return kernels.NewSource(c, kernels.KindBarrier, kernels.NamedBySession, func(name string) (*barrier.Barrier, error) {
		named := o
		named.Name = name
		return barrier.New(named), nil
	}, func(b *barrier.Barrier) error { return b.Matches(o) })
}

// barrierOf returns the barrier named by the handle at input 0.
func barrierOf(ctx *kernels.Context) (*barrier.Barrier, error) {
	return kernels.ResourceAt[*barrier.Barrier](ctx, 0, kernels.KindBarrier)
}

func newBarrierInsert(c *kernels.Construction) (any, error) {
	index, err := c.Attrs().Int("component_index")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		b, err := barrierOf(ctx)
		if err != nil {
			return err
		}
		dtypes := b.DTypes()
		if index < 0 || index >= int64(len(dtypes)) {
			return status.InvalidArgumentf("The component ID is out of range %d > num_components (= %d)", index, len(dtypes))
		}
		if err := matchSignature(ctx, []tensor.DType{handleType(ctx), tensor.String, dtypes[index]}, nil); err != nil {
			return err
		}
		if err := b.InsertMany(ctx.Changes(), int(index), ctx.Input(1).Strings(), ctx.Input(2)); err != nil {
			return err
		}
		b.HasPut(ctx.Step.Origin)
		return nil
	}), nil
}

func newBarrierTake(c *kernels.Construction) (any, error) {
	timeout, err := c.Attrs().Int("timeout_ms")
	if err != nil {
		return nil, err
	}
	if timeout != -1 {
		return nil, status.InvalidArgumentf("Timeout not supported yet.")
	}
	smallBatch, err := c.Attrs().Bool("allow_small_batch")
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		b, n, err := barrierTakeInputs(ctx)
		if err != nil {
			done(err)
			return
		}
		kernels.Wait(ctx, kernels.Awaited{Resource: b, Verb: "take", Amount: int64(n)}, done, func(end func(error)) func(error) {
			end = noting(ctx, b.HasTaken, end)
			return b.TakeMany(ctx.Step.Cancellation, ctx.Changes(), n, smallBatch, func(taken *barrier.Taken, err error) {
				if err == nil {
					for i, t := range taken.All() {
						ctx.SetOutput(i, t)
					}
				}
				end(err)
			})
		})
	}), nil
}

func barrierTakeInputs(ctx *kernels.Context) (b *barrier.Barrier, n int, err error) {
	if b, err = barrierOf(ctx); err != nil {
		return nil, 0, err
	}
	if ctx.Input(1).Rank() != 0 {
		return nil, 0, status.InvalidArgumentf("num_elements must be a scalar.")
	}
	if n, err = args.ScalarInput32(ctx, 1, ""); err != nil {
		return nil, 0, err
	}
	outputs := append([]tensor.DType{tensor.Int64, tensor.String}, b.DTypes()...)
	return b, n, matchSignature(ctx, []tensor.DType{handleType(ctx), tensor.Int32}, outputs)
}

func newBarrierClose(c *kernels.Construction) (any, error) {
	cancel, err := c.Attrs().Bool("cancel_pending_enqueues")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		b, err := barrierOf(ctx)
		if err != nil {
			return err
		}
		return b.CloseBarrier(ctx.Changes(), cancel, ctx.Step.Origin)
	}), nil
}

func barrierSize(of func(*barrier.Barrier) int) kernels.Func {
	return func(ctx *kernels.Context) error {
		b, err := barrierOf(ctx)
		if err == nil {
			ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(of(b))))
		}
		return err
	}
}
