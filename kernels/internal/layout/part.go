package layout

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Shareable tells whether a part of a tensor is better shared than copied: it starts where
// vector loads like it, and is not so small a part that it would hold on to much for little.
func Shareable(t *tensor.Tensor, at, size int) bool {
	bytes := t.DType().Size()
	return bytes > 0 && size > 0 && at*bytes%tensor.Alignment == 0 && size*bytes >= 64 && size >= t.Len()/64
}

// Part is the run of size elements of t from element at on, as a tensor of the given shape:
// shared where that is good, else copied.
func Part(ctx *kernels.Context, t *tensor.Tensor, shape tensor.Shape, at, size int) (*tensor.Tensor, error) {
	if Shareable(t, at, size) {
		flat := t.Reshaped(tensor.Shape{int64(t.Len())})
		defer flat.Release()
		run := flat.Rows(at, at+size)
		defer run.Release()
		return run.Reshaped(shape), nil
	}
	out, err := MemoryFor(ctx, t.DType()).New(t.DType(), shape)
	if err != nil || size == 0 {
		return out, err
	}
	Move(ctx, out, t, NewNest([]int{size}, []int{1}, []int{1}, 0, at))
	return out, nil
}
