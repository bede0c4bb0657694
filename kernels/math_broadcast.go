package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// broadcastShape gives the shape that the operands have in common by NumPy's rules: aligned at
// the last dimension, sizes of 1 stretch. ok is false where the shapes do not go together.
func broadcastShape(a, b tensor.Shape) (out tensor.Shape, ok bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out = slices.Clone(a)
	lead := len(a) - len(b)
	for i, d := range b {
		switch e := a[lead+i]; {
		case e == d || d == 1:
		case e == 1:
			out[lead+i] = d
		default:
			return nil, false
		}
	}
	return out, true
}

// incompatible is TensorFlow's error for operands that cannot be broadcast.
func incompatible(a, b tensor.Shape) error {
	return status.InvalidArgumentf("Incompatible shapes: %v vs. %v", a, b)
}

// walk says how to step through operands that are broadcast to one shape: the sizes of the
// dimensions and, for each operand, the distance in elements between neighbours in each (0 in a
// dimension in which it is stretched). Dimensions that all operands run through in one go are
// merged and those of size 1 left out, so that few are left.
type walk struct {
	dims    []int
	strides [][]int
}

// newWalk makes the walk over out for operands whose shapes broadcast to it.
func newWalk(out tensor.Shape, operands ...tensor.Shape) *walk {
	w := &walk{strides: make([][]int, len(operands))}
	// Strides of the operands in the dimensions of out, the innermost first.
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
		if n := len(w.dims); n > 0 && w.continues(cur) {
			w.dims[n-1] *= d
			continue
		}
		w.dims = append(w.dims, d)
		for o := range cur {
			w.strides[o] = append(w.strides[o], cur[o])
		}
	}
	if len(w.dims) == 0 {
		w.dims = append(w.dims, 1)
		for o := range cur {
			w.strides[o] = append(w.strides[o], 1)
		}
	}
	slices.Reverse(w.dims)
	for _, s := range w.strides {
		slices.Reverse(s)
	}
	return w
}

// continues tells whether a dimension with these strides is the last one's continuation.
func (w *walk) continues(strides []int) bool {
	last := len(w.dims) - 1
	for o, s := range strides {
		if s != w.strides[o][last]*w.dims[last] {
			return false
		}
	}
	return true
}

// inner is the size of the innermost dimension, rows how many times it is run through.
func (w *walk) inner() int { return w.dims[len(w.dims)-1] }

func (w *walk) rows() int {
	n := 1
	for _, d := range w.dims[:len(w.dims)-1] {
		n *= d
	}
	return n
}

// innerStride is operand o's distance between neighbours of the innermost dimension.
func (w *walk) innerStride(o int) int { return w.strides[o][len(w.dims)-1] }

// each calls row for the rows lo to hi in order, with the index of each operand's first element
// in it. The slice that it passes is used again.
func (w *walk) each(lo, hi int, row func(r int, at []int)) {
	outer := len(w.dims) - 1
	index := make([]int, outer)
	at := make([]int, len(w.strides))
	for i, r := outer-1, lo; i >= 0; i-- {
		index[i] = r % w.dims[i]
		r /= w.dims[i]
		for o := range at {
			at[o] += index[i] * w.strides[o][i]
		}
	}
	for r := lo; r < hi; r++ {
		row(r, at)
		for i := outer - 1; i >= 0; i-- {
			index[i]++
			for o := range at {
				at[o] += w.strides[o][i]
			}
			if index[i] < w.dims[i] {
				break
			}
			for o := range at {
				at[o] -= index[i] * w.strides[o][i]
			}
			index[i] = 0
		}
	}
}
