package linalg

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestReal compares what is done in real numbers with what the functions of complex matrices give: outputs, or what they make together.
func TestReal(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	type complexly func(in []*matrix, out [][]complex128) error
	type really func(in []*real64, out [][]float64) error
	square := func(n, cols int) []*matrix {
		return []*matrix{randomMatrix(r, n, n, false), randomMatrix(r, n, cols, false)}
	}
	positive := func(n, _ int) []*matrix {
		a := randomMatrix(r, n, n, false)
		p := a.times(a.adjoint())
		for i := range n {
			p.set(i, i, p.at(i, i)+complex(float64(n), 0))
		}
		return []*matrix{p}
	}
	triangular := func(n, cols int) []*matrix {
		in := square(n, cols)
		for i := range n {
			in[0].set(i, i, complex(3+float64(n), 0))
		}
		return in
	}
	lastShape := func(in []*matrix) [][2]int { return [][2]int{{in[len(in)-1].rows, in[len(in)-1].cols}} }
	firstShape := func(in []*matrix) [][2]int { return [][2]int{{in[0].rows, in[0].cols}} }
	scalars := func([]*matrix) [][2]int { return [][2]int{{1, 1}, {1, 1}} }
	for _, c := range []struct {
		name   string
		run    complexly
		real   really
		in     func(n, cols int) []*matrix
		shapes func(in []*matrix) [][2]int
	}{
		{"Cholesky", choleskyFactor, realCholesky, positive, firstShape},
		{"Lu", factorLU, realFactorLU, square, func(in []*matrix) [][2]int { return [][2]int{{in[0].rows, in[0].cols}, {in[0].rows, 1}} }},
		{"MatrixSolve", solver(false), realSolver(false), triangular, lastShape},
		{"MatrixSolve, adjoint", solver(true), realSolver(true), triangular, lastShape},
		{"MatrixInverse", inverter(false), realInverter(false), triangular, firstShape},
		{"MatrixInverse, adjoint", inverter(true), realInverter(true), triangular, firstShape},
		{"MatrixTriangularSolve, lower", triangularSolver(true, false), realTriangularSolver(true, false), triangular, lastShape},
		{"MatrixTriangularSolve, lower adjoint", triangularSolver(true, true), realTriangularSolver(true, true), triangular, lastShape},
		{"MatrixTriangularSolve, upper", triangularSolver(false, false), realTriangularSolver(false, false), triangular, lastShape},
		{"MatrixTriangularSolve, upper adjoint", triangularSolver(false, true), realTriangularSolver(false, true), triangular, lastShape},
		{"LogMatrixDeterminant", signAndLogDeterminant, realSignAndLog, square, scalars},
		{"Qr", qrFactors(true), realQR(true), square, func(in []*matrix) [][2]int { n := in[0].rows; return [][2]int{{n, n}, {n, n}} }},
		{"Svd, values", singular(false, false), realSVD(false, false), square, func(in []*matrix) [][2]int { return [][2]int{{in[0].rows, 1}, {0, 0}, {0, 0}} }},
		{"SelfAdjointEigV2, values", selfAdjoint(false), realSelfAdjoint(false), positive, func(in []*matrix) [][2]int { return [][2]int{{in[0].rows, 1}, {0, 0}} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 8, 9, 16, 17, 31, 40, 70} {
				in := c.in(n, 1+r.IntN(20))
				var want [][]complex128
				var got [][]float64
				var reals []*real64
				for _, s := range c.shapes(in) {
					want, got = append(want, make([]complex128, s[0]*s[1])), append(got, make([]float64, s[0]*s[1]))
				}
				for _, m := range in {
					reals = append(reals, newReal(m.rows, m.cols))
					for i, v := range m.data {
						reals[len(reals)-1].data[i] = real(v)
					}
				}
				if err := c.real(reals, got); err != nil {
					t.Fatal(err)
				}
				if err := c.run(in, want); err != nil {
					t.Fatal(err)
				}
				for o := range want {
					for i, v := range want[o] {
						if !(math.Abs(got[o][i]-real(v)) <= 1e-9*(1+math.Abs(real(v)))) {
							t.Fatalf("output %d of size %d: element %d is %v, want %v", o, n, i, got[o][i], real(v))
						}
					}
				}
			}
		})
	}
}

// TestRealVectors multiplies the factors that may differ in their signs.
func TestRealVectors(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, size := range [][2]int{{1, 1}, {4, 4}, {5, 3}, {3, 5}, {30, 20}, {40, 40}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rows, cols := size[0], size[1]
			a := randomMatrix(r, rows, cols, false)
			m := newReal(rows, cols)
			for i, v := range a.data {
				m.data[i] = real(v)
			}
			k := min(rows, cols)
			out := [][]float64{make([]float64, k), make([]float64, rows*k), make([]float64, cols*k)}
			if err := realSVD(true, false)([]*real64{m}, out); err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				for j := range cols {
					sum := 0.0
					for l := range k {
						sum += out[1][i*k+l] * out[0][l] * out[2][j*k+l]
					}
					if math.Abs(sum-real(a.at(i, j))) > 1e-12*float64(rows+cols) {
						t.Fatalf("u·s·v* has %v at %d,%d, want %v", sum, i, j, a.at(i, j))
					}
				}
			}
		})
	}
}

// TestRealRefuses leaves what is not finite to the functions of complex matrices, and finds what has no inverse.
func TestRealRefuses(t *testing.T) {
	nan := &real64{2, 2, []float64{1, 2, 3, math.NaN()}}
	if err := realSVD(false, false)([]*real64{nan}, [][]float64{make([]float64, 2), nil, nil}); !errors.Is(err, errNotReal) {
		t.Error("Svd:", err)
	}
	if err := realSelfAdjoint(false)([]*real64{nan}, [][]float64{make([]float64, 2), nil}); !errors.Is(err, errNotReal) {
		t.Error("SelfAdjointEigV2:", err)
	}
	for _, m := range []*real64{nan, {2, 2, []float64{1, 2, 2, 4}}, {2, 2, make([]float64, 4)}} {
		if err := realInverter(false)([]*real64{m}, [][]float64{make([]float64, 4)}); err == nil {
			t.Errorf("%v has an inverse", m.data)
		}
	}
	out := [][]float64{make([]float64, 4)}
	if err := realCholesky([]*real64{{2, 2, []float64{1, 2, 2, 1}}}, out); err != nil || !math.IsNaN(out[0][0]) {
		t.Error("Cholesky of a matrix that is not positive definite:", err, out)
	}
}
