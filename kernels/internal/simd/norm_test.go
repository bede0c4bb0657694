package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestNorms compares with the portable passes, over rows in memory that ends at guard pages.
func TestNorms(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for range 100 {
			mem := &arena{r: r}
			n, rows := 1+r.IntN(150), 1+r.IntN(5)
			channels := func() []float32 { return fill(r, mem.floats(n)) }
			x, grad, dst, want := fill(r, mem.floats(n*rows)), fill(r, mem.floats(n*rows)), mem.floats(n*rows), make([]float32, n*rows)
			mean, factor, offset, slope := channels(), channels(), channels(), channels()
			sum, products := channels(), channels()
			wantSum, wantProducts := clone(sum), clone(products)
			check := func(what string, got, want []float32) {
				t.Helper()
				for i := range want {
					if math.Abs(float64(got[i]-want[i])) > 1e-5*(1+math.Abs(float64(want[i]))) {
						t.Fatalf("%s of %d rows of %d: number %d is %v, want %v", what, rows, n, i, got[i], want[i])
					}
				}
			}
			for at := 0; at < len(x); at += n {
				normalizeRow(want[at:at+n], x[at:at+n], mean, factor, offset)
			}
			NormalizeRows(dst, x, mean, factor, offset)
			check("NormalizeRows", dst, want)

			for i, v := range x {
				wantSum[i%n] += v
			}
			AddEachRow(sum, x)
			check("AddEachRow", sum, wantSum)

			for at := 0; at < len(x); at += n {
				addSquaresRow(wantSum, x[at:at+n], mean)
			}
			AddSquares(sum, x, mean)
			check("AddSquares", sum, wantSum)

			for at := 0; at < len(x); at += n {
				addProductsRow(wantSum, wantProducts, grad[at:at+n], x[at:at+n], mean)
			}
			AddProducts(sum, products, grad, x, mean)
			check("AddProducts", sum, wantSum)
			check("AddProducts", products, wantProducts)

			for at := 0; at < len(x); at += n {
				normalizeGradRow(want[at:at+n], grad[at:at+n], x[at:at+n], mean, factor, slope, offset)
			}
			NormalizeGradRows(dst, grad, x, mean, factor, slope, offset)
			check("NormalizeGradRows", dst, want)
			mem.release()
		}
	})
}
