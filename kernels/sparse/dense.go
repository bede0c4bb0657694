package sparse

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// newSparseToDense returns the kernel that sets values in a dense tensor of default values.
func newSparseToDense(c *kernels.Construction) (any, error) {
	validate, err := c.Attrs().Bool("validate_indices")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return sparseToDense(ctx, validate) }), nil
}

func sparseToDense(ctx *kernels.Context, validate bool) error {
	indices, values, empty := ctx.Input(0), ctx.Input(2), ctx.Input(3)
	if indices.Rank() > 2 {
		return status.InvalidArgumentf("sparse_indices should be a scalar, vector, or matrix, got shape %v", indices.Shape())
	}
	count, rank := 1, 1
	if indices.Rank() > 0 {
		count = indices.Dim(0)
	}
	if indices.Rank() > 1 {
		rank = indices.Dim(1)
	}
	switch given := ctx.Input(1); {
	case given.Rank() != 1:
		return status.InvalidArgumentf("output_shape must be rank 1, got shape %v", given.Shape())
	case given.Len() != rank:
		return status.InvalidArgumentf("output_shape has incorrect number of elements: %d should be: %d", given.Len(), rank)
	case values.Rank() != 0 && (values.Rank() != 1 || values.Len() != count):
		return status.InvalidArgumentf("sparse_values has incorrect shape %v, should be [] or [%d]", values.Shape(), count)
	case empty.Rank() != 0:
		return status.InvalidArgumentf("default_value should be a scalar.")
	}
	sizes, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	shape, err := shapes.ShapeOf(sizes)
	if err != nil {
		return err
	}
	at, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	if validate {
		matrix, err := tensor.FromSlice(tensor.Int64, tensor.Shape{int64(count), int64(rank)}, at.V)
		if err != nil {
			return err
		}
		err = sparse{matrix, values, shape}.ordered()
		matrix.Release()
		if err != nil {
			return err
		}
	}
	to, bad := shapes.Points(at.V, count, shape)
	if bad >= 0 {
		return status.InvalidArgumentf("Indices are not valid (out of bounds).  Shape: %v", shape)
	}
	out, err := ctx.Allocate(0, empty.DType(), shape)
	if err != nil {
		return err
	}
	layout.Fill(ctx, out, empty)
	if values.Rank() == 0 {
		// The single value goes to all positions.
		return layout.MoveAt(ctx, out, values, to, make([]int64, count), 1, count)
	}
	return layout.MoveAt(ctx, out, values, to, nil, 1, count)
}
