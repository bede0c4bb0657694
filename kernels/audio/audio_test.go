package audio

import (
	"math"
	"math/cmplx"
	"testing"
)

// TestTransform compares the fast transform with its defining sums.
func TestTransform(t *testing.T) {
	for _, n := range []int{2, 4, 32} {
		a, roots := make([]complex128, n), make([]complex128, n/2)
		for i := range a {
			a[i] = complex(math.Sin(float64(3*i)), float64(i%3))
		}
		for i := range roots {
			roots[i] = cmplx.Rect(1, -2*math.Pi*float64(i)/float64(n))
		}
		want := make([]complex128, n)
		for k := range want {
			for i, v := range a {
				want[k] += v * cmplx.Rect(1, -2*math.Pi*float64(i*k)/float64(n))
			}
		}
		transform(a, roots)
		for k := range want {
			if cmplx.Abs(a[k]-want[k]) > 1e-12*float64(n) {
				t.Errorf("of %d, element %d is %v, want %v", n, k, a[k], want[k])
			}
		}
	}
}
