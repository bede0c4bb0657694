package shapes

import (
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

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
