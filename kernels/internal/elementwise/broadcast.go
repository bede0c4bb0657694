package elementwise

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Walk describes how to step through operands that are broadcast to one shape: the sizes of the dimensions and, for each operand, the
// distance in elements between neighbours in each dimension (0 if it is broadcast in that dimension). Dimensions that are contiguous in all
// operands are merged, and those of size 1 omitted.
type Walk struct {
	Dims    []int
	Strides [][]int
}

// NewWalk returns the walk over out for operands whose shapes broadcast to it.
func NewWalk(out tensor.Shape, operands ...tensor.Shape) *Walk {
	w := &Walk{Strides: make([][]int, len(operands))}
	// Strides of the operands in the dimensions of out, innermost first.
	next := make([]int, len(operands))
	for o := range next {
		next[o] = 1
	}
	cur := make([]int, len(operands))
	for back := 1; back <= len(out); back++ {
		d := int(out[len(out)-back])
		for o, s := range operands {
			cur[o] = 0
			if back <= len(s) {
				size := int(s[len(s)-back])
				if size != 1 {
					cur[o] = next[o]
				}
				next[o] *= size
			}
		}
		if d == 1 {
			continue
		}
		if n := len(w.Dims); n > 0 && w.continues(cur) {
			w.Dims[n-1] *= d
			continue
		}
		w.Dims = append(w.Dims, d)
		for o := range cur {
			w.Strides[o] = append(w.Strides[o], cur[o])
		}
	}
	if len(w.Dims) == 0 {
		w.Dims = append(w.Dims, 1)
		for o := range cur {
			w.Strides[o] = append(w.Strides[o], 1)
		}
	}
	slices.Reverse(w.Dims)
	for _, s := range w.Strides {
		slices.Reverse(s)
	}
	return w
}

// continues reports whether the last dimension and one with these strides can be merged.
func (w *Walk) continues(strides []int) bool {
	last := len(w.Dims) - 1
	for o, s := range strides {
		if s != w.Strides[o][last]*w.Dims[last] {
			return false
		}
	}
	return true
}

// Inner returns the size of the innermost dimension.
func (w *Walk) Inner() int { return w.Dims[len(w.Dims)-1] }

// Rows returns the number of iterations over the innermost dimension.
func (w *Walk) Rows() int {
	n := 1
	for _, d := range w.Dims[:len(w.Dims)-1] {
		n *= d
	}
	return n
}

// InnerStride returns operand o's distance between neighbours in the innermost dimension.
func (w *Walk) InnerStride(o int) int { return w.Strides[o][len(w.Dims)-1] }

// Each calls row for the rows lo to hi in order, with the index of each operand's first element in the row. The slice at is reused.
func (w *Walk) Each(lo, hi int, row func(r int, at []int)) {
	outer := len(w.Dims) - 1
	index := make([]int, outer)
	at := make([]int, len(w.Strides))
	for i, r := outer-1, lo; i >= 0; i-- {
		index[i] = r % w.Dims[i]
		r /= w.Dims[i]
		for o := range at {
			at[o] += index[i] * w.Strides[o][i]
		}
	}
	for r := lo; r < hi; r++ {
		row(r, at)
		for i := outer - 1; i >= 0; i-- {
			index[i]++
			for o := range at {
				at[o] += w.Strides[o][i]
			}
			if index[i] < w.Dims[i] {
				break
			}
			for o := range at {
				at[o] -= index[i] * w.Strides[o][i]
			}
			index[i] = 0
		}
	}
}
