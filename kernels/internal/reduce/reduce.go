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
	// Identity is the reduction of nothing.
	Identity T
	// Row reduces a slice that is not empty; into adds one to what is reduced already, element by
	// element.
	Row  func(a []T) T
	Into func(acc, a []T)
	// Rows, where it is there, sets acc to the reduction of all rows of a that are as long, where those are short.
	Rows func(acc, a []T)
	// Each, where it is there, sets dst to the reductions of as many rows of a, one after the other.
	Each func(dst, a []T)
	// First, where it is there, changes elements before they are reduced; last changes the
	// results of n elements each.
	First func(dst, a []T)
	Last  func(out []T, n int)
}

// reduceChunk is the elements of a part of a long reduction. Parts are of one size however many
// workers there are, so that a sum of floats has the same rounding each time.
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
	return k.Reduce(ctx.Device, element.ViewOf[T](out), element.ViewOf[T](data), plan.Groups, plan.FirstReduced)
}

// Reduce reduces src into dst. groups are src's dimensions, merged so that reduced ones and
// others take turns.
func (k *Reducer[T]) Reduce(dev kernels.Device, dst, src []T, groups []int, firstReduced bool) error {
	if len(dst) == 0 {
		return nil
	}
	count := len(src) / len(dst)
	if k.First != nil {
		changed, release, err := element.Scratch[T](dev, len(src))
		if err != nil {
			return err
		}
		defer release()
		dev.Parallel(len(src), element.CheapGrain, func(lo, hi int) { k.First(changed[lo:hi], src[lo:hi]) })
		src = changed
	}
	if err := k.steps(dev, dst, src, groups, firstReduced); err != nil {
		return err
	}
	if k.Last != nil {
		k.Last(dst, count)
	}
	return nil
}

// steps reduces the reduced groups one after the other, the last first.
func (k *Reducer[T]) steps(dev kernels.Device, dst, src []T, groups []int, firstReduced bool) error {
	i := len(groups) - 1
	if (i%2 == 0) != firstReduced {
		i--
	}
	if i < 0 {
		// Nothing is reduced but single elements.
		return k.fold(dev, dst, src, len(src), 1, 1)
	}
	outer, inner := 1, 1
	for _, g := range groups[:i] {
		outer *= g
	}
	for _, g := range groups[i+1:] {
		inner *= g
	}
	if i < 2 {
		return k.fold(dev, dst, src, outer, groups[i], inner)
	}
	between, release, err := element.Scratch[T](dev, outer*inner)
	if err != nil {
		return err
	}
	defer release()
	if err := k.fold(dev, between, src, outer, groups[i], inner); err != nil {
		return err
	}
	rest := append([]int(nil), groups[:i]...)
	rest[i-1] *= inner
	return k.steps(dev, dst, between, rest, firstReduced)
}

// fold reduces the middle dimension of src.
func (k *Reducer[T]) fold(dev kernels.Device, dst, src []T, outer, reduced, inner int) error {
	switch {
	case len(dst) == 0:
	case reduced == 0:
		for i := range dst {
			dst[i] = k.Identity
		}
	case inner == 1 && outer > 1 && k.Each != nil:
		dev.Parallel(outer, max(1, reduceChunk/reduced), func(lo, hi int) { k.Each(dst[lo:hi], src[lo*reduced:hi*reduced]) })
	case len(src) <= reduceChunk:
		for o := range outer {
			k.part(dst[o*inner:(o+1)*inner], src[o*reduced*inner:(o+1)*reduced*inner])
		}
	case outer < 4 && reduced > 1 && inner <= reduceChunk/4:
		for o := range outer {
			if err := k.long(dev, dst[o*inner:(o+1)*inner], src[o*reduced*inner:(o+1)*reduced*inner]); err != nil {
				return err
			}
		}
	case outer < 4:
		for o := range outer {
			part, to := src[o*reduced*inner:(o+1)*reduced*inner], dst[o*inner:(o+1)*inner]
			dev.Parallel(inner, max(1, reduceChunk/reduced), func(lo, hi int) { k.columns(to, part, lo, hi) })
		}
	default:
		dev.Parallel(outer, max(1, reduceChunk/(reduced*inner)), func(lo, hi int) {
			for o := lo; o < hi; o++ {
				k.part(dst[o*inner:(o+1)*inner], src[o*reduced*inner:(o+1)*reduced*inner])
			}
		})
	}
	return nil
}

// long reduces many rows of a few columns in parts that are reduced in their turn.
func (k *Reducer[T]) long(dev kernels.Device, dst, src []T) error {
	inner := len(dst)
	rows := len(src) / inner
	per := max(1, reduceChunk/inner)
	parts := (rows + per - 1) / per
	between, release, err := element.Scratch[T](dev, parts*inner)
	if err != nil {
		return err
	}
	defer release()
	dev.Parallel(parts, 1, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			k.part(between[p*inner:(p+1)*inner], src[p*per*inner:min((p+1)*per, rows)*inner])
		}
	})
	k.part(dst, between)
	return nil
}

// part reduces rows of len(dst) elements into one.
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

// columns reduces the columns lo to hi, a block that stays in the cache at a time.
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

// Rows of fewer than narrowRow elements are taken together to some wideRow, for which a slice
// function is worth its call.
const (
	narrowRow = 128
	wideRow   = 512
	// leastRowLen is the shortest row that is not taken together where a reducer has Rows.
	leastRowLen = 32
)

// wideRows are rows that narrow sums up in, of elements that are as wide as any.
var wideRows = sync.Pool{New: func() any { return new([wideRow]complex128) }}

// narrow reduces short rows: first as rows of several of them.
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
