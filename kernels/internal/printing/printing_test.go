package printing

import (
	"math"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/variant"
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

// TestTextsOfVariantsAreBounded prints values that variants hold more often than there is room for.
func TestTextsOfVariantsAreBounded(t *testing.T) {
	for name, hold := range map[string]func(a, b *tensor.Tensor) any{
		"optional": func(a, b *tensor.Tensor) any { return variant.NewOptional(true, []*tensor.Tensor{a, b}) },
		"composite": func(a, b *tensor.Tensor) any {
			c := &variant.Composite{Components: []*tensor.Tensor{a, b}}
			c.Refs.Store(1)
			return c
		},
	} {
		x := tensor.FromScalar(strings.Repeat("long", 1000))
		for range 60 {
			next, err := tensor.New(tensor.Host, tensor.Variant, nil)
			if err != nil {
				t.Fatal(err)
			}
			next.Variants()[0] = hold(x, x.Retain())
			x = next
		}
		for what, text := range map[string]string{"Summary": Summary(x, -1), "SummaryV2": SummaryV2(x, -1), "DebugText": DebugText(x), "VariantText": VariantText(x.Variants()[0])} {
			if len(text) < 60 || len(text) > 2*maxText || !strings.Contains(text, beyond) {
				t.Errorf("%s of nested %ss has %d bytes", what, name, len(text))
			}
		}
		x.Release()
	}
}
