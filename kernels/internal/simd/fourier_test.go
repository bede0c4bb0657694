package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFourierPasses compares with the portable functions, in memory that ends at guard pages.
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
			w := make([][6]float32, 1+r.IntN(4))
			for i := range w {
				w[i] = [6]float32(normals(make([]float32, 6)))
			}
			src := normals(mem.floats(FourierNumber * (len(w)*n + 3*srcStep)))
			dst := mem.floats(FourierNumber * len(w) * (n + 3*dstStep))
			want := slices.Clone(dst)
			Butterflies4(dst, src, n, srcStep, dstStep, w, inverse)
			for i := range w {
				butterflies4(want[FourierNumber*i*(n+3*dstStep):], src[FourierNumber*i*n:], n, srcStep, dstStep, &w[i], inverse)
			}
			expectClose(t, "Butterflies4", dst, want)

			src, dst = mem.floats(FourierNumber*(n+srcStep)), mem.floats(FourierNumber*(n+dstStep))
			normals(src)
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

// TestFourierRows compares the transform of one row with the portable loops, in memory that ends at guard pages.
func TestFourierRows(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(45, 46))
		set := active
		portably := func(f func()) {
			active = &portable
			defer func() { active = set }()
			f()
		}
		for round := range 60 {
			mem := &arena{r: r}
			random := func(n int) []float32 {
				s := mem.floats(n)
				for i := range s {
					s[i] = float32(r.NormFloat64())
				}
				if round%9 == 0 {
					s[r.IntN(n)] = float32([]float64{math.NaN(), math.Inf(1)}[r.IntN(2)])
				}
				return s
			}
			n, inverse := 1+r.IntN(6), round%2 == 0
			step := FourierNumber + r.IntN(9)
			numbers, rows := random(FourierNumber*n), random((n-1)*step+FourierNumber)
			want := slices.Clone(numbers)
			LoadNumbers(numbers, rows, n, step, inverse)
			portably(func() { LoadNumbers(want, rows, n, step, inverse) })
			expectSame(t, "LoadNumbers", numbers, want)

			want = slices.Clone(rows)
			StoreNumbers(rows, numbers, n, step, 0.5, inverse)
			portably(func() { StoreNumbers(want, numbers, n, step, 0.5, inverse) })
			expectSame(t, "StoreNumbers", rows, want)

			w := random(len(numbers))
			want = slices.Clone(numbers)
			MulNumbers(numbers, w)
			portably(func() { MulNumbers(want, w) })
			expectSame(t, "MulNumbers", numbers, want)

			last := 2 * r.IntN(40)
			factors := make([][2]float32, last/2+1)
			for i := range factors {
				factors[i] = [2]float32{float32(r.NormFloat64()), float32(r.NormFloat64())}
			}
			src, dst := random(2*last+2), mem.floats(2*last+2)
			want = slices.Clone(dst)
			portably(func() { UntangleRow(want, src, last, factors) })
			UntangleRow(dst, src, last, factors)
			expectSame(t, "UntangleRow", dst, want)
			UntangleRow(src, src, last, factors)
			expectSame(t, "UntangleRow in place", src, want)
			mem.release()
		}
	})
}

// expectSame is expectClose, except that numbers that are not finite must be so in both.
func expectSame(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		if finite := w-w == 0; finite && !near(got[i], float64(w), 10) || !finite && got[i]-got[i] == 0 {
			t.Fatalf("%s gives %v at %d, want %v", what, got[i], i, w)
		}
	}
}

// expectClose allows for products fused with their sums.
func expectClose(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !near(got[i], float64(want[i]), 10) {
			t.Fatalf("%s gives %v at %d, want %v", what, got[i], i, want[i])
		}
	}
}
