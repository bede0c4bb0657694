package layout

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Shareable reports whether a part of a tensor should be shared rather than copied: it must be aligned for vector loads, and not so small
// that it would keep a large tensor alive.
func Shareable(t *tensor.Tensor, at, size int) bool {
	bytes := t.DType().Size()
	return bytes > 0 && size > 0 && at*bytes%tensor.Alignment == 0 && size*bytes >= 64 && size >= t.Len()/64
}

// Part returns size elements of t, from element at on, as a tensor of the given shape. It is shared if Shareable, otherwise copied.
func Part(ctx *kernels.Context, t *tensor.Tensor, shape tensor.Shape, at, size int) (*tensor.Tensor, error) {
	if err := ctx.Ended(); err != nil { // for kernels that split a tensor into many parts
		return nil, err
	}
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
