package shapes

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// WrapAxis counts a negative axis from the end. ok is false if the axis is out of range.
func WrapAxis(axis int64, rank int) (int, bool) {
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), axis >= 0 && axis < int64(rank)
}

// Around returns the numbers of elements in the dimensions before and after axis.
func Around(s tensor.Shape, axis int) (before, after int) {
	return s[:axis].Elements(), s[axis+1:].Elements()
}

// ShapeOf returns a shape with sizes given by a client. It rejects negative sizes and a product that overflows 63 bits.
func ShapeOf(sizes []int64) (tensor.Shape, error) {
	s := tensor.Shape(sizes)
	for _, d := range sizes {
		if d < 0 {
			return nil, status.InvalidArgumentf("Dimension %d must be >= 0", d)
		}
	}
	if _, err := s.NumElements(); err != nil {
		return nil, err
	}
	return s, nil
}

// MulSize multiplies sizes; ok is false if one is negative or the product overflows 63 bits.
func MulSize(a, b int64) (int64, bool) {
	if a < 0 || b < 0 || a != 0 && b > math.MaxInt64/a {
		return 0, false
	}
	return a * b, true
}

// AddSize adds sizes; ok is false if one is negative or the sum overflows 63 bits.
func AddSize(sizes ...int64) (sum int64, ok bool) {
	for _, s := range sizes {
		if s < 0 || sum > math.MaxInt64-s {
			return 0, false
		}
		sum += s
	}
	return sum, true
}

// Replaced returns a copy of s with the dimensions from (inclusive) to to (exclusive) replaced.
func Replaced(s tensor.Shape, from, to int, by ...int64) tensor.Shape {
	out := make(tensor.Shape, 0, len(s)-(to-from)+len(by))
	return append(append(append(out, s[:from]...), by...), s[to:]...)
}

// Points converts rows of indices, one index per dimension, to row-major positions; a row that is out of bounds becomes -1. bad is the
// first such row, or -1 if there is none.
func Points(v []int64, rows int, dims tensor.Shape) (at []int64, bad int) {
	depth := len(dims)
	at, bad = make([]int64, rows), -1
	for i := range at {
		p := int64(0)
		for j, d := range dims {
			x := v[i*depth+j]
			if uint64(x) >= uint64(d) {
				p = -1
				break
			}
			p = p*d + x
		}
		if at[i] = p; p < 0 && bad < 0 {
			bad = i
		}
	}
	return at, bad
}

// LoopSize returns the total number of iterations of nested loops.
func LoopSize(dims []int) int {
	p := 1
	for _, d := range dims {
		p *= d
	}
	return p
}

// StridesOf returns the row-major strides of a shape.
func StridesOf(shape tensor.Shape) []int {
	s := make([]int, len(shape))
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = step
		step *= int(shape[i])
	}
	return s
}

// Ints returns a shape's sizes as ints.
func Ints(shape tensor.Shape) []int {
	s := make([]int, len(shape))
	for i, d := range shape {
		s[i] = int(d)
	}
	return s
}

// JoinInts formats integers separated by commas.
func JoinInts(values []int64) string {
	s := make([]string, len(values))
	for i, v := range values {
		s[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(s, ",")
}

// LeadingShape returns the shape of a vector of n elements that broadcasts along all dimensions of a tensor but the first.
func LeadingShape(n, rank int) tensor.Shape {
	shape := tensor.Shape{int64(n)}
	for len(shape) < rank {
		shape = append(shape, 1)
	}
	return shape
}

// BroadcastShape returns the shape that the operands broadcast to by NumPy's rules: aligned at the last dimension, sizes of 1 stretch. ok
// is false if the shapes are incompatible.
func BroadcastShape(a, b tensor.Shape) (out tensor.Shape, ok bool) {
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

// Incompatible returns TensorFlow's error for operands that cannot be broadcast.
func Incompatible(a, b tensor.Shape) error {
	return status.InvalidArgumentf("Incompatible shapes: %v vs. %v", a, b)
}
