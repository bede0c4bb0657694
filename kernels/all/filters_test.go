package all_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestFiltersWithoutElements checks that convolutions refuse such filters, and that their gradients are zero, or have no elements, whatever
// the shapes of the other inputs are.
func TestFiltersWithoutElements(t *testing.T) {
	d := kt.NewDevice(t)
	filled := func(dims ...int64) *tensor.Tensor { return kt.Iota[float32](tensor.Float32, kt.S(dims...)) }
	sizes := func(dims ...int64) *tensor.Tensor {
		v := make([]int32, len(dims))
		for i, n := range dims {
			v[i] = int32(n)
		}
		return kt.I32(kt.S(int64(len(dims))), v...)
	}
	for _, filter := range [][]int64{{0, 2, 2, 3}, {2, 0, 2, 3}, {2, 2, 0, 3}, {2, 2, 2, 0}, {0, 0, 2, 3}} {
		for _, depth := range []int64{filter[2], 5} {
			image, grad := []int64{1, 4, 4, depth}, []int64{1, 3, 3, filter[3]}
			attrs := kt.Attrs{"T": tensor.Float32, "strides": []int64{1, 1, 1, 1}, "padding": "VALID"}
			attrs3 := kt.Attrs{"T": tensor.Float32, "strides": []int64{1, 1, 1, 1, 1}, "padding": "VALID"}
			volume, filter3, grad3 := append([]int64{1, 4}, image[1:]...), append([]int64{2}, filter...), append([]int64{1, 3}, grad[1:]...)
			for _, c := range []struct {
				op     string
				attrs  kt.Attrs
				inputs []any
				want   []int64
			}{
				{"Conv2DBackpropFilter", attrs, []any{filled(image...), sizes(filter...), filled(grad...)}, filter},
				{"Conv2DBackpropInput", attrs, []any{sizes(image...), filled(filter...), filled(grad...)}, image},
				{"DepthwiseConv2dNativeBackpropFilter", attrs, []any{filled(image...), sizes(filter...), filled(grad...)}, filter},
				{"DepthwiseConv2dNativeBackpropInput", attrs, []any{sizes(image...), filled(filter...), filled(grad...)}, image},
				{"Conv3DBackpropFilterV2", attrs3, []any{filled(volume...), sizes(filter3...), filled(grad3...)}, filter3},
				{"Conv3DBackpropInputV2", attrs3, []any{sizes(volume...), filled(filter3...), filled(grad3...)}, volume},
			} {
				out := d.Run(t, kt.Op{Type: c.op, Attrs: c.attrs}, c.inputs...)[0].Tensor
				want := kt.F32(tensor.Shape(c.want), make([]float32, out.Len())...)
				if diff := kt.Diff(out, want, 0); diff != "" {
					t.Errorf("%s with the filter %v of images %v: %s", c.op, filter, image, diff)
				}
				want.Release()
				out.Release()
			}
		}
		for _, op := range []string{"Conv2D", "DepthwiseConv2dNative"} {
			kt.Fails(t, d, status.InvalidArgument, "", kt.Op{Type: op, Attrs: kt.Attrs{"T": tensor.Float32, "strides": []int64{1, 1, 1, 1}, "padding": "VALID"}},
				filled(1, 4, 4, filter[2]), filled(filter...))
		}
	}
}

// TestHistogramsOfExtremes counts values whose distance from the range's bounds, or the range itself, overflows.
func TestHistogramsOfExtremes(t *testing.T) {
	d := kt.NewDevice(t)
	inf := math.Inf(1)
	run := func(values []float64, lo, hi float64) string {
		op := kt.Op{Type: "HistogramFixedWidth", Attrs: kt.Attrs{"T": tensor.Float64, "dtype": tensor.Int32}}
		out, err := d.Try(op, kt.F64(kt.S(int64(len(values))), values...), kt.F64(kt.S(2), lo, hi), kt.I32(nil, 5))
		if err != nil {
			return status.CodeOf(err).String()
		}
		defer out[0].Tensor.Release()
		return fmt.Sprint(tensor.Of[int32](out[0].Tensor))
	}
	for _, c := range []struct {
		values []float64
		lo, hi float64
		want   string
	}{
		{[]float64{1e308, -1e308, 0, 1e307}, -1e308, 1e308, "[1 0 2 0 1]"},
		{[]float64{1e308, -1e308, math.NaN()}, -1e308, 1e308, "InvalidArgument"},
		{[]float64{inf, -inf, 1}, 0, 1, "[1 0 0 0 2]"},
		{[]float64{inf, 1, 0, -1}, 0, inf, "[3 0 0 0 1]"},
		{[]float64{inf, -inf, 1}, -inf, inf, "[2 0 0 0 1]"},
		{[]float64{1}, math.NaN(), 1, "InvalidArgument"},
	} {
		if got := run(c.values, c.lo, c.hi); !strings.EqualFold(strings.ReplaceAll(got, "_", ""), c.want) {
			t.Errorf("%v from %v to %v: %s, not %s", c.values, c.lo, c.hi, got, c.want)
		}
	}
}
