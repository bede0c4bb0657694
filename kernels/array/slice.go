package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// smallInts reads a short integer tensor into room. It allocates only if the tensor does not fit.
func smallInts(t *tensor.Tensor, room []int64) ([]int64, error) {
	list, err := args.ReadIndices(t)
	if err != nil {
		return nil, err
	}
	defer list.Free()
	return append(room[:0], list.V...), nil
}

// runSlice returns the block of input 0 that starts at begin and has the given sizes. A size of -1 means the rest of the dimension.
func runSlice(ctx *kernels.Context) error {
	t, beginT, sizeT := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	rank := t.Rank()
	if beginT.Rank() != 1 || sizeT.Rank() != 1 || beginT.Len() != rank || sizeT.Len() != rank {
		return status.InvalidArgumentf("Expected begin and size arguments to be 1-D tensors of size %d, but got shapes %v and %v instead.", rank, beginT.Shape(), sizeT.Shape())
	}
	var roomB, roomS [8]int64
	begin, err := smallInts(beginT, roomB[:])
	if err != nil {
		return err
	}
	size, err := smallInts(sizeT, roomS[:])
	if err != nil {
		return err
	}
	for i, d := range t.Shape() {
		b, s := begin[i], size[i]
		if s == -1 {
			s = d - b
			size[i] = s
		}
		switch {
		case d == 0 && (b != 0 || s != 0):
			return status.InvalidArgumentf("Expected begin[%d] == 0 (got %d) and size[%d] == 0 (got %d) when input.dim_size(%d) == 0", i, b, i, s, i)
		case b < 0 || b > d:
			return status.InvalidArgumentf("Expected begin[%d] in [0, %d], but got %d", i, d, b)
		case s < 0 || s > d-b:
			return status.InvalidArgumentf("Expected size[%d] in [0, %d], but got %d", i, d-b, s)
		}
	}
	ones := make([]int64, rank)
	for i := range ones {
		ones[i] = 1
	}
	b := block{begin: begin, step: ones, size: size}
	return b.extract(ctx, 0, t, size)
}

// block is a regular part of a tensor: in each dimension, size positions that start at begin and lie step apart.
type block struct {
	begin, step []int64
	size        tensor.Shape
}

// place returns the block's strides and offset in a tensor of the given shape.
func (b *block) place(shape tensor.Shape) (strides []int, offset int) {
	strides = shapes.StridesOf(shape)
	for i, s := range strides {
		if b.size[i] > 0 {
			offset += s * int(b.begin[i])
		}
		strides[i] = s * int(b.step[i])
	}
	return strides, offset
}

// whole reports whether the block is all of a tensor of the given shape. rows reports whether it is all of a range of dimension 0.
func (b *block) whole(shape tensor.Shape) (whole, rows bool) {
	whole, rows = true, true
	for i, d := range shape {
		if b.begin[i] != 0 || b.step[i] != 1 || b.size[i] != d {
			whole = false
			rows = rows && i == 0 && b.step[i] == 1
		}
	}
	return whole, rows
}

// extract sets output o, of the given shape, to the block of input i. It shares whole tensors and aligned ranges of rows.
func (b *block) extract(ctx *kernels.Context, i int, t *tensor.Tensor, shape tensor.Shape) error {
	whole, rows := b.whole(t.Shape())
	switch {
	case whole && shape.Equal(t.Shape()):
		ctx.Pass(i, 0)
		return nil
	case whole:
		ctx.SetOutput(0, t.Reshaped(shape))
		return nil
	case rows:
		per := t.Shape()[1:].Elements()
		return cut(ctx, 0, t, shape, 1, int(b.begin[0])*per, int(b.size[0])*per)
	}
	out, err := ctx.Allocate(0, t.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	strides, offset := b.place(t.Shape())
	layout.Move(ctx, out, t, layout.NewNest(shapes.Ints(b.size), shapes.StridesOf(b.size), strides, 0, offset))
	return nil
}
