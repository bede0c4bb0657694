package reduce

import (
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Reducer is a reduction for one element type.
type Reducer[T any] struct {
	// Identity is the result of reducing no elements.
	Identity T
	// Row reduces a non-empty slice. Into reduces acc and a element by element into acc.
	Row  func(a []T) T
	Into func(acc, a []T)
	// Rows, if not nil, sets acc to the reduction of all rows in a, each as long as acc, for short rows.
	Rows func(acc, a []T)
	// Each, if not nil, sets each element of dst to the reduction of one row of a; the rows are consecutive.
	Each func(dst, a []T)
	// First, if not nil, changes elements before they are reduced. Last, if not nil, changes the results of n elements each.
	First func(dst, a []T)
	Last  func(out []T, n int)
}

// reduceChunk is the number of elements in a part of a long reduction. The size does not depend on the number of workers, so a sum of
// floats always has the same rounding.
const reduceChunk = 1 << 15

// Kernel reduces tensors over axes.
type Kernel[T any] struct {
	Reducer[T]
	DType tensor.DType
	Keep  bool
}

// Compute implements kernels.Kernel.
func (k *Kernel[T]) Compute(ctx *kernels.Context) error {
	data := ctx.Inputs[0].Tensor
	if err := args.CheckType(ctx, 0, k.DType); err != nil {
		return err
	}
	var plan Plan
	if err := plan.Make(data.Shape(), ctx.Inputs[1].Tensor, k.Keep); err != nil {
		return err
	}
	if plan.Trivial() && k.First == nil {
		ctx.SetOutput(0, data.Reshaped(plan.Out))
		return nil
	}
	out, err := ctx.Allocate(0, k.DType, plan.Out)
	if err != nil {
		return err
	}
	return k.Reduce(ctx, element.ViewOf[T](out), element.ViewOf[T](data), plan.Groups, plan.FirstReduced)
}

// Reduce reduces src into dst. groups are src's dimensions, merged into alternating reduced and kept groups.
func (k *Reducer[T]) Reduce(ctx *kernels.Context, dst, src []T, groups []int, firstReduced bool) error {
	if len(dst) == 0 {
		return nil
	}
	count := len(src) / len(dst)
	if k.First != nil {
		changed, release, err := element.Scratch[T](ctx.Device, len(src))
		if err != nil {
			return err
		}
		defer release()
		ctx.Parallel(len(src), element.CheapGrain, func(lo, hi int) { k.First(changed[lo:hi], src[lo:hi]) })
		src = changed
	}
	if err := k.steps(ctx, dst, src, groups, firstReduced); err != nil {
		return err
	}
	if k.Last != nil {
		k.Last(dst, count)
	}
	return nil
}

// steps reduces the groups to be reduced one after the other, the last first.
func (k *Reducer[T]) steps(ctx *kernels.Context, dst, src []T, groups []int, firstReduced bool) error {
	i := len(groups) - 1
	if (i%2 == 0) != firstReduced {
		i--
	}
	if i < 0 {
		// Only dimensions of size 1 are reduced.
		return k.fold(ctx, dst, src, len(src), 1, 1)
	}
	outer, inner := 1, 1
	for _, g := range groups[:i] {
		outer *= g
	}
	for _, g := range groups[i+1:] {
		inner *= g
	}
	if i < 2 {
		return k.fold(ctx, dst, src, outer, groups[i], inner)
	}
	between, release, err := element.Scratch[T](ctx.Device, outer*inner)
	if err != nil {
		return err
	}
	defer release()
	if err := k.fold(ctx, between, src, outer, groups[i], inner); err != nil {
		return err
	}
	rest := append([]int(nil), groups[:i]...)
	rest[i-1] *= inner
	return k.steps(ctx, dst, between, rest, firstReduced)
}

// fold reduces the middle dimension of src.
func (k *Reducer[T]) fold(ctx *kernels.Context, dst, src []T, outer, reduced, inner int) error {
	switch {
	case len(dst) == 0:
	case reduced == 0:
		for i := range dst {
			dst[i] = k.Identity
		}
	case inner == 1 && outer > 1 && k.Each != nil:
		ctx.Parallel(outer, max(1, reduceChunk/reduced), func(lo, hi int) { k.Each(dst[lo:hi], src[lo*reduced:hi*reduced]) })
	case len(src) <= reduceChunk:
		for o := range outer {
			k.part(dst[o*inner:(o+1)*inner], src[o*reduced*inner:(o+1)*reduced*inner])
		}
	case outer < 4 && reduced > 1 && inner <= reduceChunk/4:
		for o := range outer {
			if err := k.long(ctx, dst[o*inner:(o+1)*inner], src[o*reduced*inner:(o+1)*reduced*inner]); err != nil {
				return err
			}
		}
	case outer < 4:
		for o := range outer {
			part, to := src[o*reduced*inner:(o+1)*reduced*inner], dst[o*inner:(o+1)*inner]
			ctx.Parallel(inner, max(1, reduceChunk/reduced), func(lo, hi int) { k.columns(to, part, lo, hi) })
		}
	default:
		ctx.Parallel(outer, max(1, reduceChunk/(reduced*inner)), func(lo, hi int) {
			for o := lo; o < hi; o++ {
				k.part(dst[o*inner:(o+1)*inner], src[o*reduced*inner:(o+1)*reduced*inner])
			}
		})
	}
	return nil
}

// long reduces many rows of a few columns in parts, then reduces the parts' results.
func (k *Reducer[T]) long(ctx *kernels.Context, dst, src []T) error {
	inner := len(dst)
	rows := len(src) / inner
	per := max(1, reduceChunk/inner)
	parts := (rows + per - 1) / per
	between, release, err := element.Scratch[T](ctx.Device, parts*inner)
	if err != nil {
		return err
	}
	defer release()
	ctx.Parallel(parts, 1, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			k.part(between[p*inner:(p+1)*inner], src[p*per*inner:min((p+1)*per, rows)*inner])
		}
	})
	k.part(dst, between)
	return nil
}

