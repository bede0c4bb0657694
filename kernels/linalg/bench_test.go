package linalg

import (
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

func benchmarkReal[T simd.Real](b *testing.B, run realFunction[T], diagonal T) {
	const n = 256
	r := rand.New(rand.NewPCG(1, 2))
	a := viewOf(n, n, make([]T, n*n))
	for i := range n {
		for j := range i {
			a.row(i)[j] = T(r.NormFloat64())
			a.row(j)[i] = a.row(i)[j]
		}
		a.row(i)[i] = diagonal
	}
	out := [][]T{make([]T, n*n), make([]T, n*n), make([]T, n*n)}
	for b.Loop() {
		clear(out[0])
		if err := run([]view[T]{a, a}, out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCholesky(b *testing.B)    { benchmarkReal(b, realCholesky[float32], 40) }
func BenchmarkInverse(b *testing.B)     { benchmarkReal(b, realInverter[float32](false), 40) }
func BenchmarkEigenvalues(b *testing.B) { benchmarkReal(b, realSelfAdjoint[float32](false), 40) }
func BenchmarkEigenvectors(b *testing.B) {
	benchmarkReal(b, realSelfAdjoint[float32](true), 40)
}
func BenchmarkSVD(b *testing.B) { benchmarkReal(b, realSVD[float32](true, false), 1) }
func BenchmarkDoubleSVD(b *testing.B) {
	benchmarkReal(b, realSVD[float64](true, false), 1)
}
func BenchmarkLU(b *testing.B) {
	benchmarkReal(b, func(in []view[float32], out [][]float32) error {
		return realFactorLU(in, [][]float32{out[0], out[1][:256]})
	}, 40)
}
func BenchmarkQR(b *testing.B) {
	benchmarkReal(b, func(in []view[float32], out [][]float32) error {
		clear(out[1])
		return realQR[float32](false)(in, out)
	}, 1)
}
