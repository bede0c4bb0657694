package state

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// scatterRef returns the constructor of an op that updates rows of a reference variable; scatterVariable is the same for a resource
// variable. Updates of one variable exclude each other with and without use_locking.
func scatterRef(op update.Op) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		return kernels.Func(func(ctx *kernels.Context) error {
			v := ctx.Ref(0)
			if err := update.ScatterTypes(v.DType(), ctx.Input(2)); err != nil {
				return err
			}
			err := variable.Update(ctx, v, func(t *tensor.Tensor) error {
				return scatterRows(ctx, op, t, false)
			})
			if err == nil {
				ctx.Pass(0, 0)
			}
			return err
		}), nil
	}
}

func scatterVariable(op update.Op) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		return kernels.Func(func(ctx *kernels.Context) error {
			v, err := ctx.Variable(0)
			if err != nil {
				return err
			}
			if err := update.ScatterTypes(v.DType(), ctx.Input(2)); err != nil {
				return err
			}
			return variable.Update(ctx, v, func(t *tensor.Tensor) error {
				return scatterRows(ctx, op, t, true)
			})
		}), nil
	}
}

// scatterRows updates params[indices[i]] with updates[i], or with the single scalar in updates, in the order of the indices. Inputs 1 and 2
// are the indices and the updates. strict selects the behaviour of TensorFlow's resource ops: division by zero is forbidden for floats too,
// and updates may have any shape if there are no indices. All indices are checked before anything is written. For values in an
// accelerator's memory, only the shapes are checked.
func scatterRows(ctx *kernels.Context, op update.Op, params *tensor.Tensor, strict bool) error {
	indices, updates := ctx.Input(1), ctx.Input(2)
	if params.Rank() == 0 {
		return status.InvalidArgumentf("params must be at least 1-D, got shape %v", params.Shape())
	}
	inner := params.Shape()[1:]
	lead := indices.Rank()
	if strict && updates.Rank() != 0 && !update.StartsWith(updates.Shape(), indices.Shape()) {
		if indices.Len() == 0 {
			return nil
		}
		return status.InvalidArgumentf("The shape of indices (%v) must be a prefix of the shape of updates (%v)", indices.Shape(), updates.Shape())
	}
	if updates.Rank() != 0 && !(updates.Rank() == lead+len(inner) && updates.Shape()[:lead].Equal(indices.Shape()) && updates.Shape()[lead:].Equal(inner)) {
		return status.InvalidArgumentf("Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape %v, indices.shape %v, params.shape %v",
			updates.Shape(), indices.Shape(), params.Shape())
	}
	if !params.OnHost() {
		return update.ScatterOn(ctx, op, params, indices, indices.Len(), params.Shape()[:1], updates)
	}
	at, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	if err := at.Within(indices.Shape(), params.Shape()[0]); err != nil {
		return err
	}
	if err := update.CheckDivisors(op, updates, strict); err != nil {
		return err
	}
	return update.Rows(ctx, op, params, at.V, inner.Elements(), updates)
}
