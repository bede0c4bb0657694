package linalg

import (
	"math/rand/v2"
	"testing"
)

func benchmarkReal(b *testing.B, run func(in []*real64, out [][]float64) error) {
	const n = 256
	r := rand.New(rand.NewPCG(1, 2))
	a, work := newReal(n, n), newReal(n, n)
	for i := range a.data {
		a.data[i] = r.NormFloat64()
	}
	for i := range n {
		a.data[i*n+i] = 40
		for j := range i {
			a.data[i*n+j] = a.data[j*n+i]
		}
	}
	out := [][]float64{make([]float64, n*n), make([]float64, n*n), make([]float64, n*n)}
	for b.Loop() {
		copy(work.data, a.data)
		clear(out[0])
		if err := run([]*real64{work, a}, out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCholesky(b *testing.B) { benchmarkReal(b, realCholesky) }
func BenchmarkLU(b *testing.B) {
	benchmarkReal(b, func(in []*real64, out [][]float64) error { out[1] = out[1][:256]; return realFactorLU(in, out) })
}
func BenchmarkInverse(b *testing.B) { benchmarkReal(b, realInverter(false)) }
func BenchmarkQR(b *testing.B)      { benchmarkReal(b, realQR(false)) }
