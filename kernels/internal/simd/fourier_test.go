package simd

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFourierPasses compares with the portable functions, in memory that ends at pages that may not be touched.
func TestFourierPasses(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		normals := func(s []float32) []float32 {
			for i := range s {
				s[i] = float32(r.NormFloat64())
			}
			return s
		}
		for round := range 40 {
			mem := &arena{r: r}
			n, inverse := 1+r.IntN(5), round%2 == 0
			srcStep, dstStep := n+r.IntN(3), n+r.IntN(3)
			w := [6]float32(normals(make([]float32, 6)))
			src := normals(mem.floats(FourierNumber * (n + 3*srcStep)))
			dst := mem.floats(FourierNumber * (n + 3*dstStep))
			want := slices.Clone(dst)
			Butterflies4(dst, src, n, srcStep, dstStep, &w, inverse)
			butterflies4(want, src, n, srcStep, dstStep, &w, inverse)
			expectClose(t, "Butterflies4", dst, want)

			src, dst = src[FourierNumber*2*srcStep:], dst[FourierNumber*2*dstStep:]
			want = slices.Clone(dst)
			Butterflies2(dst, src, n, srcStep, dstStep, inverse)
			butterflies2(want, src, n, srcStep, dstStep)
			expectClose(t, "Butterflies2", dst, want)

			last := r.IntN(9)
			factors := make([][2]float32, last/2+1)
			for i := range factors {
				factors[i] = [2]float32(normals(make([]float32, 2)))
			}
			src, dst = normals(mem.floats(FourierNumber*(last+1))), mem.floats(FourierNumber*(last+1))
			want = slices.Clone(dst)
			Untangle(dst, src, last, len(factors), factors)
			untangle(want, src, last, factors)
			expectClose(t, "Untangle", dst, want)
			mem.release()
		}
	})
}

// expectClose allows for products that are fused with their sums.
func expectClose(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !near(got[i], float64(want[i]), 10) {
			t.Fatalf("%s gives %v at %d, want %v", what, got[i], i, want[i])
		}
	}
}
