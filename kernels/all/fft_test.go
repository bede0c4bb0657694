package all_test

import (
	"fmt"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestFourierInSinglePrecision compares transforms in single precision, whose algorithm depends on the size, with those in double
// precision.
func TestFourierInSinglePrecision(t *testing.T) {
	d := kt.NewDevice(t)
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		op     string
		dims   []int64
		length []int32 // of a real transform
	}{
		{"FFT", []int64{5, 256}, nil}, {"IFFT", []int64{4, 512}, nil}, {"FFT", []int64{2, 3, 1024}, nil}, {"FFT", []int64{5, 64}, nil},
		{"FFT2D", []int64{512, 256}, nil}, {"IFFT2D", []int64{2, 16, 256}, nil}, {"FFT3D", []int64{4, 8, 256}, nil},
		{"RFFT", []int64{5, 512}, []int32{512}}, {"RFFT", []int64{5, 1030}, []int32{1024}}, {"RFFT2D", []int64{20, 520}, []int32{16, 512}},
		{"IRFFT", []int64{5, 257}, []int32{512}}, {"IRFFT", []int64{4, 700}, []int32{1024}}, {"IRFFT2D", []int64{18, 300}, []int32{16, 512}},
		{"RFFT", []int64{5, 300}, []int32{256}}, {"IRFFT", []int64{5, 129}, []int32{256}},
	} {
		t.Run(fmt.Sprint(c.op, c.dims, c.length), func(t *testing.T) {
			realInput, realOutput := c.op[0] == 'R', c.op[:2] == "IR"
			single, double := zeros(tensor.Complex64, c.dims...), zeros(tensor.Complex128, c.dims...)
			if realInput {
				single, double = zeros(tensor.Float32, c.dims...), zeros(tensor.Float64, c.dims...)
			}
			for i := range single.Len() {
				re, im := r.Float32()-0.5, r.Float32()-0.5
				if realInput {
					tensor.Of[float32](single)[i], tensor.Of[float64](double)[i] = re, float64(re)
				} else {
					tensor.Of[complex64](single)[i], tensor.Of[complex128](double)[i] = complex(re, im), complex(float64(re), float64(im))
				}
			}
			run := func(x *tensor.Tensor, attrs kt.Attrs) *tensor.Tensor {
				in := []any{x}
				if c.length != nil {
					in = append(in, kt.I32(kt.S(int64(len(c.length))), c.length...))
				}
				return d.Run(t, kt.Op{Type: c.op, Outputs: 1, Attrs: attrs}, in...)[0].Tensor
			}
			got := run(single, kt.Attrs{"Tcomplex": tensor.Complex64, "Treal": tensor.Float32})
			want := run(double, kt.Attrs{"Tcomplex": tensor.Complex128, "Treal": tensor.Float64})
			defer got.Release()
			defer want.Release()
			if !got.Shape().Equal(want.Shape()) {
				t.Fatalf("shape %v, want %v", got.Shape(), want.Shape())
			}
			for i := range want.Len() {
				var g, w complex128
				if realOutput {
					g, w = complex(float64(tensor.Of[float32](got)[i]), 0), complex(tensor.Of[float64](want)[i], 0)
				} else {
					g, w = complex128(tensor.Of[complex64](got)[i]), tensor.Of[complex128](want)[i]
				}
				if !(cmplx.Abs(g-w) <= 1e-4) {
					t.Fatalf("element %d is %v, want %v", i, g, w)
				}
			}
		})
	}
}
