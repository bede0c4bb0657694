package gemm

import (
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Gemm sets the m by n matrix c to op(a)·op(b), where op transposes according to ta and tb. All matrices are stored by rows, whose starts
// are lda, ldb and ldc elements apart. With accumulate, the product is added to c.
type Gemm[T any] func(par simd.Parallel, ta, tb bool, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int, accumulate bool)

// Portable is the Gemm of element types without an optimized one.
func Portable[T element.Numeric](par simd.Parallel, ta, tb bool, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int, accumulate bool) {
	rows := func(lo, hi int) {
		column := []T(nil)
		if ta {
			column = make([]T, k)
		}
		for i := lo; i < hi; i++ {
			row := column
			if ta {
				for p := range row {
					row[p] = a[p*lda+i]
				}
			} else {
				row = a[i*lda : i*lda+k]
			}
			out := c[i*ldc : i*ldc+n]
			if !accumulate {
				clear(out)
			}
			if tb {
				for j := range out {
					out[j] += Dot(row, b[j*ldb:j*ldb+k])
				}
			} else {
				combine(out, row, b, ldb)
			}
		}
	}
	const work = 1 << 15
	if par == nil || m*n*k <= work {
		rows(0, m)
		return
	}
	par(m, max(1, work/max(1, n*k)), rows)
}

// Dot returns the scalar product of a and b.
func Dot[T element.Numeric](a, b []T) T {
	b = b[:len(a)]
	var s0, s1, s2, s3 T
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// combine adds the weighted rows of b to out, four rows at once.
func combine[T element.Numeric](out, weights, b []T, ldb int) {
	n := len(out)
	p := 0
	for ; p+4 <= len(weights); p += 4 {
		w0, w1, w2, w3 := weights[p], weights[p+1], weights[p+2], weights[p+3]
		b0, b1, b2, b3 := b[p*ldb:][:n], b[(p+1)*ldb:][:n], b[(p+2)*ldb:][:n], b[(p+3)*ldb:][:n]
		for j := range out {
			out[j] += (w0*b0[j] + w1*b1[j]) + (w2*b2[j] + w3*b3[j])
		}
	}
	for ; p < len(weights); p++ {
		w, row := weights[p], b[p*ldb:][:n]
		for j := range out {
			out[j] += w * row[j]
		}
	}
}
