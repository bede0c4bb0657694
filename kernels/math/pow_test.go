package math

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPow32 compares with float64 over random and special operands.
func TestPow32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2, 0.5, -3, 1 + 0x1p-23, 1 - 0x1p-24, math.MaxFloat32, 0x1p-126, 0x1p-149,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 127, 128, -149, 1e6}
	check := func(x, y float32) {
		t.Helper()
		dst := []float32{0}
		pow32(dst, []float32{x}, []float32{y})
		exact := math.Pow(float64(x), float64(y))
		want := float32(exact)
		if dst[0] == want || dst[0] != dst[0] && want != want {
			return
		}
		next := math.Abs(float64(math.Nextafter32(want, float32(math.Inf(1))) - want))
		if d := math.Abs(float64(dst[0])-exact) / next; !(d <= 0.6) {
			t.Fatalf("pow(%v, %v) = %v, want %v: %v units in the last place", x, y, dst[0], exact, d)
		}
	}
	for _, x := range special {
		for _, y := range special {
			check(x, y)
		}
	}
	for range 1_000_000 {
		x := float32(math.Exp(r.NormFloat64() * 10))
		// Choose y to spread the results over the whole range.
		y := float32(r.NormFloat64() * 60 / math.Max(1e-3, math.Abs(math.Log2(float64(x)))))
		check(x, y)
		check(1+float32(r.NormFloat64()*1e-3), float32(r.NormFloat64()*1e4))
	}
}

func BenchmarkPow32(b *testing.B) {
	x, y := make([]float32, 1000), make([]float32, 1000)
	for i := range x {
		x[i], y[i] = rand.Float32()+0.1, rand.Float32()
	}
	for b.Loop() {
		pow32(x, x, y)
	}
}
