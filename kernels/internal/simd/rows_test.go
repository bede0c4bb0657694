package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// numbersOf returns n numbers of a type, in memory that begins or ends at a guard page.
func numbersOf[T Real](mem *arena, n int) []T {
	f := mem.floats(n * sizeOf[T]() / 4)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(f))), n)
}

// TestMatrixRows compares the loops over rows with sums of products in float64 where these are finite; where they are not, the result must
// not be finite either.
func TestMatrixRows(t *testing.T) {
	t.Run("float32", testRows[float32])
	t.Run("float64", testRows[float64])
}

func testRows[T Real](t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(43, 44))
		for round := range 600 {
			mem := &arena{r: r}
			rows, n := r.IntN(14), r.IntN(90)
			if round%10 == 0 {
				n = 200 + r.IntN(300)
			}
			lda := n + r.IntN(5)
			random := func(s []T) []T {
				for i := range s {
					s[i] = T(r.NormFloat64())
				}
				if round%7 == 0 && len(s) > 0 {
					s[r.IntN(len(s))] = T([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)])
				}
				return s
			}
			size := 0
			if rows > 0 {
				size = (rows-1)*lda + n
			}
			a, x, c, y := random(numbersOf[T](mem, size)), random(numbersOf[T](mem, n)), random(numbersOf[T](mem, rows)), random(numbersOf[T](mem, n))
			wantSums, wantY := make([]float64, rows), make([]float64, n)
			for j, v := range y {
				wantY[j] = float64(v)
			}
			for i := range rows {
				for j := range n {
					wantSums[i] += float64(a[i*lda+j]) * float64(x[j])
					wantY[j] += float64(c[i]) * float64(a[i*lda+j])
				}
			}
			what := fmt.Sprintf("of %d rows of %d", rows, n)
			sums := numbersOf[T](mem, rows)
			for i := range sums {
				sums[i] = 7
			}
			DotRows(sums, a, lda, x)
			expectSums(t, "DotRows "+what, sums, wantSums)
			AddRows(y, a, lda, c)
			expectSums(t, "AddRows "+what, y, wantY)
			mem.release()
		}
	})
}

func expectSums[T Real](t *testing.T, what string, got []T, want []float64) {
	t.Helper()
	tolerance := 1e-4
	if sizeOf[T]() == 8 {
		tolerance = 1e-12
	}
	for i, w := range want {
		g := float64(got[i])
		finite := !math.IsNaN(w) && !math.IsInf(w, 0)
		if finite && !(math.Abs(g-w) <= tolerance*(1+math.Abs(w))) || !finite && g-g == 0 {
			t.Fatalf("%s gives %v at %d, want %v", what, g, i, w)
		}
	}
}

// TestMatrixRowsCheck checks the panic if a matrix does not fit its slice.
func TestMatrixRowsCheck(t *testing.T) {
	for name, call := range map[string]func(){
		"AddRows": func() { AddRows(make([]float64, 3), make([]float64, 7), 5, make([]float64, 2)) },
		"DotRows": func() { DotRows(make([]float32, 2), make([]float32, 7), 5, make([]float32, 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			call()
		})
	}
}
