package devices

import (
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestSubnormals computes with subnormal numbers: in one part and in many, folded, fused, and in kernels that keep them.
func TestSubnormals(t *testing.T) {
	const tiny = 0x1p-126 // the smallest number that is not subnormal
	x := func(n int64, v float32) *tensor.Tensor {
		all := kernelstest.Iota[float32](tensor.Float32, kernelstest.S(n))
		for i := range tensor.Of[float32](all) {
			tensor.Of[float32](all)[i] = v
		}
		return all
	}
	for _, c := range []struct {
		name, text string
		in, want   float32
	}{
		{"a result", "x = _Arg() index=0 T=float\ny = Mul(x, x) T=float\nr = _Retval(y) index=0 T=float", 0x1p-70, 0},
		{"operands", "x = _Arg() index=0 T=float\ny = AddV2(x, x) T=float\nr = _Retval(y) index=0 T=float", tiny / 2, 0},
		{"what is not subnormal", "x = _Arg() index=0 T=float\ny = AddV2(x, x) T=float\nr = _Retval(y) index=0 T=float", tiny, 2 * tiny},
		{"a chain", "x = _Arg() index=0 T=float\ny = Mul(x, x) T=float\nz = Div(y, x) T=float\nw = Div(z, x) T=float\nr = _Retval(w) index=0 T=float", 0x1p-70, 0},
		{"what is only passed on", "x = _Arg() index=0 T=float\ny = Neg(x) T=float\nz = Neg(y) T=float\nr = _Retval(z) index=0 T=float", tiny / 2, tiny / 2},
	} {
		for _, n := range []int64{1, 1 << 18} {
			d := newTestDevice(t)
			p := program(t, d, c.text, nil)
			in := x(n, c.in)
			got := &kept{}
			ended := make(chan error, 1)
			p.Run(newTestStep(got, in), func(err error) { ended <- err })
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			for i, v := range tensor.Of[float32](got.t) {
				if v != c.want {
					t.Errorf("%s of %d: element %d is %g, want %g", c.name, n, i, v, c.want)
					break
				}
			}
			got.t.Release()
			in.Release()
			if half := tensor.Of[float32](x(1, tiny))[0] * 0.5; half == 0 {
				t.Fatalf("%s: the test's own arithmetic has no subnormal numbers any more", c.name)
			}
		}
	}
}

// kept keeps the last result.
type kept struct{ t *tensor.Tensor }

func (k *kept) Fetch(_ int, t *tensor.Tensor, _ bool) { k.t = t }
