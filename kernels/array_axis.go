package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// scalarInt reads input i, which must be one int32 or int64.
func scalarInt(ctx *Context, i int, what string) (int64, error) {
	t := ctx.Input(i)
	if t.Len() != 1 {
		return 0, status.InvalidArgumentf("%s must be a scalar, but it has shape %v", what, t.Shape())
	}
	switch t.DType() {
	case tensor.Int32:
		return int64(tensor.Of[int32](t)[0]), nil
	case tensor.Int64:
		return tensor.Of[int64](t)[0], nil
	}
	return 0, status.InvalidArgumentf("%s must be int32 or int64, not %v", what, t.DType())
}

// vectorInts reads input i, a vector of int32 or int64.
func vectorInts(ctx *Context, i int, what string) ([]int64, error) {
	if t := ctx.Input(i); t.Rank() != 1 {
		return nil, status.InvalidArgumentf("%s must be 1-D, not %v", what, t.Shape())
	}
	return ctx.Ints(i)
}

// wrapAxis counts a negative axis from the end. ok is false when it lies outside of the rank.
func wrapAxis(axis int64, rank int) (int, bool) {
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), axis >= 0 && axis < int64(rank)
}

// around are the numbers of elements that the dimensions before and after axis make.
func around(s tensor.Shape, axis int) (before, after int) {
	return s[:axis].Elements(), s[axis+1:].Elements()
}

// shapeOf makes a shape of sizes that a client gave: negative ones and a product that does not
// fit 63 bits are refused.
func shapeOf(sizes []int64) (tensor.Shape, error) {
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

// mulSize multiplies sizes; false when the product does not fit 63 bits.
func mulSize(a, b int64) (int64, bool) {
	if a < 0 || b < 0 || a != 0 && b > math.MaxInt64/a {
		return 0, false
	}
	return a * b, true
}

// addSize adds sizes; false when the sum does not fit 63 bits.
func addSize(sizes ...int64) (sum int64, ok bool) {
	for _, s := range sizes {
		if s < 0 || sum > math.MaxInt64-s {
			return 0, false
		}
		sum += s
	}
	return sum, true
}

// replaced is s with the dimensions from (inclusive) to to (exclusive) replaced.
func replaced(s tensor.Shape, from, to int, by ...int64) tensor.Shape {
	out := make(tensor.Shape, 0, len(s)-(to-from)+len(by))
	return append(append(append(out, s[:from]...), by...), s[to:]...)
}
