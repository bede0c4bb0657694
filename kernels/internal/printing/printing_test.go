package printing

import (
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
)

// TestEnds checks how much SummaryV2 prints of a tensor.
func TestEnds(t *testing.T) {
	of := func(shape tensor.Shape, values ...float64) *tensor.Tensor {
		v, err := tensor.FromSlice(tensor.Float64, shape, values)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	row := of(tensor.Shape{5}, 0, 1, 0.1, 3, 1.0/3)
	for _, c := range []struct {
		of   *tensor.Tensor
		ends int
		want string
	}{
		{row, -1, "[0 1 0.1 3 0.33333333333333331]"},
		{row, 6, "[0 1 0.1 3 0.33333333333333331]"},
		{row, 5, "[0 1 0.1 3 0.33333333333333331]"},
		{row, 1, "[0 ... 0.33333333333333331]"},
		{of(tensor.Shape{3}, math.NaN(), math.Inf(1), math.Inf(-1)), -1, "[nan inf -inf]"},
		{of(tensor.Shape{}, 2), 1, "2"},
		{of(tensor.Shape{}, 2), 0, "..."},
	} {
		if got := SummaryV2(c.of, c.ends); got != c.want {
			t.Errorf("%d ends of %v: %s, want %s", c.ends, c.of.Shape(), got, c.want)
		}
	}
}
