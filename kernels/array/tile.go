package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// tile repeats input 0 in each dimension as often as input 1 says.
func tile(ctx *kernels.Context) error {
	t, multiplesT := ctx.Input(0), ctx.Input(1)
	rank := t.Rank()
	if multiplesT.Rank() != 1 {
		return status.InvalidArgumentf("Expected multiples to be 1-D, but got shape %v", multiplesT.Shape())
	}
	if multiplesT.Len() != rank {
		return status.InvalidArgumentf("Expected multiples argument to be a vector of length %d but got length %d", rank, multiplesT.Len())
	}
	multiples, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	shape := make(tensor.Shape, rank)
	for i, m := range multiples {
		if m < 0 {
			return status.InvalidArgumentf("Expected multiples[%d] >= 0, but got %d", i, m)
		}
		var ok bool
		if shape[i], ok = shapes.MulSize(t.Shape()[i], m); !ok {
			return status.InvalidArgumentf("Dimension %d of size %d cannot be repeated %d times: the size does not fit 63 bits", i, t.Dim(i), m)
		}
	}
	if shape.Equal(t.Shape()) {
		ctx.Pass(0, 0)
		return nil
	}
	out, err := ctx.Allocate(0, t.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	// Each dimension is two loops: over the repetitions, in which the source stays in place, and over the positions.
	own, whole := shapes.StridesOf(t.Shape()), shapes.StridesOf(shape)
	dims, dst, src := make([]int, 0, 2*rank), make([]int, 0, 2*rank), make([]int, 0, 2*rank)
	for i, m := range multiples {
		d := t.Dim(i)
		dims = append(dims, int(m), d)
		dst = append(dst, whole[i]*d, whole[i])
		src = append(src, 0, own[i])
	}
	layout.Move(ctx, out, t, layout.NewNest(dims, dst, src, 0, 0))
	return nil
}

// broadcastTo broadcasts input 0 to the shape in input 1.
func broadcastTo(ctx *kernels.Context) error {
	t := ctx.Input(0)
	sizes, err := args.VectorInts(ctx, 1, "shape")
	if err != nil {
		return err
	}
	shape, err := shapes.ShapeOf(sizes)
	if err != nil {
		return err
	}
	if t.Rank() > len(shape) {
		return status.InvalidArgumentf("Rank of input (%d) must be no greater than rank of output shape (%d).", t.Rank(), len(shape))
	}
	if shape.Equal(t.Shape()) {
		ctx.Pass(0, 0)
		return nil
	}
	common, ok := shapes.BroadcastShape(t.Shape(), shape)
	if !ok {
		return status.InvalidArgumentf("Incompatible shapes: %v vs. %v", t.Shape(), shape)
	}
	if !common.Equal(shape) {
		return status.InvalidArgumentf("Unable to broadcast tensor of shape %v to tensor of shape %v", t.Shape(), shape)
	}
	out, err := ctx.Allocate(0, t.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	src, own, lead := make([]int, len(shape)), shapes.StridesOf(t.Shape()), len(shape)-t.Rank()
	for i, d := range t.Shape() {
		if d != 1 {
			src[lead+i] = own[i]
		}
	}
	layout.Move(ctx, out, t, layout.NewNest(shapes.Ints(shape), shapes.StridesOf(shape), src, 0, 0))
	return nil
}
