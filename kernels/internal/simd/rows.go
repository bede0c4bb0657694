package simd

import "fmt"

// Real is the set of real types that matrices are decomposed in.
type Real interface{ float32 | float64 }

// rowKernels are the loops over rows of a matrix, which are lda bytes apart. There is at least one row.
type rowKernels[T Real] struct {
	addRows func(rows, n int, a *T, lda int, c *T, y *T)
	dotRows func(rows, n int, a *T, lda int, x *T, y *T)
}

// rowKernelsOf returns the kernels in use for a type, or nil for the portable ones.
func rowKernelsOf[T Real]() *rowKernels[T] {
	var k any = active.rows64
	if _, single := any(*new(T)).(float32); single {
		k = active.rows
	}
	return k.(*rowKernels[T])
}

// AddRows adds the rows of a matrix, each multiplied by its element of c, to y. Row i starts at a[i*lda] and is as long as y.
func AddRows[T Real](y, a []T, lda int, c []T) {
	n := len(y)
	checkMatrix("A", len(c), n, lda, len(a))
	if n == 0 || len(c) == 0 {
		return
	}
	k := rowKernelsOf[T]()
	if k == nil {
		for i, f := range c {
			addScaled(y, a[i*lda:][:n], f)
		}
		return
	}
	for most := rowsAtOnce(n); len(c) > 0; {
		rows := min(most, len(c))
		k.addRows(rows, n, &a[0], sizeOf[T]()*lda, &c[0], &y[0])
		if c = c[rows:]; len(c) > 0 {
			a = a[rows*lda:]
		}
	}
}

// DotRows sets y to the products of the rows of a matrix with x. Row i starts at a[i*lda] and is as long as x.
func DotRows[T Real](y, a []T, lda int, x []T) {
	n := len(x)
	checkMatrix("A", len(y), n, lda, len(a))
	if len(y) == 0 {
		return
	}
	if n == 0 {
		clear(y)
		return
	}
	k := rowKernelsOf[T]()
	if k == nil {
		for i := range y {
			y[i] = dotOf(a[i*lda:][:n], x)
		}
		return
	}
	for most := rowsAtOnce(n); len(y) > 0; {
		rows := min(most, len(y))
		k.dotRows(rows, n, &a[0], sizeOf[T]()*lda, &x[0], &y[0])
		if y = y[rows:]; len(y) > 0 {
			a = a[rows*lda:]
		}
	}
}

// rowsAtOnce returns the number of rows of a length per call of a kernel.
func rowsAtOnce(n int) int { return max(4, 4*block/n) }

// GemmOf is Gemm or Gemm64.
func GemmOf[T Real](transA, transB bool, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int, accumulate bool) {
	var e any = doubles
	if _, single := any(*new(T)).(float32); single {
		e = floats
	}
	gemm(e.(*engine[T]), nil, transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
}

// dotOf is the scalar product without a kernel of rows.
func dotOf[T Real](a, b []T) T {
	switch a := any(a).(type) {
	case []float32:
		return T(dotProduct(a, any(b).([]float32)))
	case []float64:
		var sum [4]float64
		b := any(b).([]float64)[:len(a)]
		i := 0
		for ; i+4 <= len(a); i += 4 {
			x, y := a[i:i+4:i+4], b[i:i+4:i+4]
			sum[0] += x[0] * y[0]
			sum[1] += x[1] * y[1]
			sum[2] += x[2] * y[2]
			sum[3] += x[3] * y[3]
		}
		for ; i < len(a); i++ {
			sum[0] += a[i] * b[i]
		}
		return T((sum[0] + sum[1]) + (sum[2] + sum[3]))
	}
	panic(fmt.Sprintf("simd: no products of %T", a))
}

// addScaled adds a times f to y without a kernel of rows.
func addScaled[T Real](y, a []T, f T) {
	switch y := any(y).(type) {
	case []float32:
		Axpy(y, float32(f), any(a).([]float32))
	case []float64:
		a, f := any(a).([]float64)[:len(y)], float64(f)
		for i := range y {
			y[i] += f * a[i]
		}
	}
}
