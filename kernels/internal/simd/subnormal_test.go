package simd

import "testing"

// TestSubnormals checks that vector products and updates treat subnormal numbers as zeros, flush them in results, and restore the mode of
// Go's own arithmetic.
func TestSubnormals(t *testing.T) {
	const n = 40
	full := func(v float32) []float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = v
		}
		return s
	}
	eachLevel(t, func(t *testing.T) {
		if active.tiles == nil {
			t.Skip("the portable functions are Go's own arithmetic")
		}
		check := func(name string, got []float32) {
			t.Helper()
			for _, v := range got {
				if v != 0 {
					t.Errorf("%s left %v", name, v)
					break
				}
			}
			if tiny := full(1e-40); tiny[0]*0.5 == 0 {
				t.Errorf("%s: Go's arithmetic has no subnormal numbers any more", name)
			}
		}
		for _, c := range []struct {
			name string
			a, b float32
		}{{"subnormal operands", 1e-40, 1e10}, {"a subnormal result", 1e-30, 1e-10}} {
			for _, trans := range []bool{false, true} {
				c1 := make([]float32, n)
				Gemm(nil, trans, false, 1, n, 1, full(c.a)[:1], 1, full(c.b), n, c1, n, false)
				check(c.name+" in a product", c1)
			}
			y := make([]float32, n)
			Axpy(y, c.a, full(c.b))
			check(c.name+" in axpy", y)
		}
		v, m, vv := make([]float32, n), make([]float32, n), make([]float32, n)
		ApplyAdam(v, m, vv, full(1e-22), 1e-3, 0.9, 0.999, 1e-8, false)
		check("Adam's mean of squares", vv)
		ms, mom := make([]float32, n), make([]float32, n)
		ApplyRMSProp(v, ms, mom, full(1e-22), 1e-3, 0.9, 0, 1)
		check("RMSProp's mean of squares", ms)
	})
}
