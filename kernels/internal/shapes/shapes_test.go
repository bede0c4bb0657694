package shapes

import (
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestSizes checks the products and sums of sizes, which must be no negative numbers and not overflow.
func TestSizes(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		a, b             int64
		product, sum     int64
		multiplies, adds bool
	}{
		{0, most, 0, most, true, true},
		{1, most, most, 0, true, false},
		{1, most - 1, most - 1, most, true, true},
		{2, most/2 + 1, 0, most/2 + 3, false, true},
		{-1, 2, 0, 0, false, false},
		{2, -1, 0, 0, false, false},
	} {
		if got, ok := MulSize(c.a, c.b); got != c.product || ok != c.multiplies {
			t.Errorf("%d times %d: %d, %v", c.a, c.b, got, ok)
		}
		if got, ok := AddSize(c.a, c.b); got != c.sum || ok != c.adds {
			t.Errorf("%d and %d: %d, %v", c.a, c.b, got, ok)
		}
	}
}

// TestShapeOf checks which sizes of clients make a shape.
func TestShapeOf(t *testing.T) {
	for _, c := range []struct {
		sizes []int64
		code  status.Code
	}{
		{nil, status.OK},
		{[]int64{2, 0, 3}, status.OK},
		{[]int64{math.MaxInt64}, status.OK},
		{[]int64{2, -1}, status.InvalidArgument},
		{[]int64{math.MaxInt64, 2}, status.InvalidArgument},
	} {
		s, err := ShapeOf(c.sizes)
		if status.CodeOf(err) != c.code || err == nil && len(s) != len(c.sizes) {
			t.Errorf("sizes %v: %v, %v", c.sizes, s, err)
		}
	}
}