// part reduces rows of len(dst) elements to one row.
func (k *Reducer[T]) part(dst, src []T) {
	switch {
	case len(dst) == 1:
		dst[0] = k.Row(src)
	case k.Rows != nil && len(dst) >= leastRowLen && simd.ShortRows(len(dst)):
		k.Rows(dst, src)
	case len(dst) < narrowRow && len(src) >= 4*wideRow:
		k.narrow(dst, src)
	default:
		k.columns(dst, src, 0, len(dst))
	}
}

// columns reduces the columns lo to hi, in blocks that stay in the cache.
func (k *Reducer[T]) columns(dst, src []T, lo, hi int) {
	width := len(dst)
	for c := lo; c < hi; c += 2 * element.BlockLen {
		end := min(c+2*element.BlockLen, hi)
		acc := dst[c:end]
		copy(acc, src[c:end])
		for at := width; at < len(src); at += width {
			k.Into(acc, src[at+c:at+end])
		}
	}
}

// Rows of fewer than narrowRow elements are combined to about wideRow elements, which makes a call of a slice function worthwhile.
const (
	narrowRow = 128
	wideRow   = 512
	// leastRowLen is the length from which rows are not combined if a reducer has Rows.
	leastRowLen = 32
)

// wideRows holds the accumulators of narrow, with room for the widest elements.
var wideRows = sync.Pool{New: func() any { return new([wideRow]complex128) }}

// narrow reduces short rows: it first treats several of them as one row.
func (k *Reducer[T]) narrow(dst, src []T) {
	width := len(dst)
	several := wideRow / width * width
	memory := wideRows.Get().(*[wideRow]complex128)
	defer wideRows.Put(memory)
	acc := unsafe.Slice((*T)(unsafe.Pointer(memory)), several)
	copy(acc, src)
	at := several
	for ; at+several <= len(src); at += several {
		k.Into(acc, src[at:at+several])
	}
	k.columns(dst, acc, 0, width)
	for ; at < len(src); at += width {
		k.Into(dst, src[at:at+width])
	}
}
