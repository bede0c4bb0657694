package array

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// gatherOn is gatherAlong on an accelerator.
func gatherOn(ctx *kernels.Context, params, indices *tensor.Tensor, axis, batch int) error {
	shape := shapes.Replaced(params.Shape(), axis, axis+1, indices.Shape()[batch:]...)
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, params.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if params.Len() == 0 {
		layout.Zero(ctx, out)
		return nil
	}
	size := params.DType().Size()
	inner := params.Shape()[axis+1:].Elements()
	wide := launch.Widest(size, params.Address(), out.Address(), uint64(inner*size))
	inner = inner * size / wide
	count := out.DataSize() / wide
	row, per := launch.Divisor(inner, count), launch.Divisor(indices.Shape()[batch:].Elements(), count)
	outer := launch.Divisor(params.Shape()[batch:axis].Elements(), count)
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("gather", wide), count, out.Address(), params.Address(), indices.Address(), launch.IndexKind(indices.DType()),
		uint64(params.Dim(axis)), row[0], row[1], per[0], per[1], outer[0], outer[1], uint64(count)))
	return nil
}

// gatherPointsOn is gatherPoints on an accelerator, for an output of the given shape.
func gatherPointsOn(ctx *kernels.Context, params, indices *tensor.Tensor, shape tensor.Shape) error {
	last := indices.Rank() - 1
	dims := params.Shape()[:indices.Dim(last)]
	point, err := launch.PointWords(dims)
	if err != nil {
		return err
	}
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, params.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	size := params.DType().Size()
	inner := params.Shape()[len(dims):].Elements()
	wide := launch.Widest(size, params.Address(), out.Address(), uint64(inner*size))
	count := out.DataSize() / wide
	row := launch.Divisor(inner*size/wide, count)
	a := kernels.AcceleratorOf(ctx.Device)
	args := append([]uint64{out.Address(), params.Address(), indices.Address(), launch.IndexKind(indices.DType())}, point...)
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("gather_nd", wide), count, append(args, row[0], row[1], uint64(count))...))
	return nil
}

// oneHotOn is oneHot on an accelerator, for an output of the given shape. Dimension axis is the depth.
func oneHotOn(ctx *kernels.Context, shape tensor.Shape, axis int) error {
	indices, on, off := ctx.Input(0), ctx.Input(2), ctx.Input(3)
	out, err := ctx.Allocate(0, on.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	depth, suffix := launch.Divisor(int(shape[axis]), out.Len()), launch.Divisor(indices.Shape()[axis:].Elements(), out.Len())
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("one_hot", on.DType().Size()), out.Len(), out.Address(), indices.Address(), launch.IndexKind(indices.DType()),
		on.Address(), off.Address(), depth[0], depth[1], suffix[0], suffix[1], uint64(out.Len())))
	return nil
}

// reverseSequenceOn is reverseSequence on an accelerator. A length that exceeds the dimension leaves it unchanged.
func reverseSequenceOn(ctx *kernels.Context, batch, seq int) error {
	t, lengths := ctx.Input(0), ctx.Input(1)
	out, err := ctx.Allocate(0, t.DType(), t.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	args := []uint64{out.Address(), t.Address(), lengths.Address(), launch.IndexKind(lengths.DType())}
	for _, d := range []int{seq, batch} {
		size, step := launch.Divisor(t.Dim(d), t.Len()), launch.Divisor(t.Shape()[d+1:].Elements(), t.Len())
		args = append(args, size[0], size[1], step[0], step[1])
	}
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("reverse_sequence", t.DType().Size()), t.Len(), append(args, uint64(t.Len()))...))
	return nil
}
