package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// Ops on images and matrices in an accelerator's memory.

// copyOn is copy on an accelerator.
func (b *blocks) copyOn(ctx *kernels.Context, dst, src *tensor.Tensor, toBatch bool) error {
	if len(b.space) > layout.SpaceLimit {
		return status.Unimplementedf("Blocks of more than %d dimensions, here %d, are not supported on GPUs", layout.SpaceLimit, len(b.space))
	}
	small, large := dst, src
	if !toBatch {
		small, large = src, dst
	}
	if small.Len() == 0 { // all pixels of the large images lie in the padding
		return nil
	}
	size := small.DType().Size()
	wide := launch.Widest(size, small.Address(), large.Address(), uint64(b.pixel))
	count := small.DataSize() / wide
	words := make([]uint64, 0, 5+6*layout.SpaceLimit)
	add := func(sizes []int) {
		for i := range layout.SpaceLimit {
			size := 1
			if i < len(sizes) {
				size = sizes[i]
			}
			by := launch.Divisor(size, max(count, size))
			words = append(words, by[0], by[1])
		}
	}
	pixel, batch := launch.Divisor(b.pixel/wide, count), launch.Divisor(b.batch, count)
	words = append(words, uint64(len(b.space)), pixel[0], pixel[1], batch[0], batch[1])
	add(b.grid)
	add(b.block)
	for _, sizes := range [][]int{b.space, b.before} {
		at := len(words)
		words = words[:at+layout.SpaceLimit]
		for i, s := range sizes {
			words[at+i] = uint64(s)
		}
	}
	args := append([]uint64{dst.Address(), src.Address()}, words...)
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("space_batch", wide), count, append(args, uint64(element.OneIf(toBatch)), uint64(count))...))
	return nil
}

// bandPartOn clears everything outside a band of matrices.
func bandPartOn(ctx *kernels.Context, t *tensor.Tensor, rows, cols int, lower, upper int64) {
	a := kernels.AcceleratorOf(ctx.Device)
	r, c := launch.Divisor(rows, t.Len()), launch.Divisor(cols, t.Len())
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("band_part", t.DType().Size()), t.Len(), t.Address(), r[0], r[1], c[0], c[1], uint64(lower), uint64(upper), uint64(t.Len())))
}

// mirrorPadGradOn sets each element of out to the sum of the elements of in that show it.
func mirrorPadGradOn(ctx *kernels.Context, out, in *tensor.Tensor, before []int64, offset int) error {
	if out.Rank() > layout.SpaceLimit {
		return status.Unimplementedf("MirrorPadGrad of more than %d dimensions, here %d, is not supported on GPUs", layout.SpaceLimit, out.Rank())
	}
	if out.Len() == 0 {
		return nil
	}
	words := make([]uint64, 2+5*layout.SpaceLimit)
	words[0], words[1] = uint64(out.Rank()), uint64(offset)
	dims, padded, starts, strides := words[2:], words[2+2*layout.SpaceLimit:], words[2+3*layout.SpaceLimit:], words[2+4*layout.SpaceLimit:]
	for i, s := range shapes.StridesOf(in.Shape()) {
		by := launch.Divisor(out.Dim(i), out.Len())
		dims[2*i], dims[2*i+1] = by[0], by[1]
		padded[i], starts[i], strides[i] = uint64(in.Dim(i)), uint64(before[i]), uint64(s)
	}
	args := append([]uint64{in.Address(), out.Address()}, words...)
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, "mirror_grad_"+launch.Suffixes[out.DType()], out.Len(), append(args, uint64(out.Len()))...))
	return nil
}

// rollOn copies in to out, shifted by shifts, each of which is below the size of its dimension. In each dimension, the elements that wrap
// around and those that do not form separate blocks.
func rollOn(ctx *kernels.Context, out, in *tensor.Tensor, shifts []int) {
	strides := shapes.StridesOf(in.Shape())
	dims := shapes.Ints(in.Shape())
	var from func(d, dst, src int)
	from = func(d, dst, src int) {
		if d == len(dims) {
			layout.Move(ctx, out, in, layout.NewNest(dims, strides, strides, dst, src))
			return
		}
		size, shift, step := in.Dim(d), shifts[d], strides[d]
		dims[d] = size - shift
		from(d+1, dst+shift*step, src)
		if shift > 0 {
			dims[d] = shift
			from(d+1, dst, src+(size-shift)*step)
		}
		dims[d] = size
	}
	from(0, 0, 0)
}
