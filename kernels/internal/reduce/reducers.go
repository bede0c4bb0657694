package reduce

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// SumFloat sums floats.
var SumFloat = Reducer[float32]{Row: simd.Sum, Into: func(acc, a []float32) { simd.Add(acc, acc, a) }, Rows: simd.SumRows, Each: simd.SumEach}

// MaxFloat computes the maximum of floats.
var MaxFloat = Reducer[float32]{Identity: float32(math.Inf(-1)), Row: simd.MaxOf, Into: func(acc, a []float32) { simd.Max(acc, acc, a) }, Each: simd.MaxOfEach}

// MinFloat computes the minimum of floats.
var MinFloat = Reducer[float32]{Identity: float32(math.Inf(1)), Row: slices.Min[[]float32], Into: func(acc, a []float32) { simd.Min(acc, acc, a) }}

// Sums returns a reducer that sums elements.
func Sums[T element.Numeric]() Reducer[T] {
	return Reducer[T]{Row: SumOf[T], Into: func(acc, a []T) { elementwise.Add(acc, acc, a) }}
}

// SumOf returns the sum of a. It uses four independent partial sums.
func SumOf[T element.Numeric](a []T) T {
	var s0, s1, s2, s3 T
	for len(a) >= 4 {
		s0 += a[0]
		s1 += a[1]
		s2 += a[2]
		s3 += a[3]
		a = a[4:]
	}
	for _, v := range a {
		s0 += v
	}
	return (s0 + s1) + (s2 + s3)
}

// Norms returns a reducer that computes square roots of sums of squares.
func Norms[T any](sum Reducer[T], square, sqrt func(dst, a []T)) Reducer[T] {
	sum.First = square
	sum.Last = func(out []T, _ int) { sqrt(out, out) }
	return sum
}
