package debug_test

import (
	"math"
	"os"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestNumericSummary checks what the op counts, and that it may keep the summaries of healthy tensors to itself.
func TestNumericSummary(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name         string
		lower, upper float64
		in           []float64
		want         []float64 // without the first element, that there is a value, and the last, the type and the shape
		healthy      bool
	}{
		{"numbers", -inf, inf, []float64{-2, 0, 2, 4}, []float64{4, 0, 0, 1, 1, 2, 0, -2, 4, 1, 5}, true},
		{"a bound of no use", inf, -inf, []float64{-2, 0, 2, 4}, []float64{4, 0, 0, 1, 1, 2, 0, -2, 4, 1, 5}, true},
		{"NaN", -inf, inf, []float64{nan, 3}, []float64{2, 1, 0, 0, 0, 1, 0, 3, 3, 3, 0}, false},
		{"+inf", -inf, inf, []float64{inf, 3}, []float64{2, 0, 0, 0, 0, 1, 1, 3, 3, 3, 0}, false},
		{"-inf", -inf, inf, []float64{-inf, 3}, []float64{2, 0, 1, 0, 0, 1, 0, 3, 3, 3, 0}, false},
		{"at the lower bound", -1, 5, []float64{-1, 3}, []float64{2, 0, 1, 0, 0, 1, 0, -1, 3, 1, 4}, false},
		{"at the upper bound", -1, 5, []float64{1, 5}, []float64{2, 0, 0, 0, 0, 1, 1, 1, 5, 3, 4}, false},
		{"nothing finite", -inf, inf, []float64{nan}, []float64{1, 1, 0, 0, 0, 0, 0, inf, -inf, nan, nan}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := kt.NewDevice(t)
			shape := kt.S(int64(len(c.in)))
			want := append(append([]float64{1}, c.want...), float64(tensor.Float64), 1, float64(len(c.in)))
			for _, mute := range []bool{false, true} {
				dir := t.TempDir()
				attrs := kt.Attrs{"T": tensor.Float64, "device_name": "/device:CPU:0", "tensor_name": "x:0",
					"debug_urls": []string{"file://" + dir}, "gated_grpc": false, "lower_bound": float32(c.lower),
					"upper_bound": float32(c.upper), "mute_if_healthy": mute}
				out := d.Run(t, kt.Op{Type: "DebugNumericSummary", Step: kt.NewStep(), Attrs: attrs}, kt.F64(shape, c.in...))
				kt.Expect(t, out, kt.F64(kt.S(int64(len(want))), want...))
				files, err := os.ReadDir(dir)
				if written := len(files) > 0; err != nil || written == (mute && c.healthy) {
					t.Errorf("with mute_if_healthy %v, a file is written: %v, %v", mute, written, err)
				}
			}
		})
	}
}
