package linalg

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

func epsilonOf[T simd.Real]() float64 {
	if _, single := any(*new(T)).(float32); single {
		return 0x1p-24
	}
	return 0x1p-53
}

// rounded returns the real parts of m in another type, and stores them back into m, so that both hold the same values.
func rounded[T simd.Real](m *matrix) view[T] {
	v := viewOf(m.rows, m.cols, make([]T, len(m.data)))
	for i, x := range m.data {
		v.data[i] = T(real(x))
		m.data[i] = complex(float64(v.data[i]), 0)
	}
	return v
}

func (v view[T]) complexly() *matrix {
	m := newMatrix(v.rows, v.cols)
	for i := range v.rows {
		for j, x := range v.row(i) {
			m.set(i, j, complex(float64(x), 0))
		}
	}
	return m
}

// TestReal compares the functions for real matrices with those for complex ones.
func TestReal(t *testing.T) {
	t.Run("float32", testReal[float32])
	t.Run("float64", testReal[float64])
}

func testReal[T simd.Real](t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
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
		run    func(in []*matrix, out [][]complex128) error
		real   realFunction[T]
		in     func(n, cols int) []*matrix
		shapes func(in []*matrix) [][2]int
	}{
		{"Cholesky", choleskyFactor, realCholesky[T], positive, firstShape},
		{"Lu", factorLU, realFactorLU[T], triangular, func(in []*matrix) [][2]int { return [][2]int{{in[0].rows, in[0].cols}, {in[0].rows, 1}} }},
		{"MatrixSolve", solver(false), realSolver[T](false), triangular, lastShape},
		{"MatrixSolve, adjoint", solver(true), realSolver[T](true), triangular, lastShape},
		{"MatrixInverse", inverter(false), realInverter[T](false), triangular, firstShape},
		{"MatrixInverse, adjoint", inverter(true), realInverter[T](true), triangular, firstShape},
		{"MatrixTriangularSolve, lower", triangularSolver(true, false), realTriangularSolver[T](true, false), triangular, lastShape},
		{"MatrixTriangularSolve, lower adjoint", triangularSolver(true, true), realTriangularSolver[T](true, true), triangular, lastShape},
		{"MatrixTriangularSolve, upper", triangularSolver(false, false), realTriangularSolver[T](false, false), triangular, lastShape},
		{"MatrixTriangularSolve, upper adjoint", triangularSolver(false, true), realTriangularSolver[T](false, true), triangular, lastShape},
		{"LogMatrixDeterminant", signAndLogDeterminant, realSignAndLog[T], triangular, scalars},
		{"MatrixDeterminant", determinant, realDeterminant[T], func(n, _ int) []*matrix {
			m := randomMatrix(r, n, n, false)
			m.scale(complex(0.1/float64(n), 0))
			m.add(identityMatrix(n), 1)
			return []*matrix{m}
		}, func([]*matrix) [][2]int { return [][2]int{{1, 1}} }},
		{"Qr", qrFactors(true), realQR[T](true), triangular, func(in []*matrix) [][2]int { n := in[0].rows; return [][2]int{{n, n}, {n, n}} }},
		{"SelfAdjointEigV2, values", selfAdjoint(false), realSelfAdjoint[T](false), positive, func(in []*matrix) [][2]int { return [][2]int{{in[0].rows, 1}, {0, 0}} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 40, 64, 65, 70, 97, 130} {
				in := c.in(n, 1+r.IntN(20))
				var want [][]complex128
				var got [][]T
				var reals []view[T]
				for _, s := range c.shapes(in) {
					want, got = append(want, make([]complex128, s[0]*s[1])), append(got, make([]T, s[0]*s[1]))
				}
				for _, m := range in {
					reals = append(reals, rounded[T](m))
				}
				if err := c.real(reals, got); err != nil {
					t.Fatal(err)
				}
				if err := c.run(in, want); err != nil {
					t.Fatal(err)
				}
				for o := range want {
					top := 1.0
					for _, v := range want[o] {
						top = max(top, cmplx.Abs(v))
					}
					for i, v := range want[o] {
						if !(math.Abs(float64(got[o][i])-real(v)) <= 10*float64(10+n)*epsilonOf[T]()*top) {
							t.Fatalf("output %d of size %d: element %d is %v, want %v", o, n, i, got[o][i], real(v))
						}
					}
				}
			}
		})
	}
}

// kinds are matrices that are hard for decompositions.
var kinds = []struct {
	name string
	make func(r *rand.Rand, rows, cols int) *matrix
}{
	{"random", func(r *rand.Rand, rows, cols int) *matrix { return randomMatrix(r, rows, cols, false) }},
	{"positive", func(r *rand.Rand, rows, cols int) *matrix {
		m := randomMatrix(r, rows, cols, false)
		for i, v := range m.data {
			m.data[i] = complex(math.Abs(real(v)), 0)
		}
		return m
	}},
	{"of rank 2", func(r *rand.Rand, rows, cols int) *matrix {
		return randomMatrix(r, rows, 2, false).times(randomMatrix(r, 2, cols, false))
	}},
	{"of half the rank", func(r *rand.Rand, rows, cols int) *matrix {
		k := (min(rows, cols) + 1) / 2
		return randomMatrix(r, rows, k, false).times(randomMatrix(r, k, cols, false))
	}},
	{"zero", func(_ *rand.Rand, rows, cols int) *matrix { return newMatrix(rows, cols) }},
	{"ones", func(_ *rand.Rand, rows, cols int) *matrix {
		m := newMatrix(rows, cols)
		for i := range m.data {
			m.data[i] = 1
		}
		return m
	}},
	{"identity", func(_ *rand.Rand, rows, cols int) *matrix {
		return diagonalMatrix(identityMatrix(min(rows, cols)).data[:1], 1, 1).padded(rows, cols)
	}},
	{"graded", func(r *rand.Rand, rows, cols int) *matrix {
		m := randomMatrix(r, rows, cols, false)
		for i := range rows {
			for j := range cols {
				m.set(i, j, m.at(i, j)*complex(math.Pow(2, -float64(i+j)/3), 0))
			}
		}
		return m
	}},
	{"huge", func(r *rand.Rand, rows, cols int) *matrix {
		m := randomMatrix(r, rows, cols, false)
		m.scale(1e30)
		return m
	}},
	{"tiny", func(r *rand.Rand, rows, cols int) *matrix {
		m := randomMatrix(r, rows, cols, false)
		m.scale(1e-30)
		return m
	}},
}

// padded returns a matrix with ones on the diagonal.
func (m *matrix) padded(rows, cols int) *matrix {
	p := newMatrix(rows, cols)
	for i := range min(rows, cols) {
		p.set(i, i, 1)
	}
	return p
}

// TestRealFactors multiplies the factors, and checks that vectors are orthonormal.
func TestRealFactors(t *testing.T) {
	t.Run("float32", testRealFactors[float32])
	t.Run("float64", testRealFactors[float64])
}

func testRealFactors[T simd.Real](t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	expect := func(t *testing.T, what string, got, want *matrix, magnitude float64) {
		t.Helper()
		if d := distance(got, want); !(d <= 8*float64(10+max(want.rows, want.cols))*epsilonOf[T]()*magnitude) {
			t.Fatalf("%s is off by %g of %g", what, d, magnitude)
		}
	}
	orthonormal := func(t *testing.T, what string, v view[T]) {
		t.Helper()
		m := v.complexly()
		expect(t, what, m.adjoint().times(m), identityMatrix(m.cols), 1)
	}
	svd := func(vectors, full bool) realFunction[T] {
		if f, ok := any(doubleSVD(vectors, full)).(realFunction[T]); ok {
			return f
		}
		return realSVD[T](vectors, full)
	}
	for _, kind := range kinds {
		for _, size := range [][2]int{{1, 1}, {2, 2}, {4, 4}, {5, 3}, {3, 5}, {1, 6}, {6, 1}, {32, 32}, {33, 33}, {40, 33}, {33, 65}, {70, 31}, {90, 90}, {129, 100}} {
			rows, cols := size[0], size[1]
			k := min(rows, cols)
			m := kind.make(r, rows, cols)
			a := rounded[T](m)
			top := 0.0 // the greatest singular value is between any element and this bound
			for _, v := range m.data {
				top = math.Hypot(top, real(v))
			}
			for _, full := range []bool{false, true} {
				t.Run(fmt.Sprint(kind.name, " ", size, " full ", full), func(t *testing.T) {
					inner, uCols, vCols := k, k, k
					if full {
						inner, uCols, vCols = rows, rows, cols
					}
					q, upper := viewOf(rows, inner, make([]T, rows*inner)), viewOf(inner, cols, make([]T, inner*cols))
					if err := realQR[T](full)([]view[T]{a}, [][]T{q.data, upper.data}); err != nil {
						t.Fatal(err)
					}
					orthonormal(t, "q*·q", q)
					expect(t, "q·r", q.complexly().times(upper.complexly()), m, top)

					values, alone := make([]T, k), make([]T, k)
					u, v := viewOf(rows, uCols, make([]T, rows*uCols)), viewOf(cols, vCols, make([]T, cols*vCols))
					if err := svd(true, full)([]view[T]{a}, [][]T{values, u.data, v.data}); err != nil {
						t.Fatal(err)
					}
					orthonormal(t, "u*·u", u)
					orthonormal(t, "v*·v", v)
					diagonal := make([]complex128, k)
					for i, s := range values {
						diagonal[i] = complex(float64(s), 0)
						if s < 0 || i > 0 && s > values[i-1] {
							t.Fatalf("singular values %v", values)
						}
					}
					expect(t, "u·s·v*", u.complexly().times(diagonalMatrix(diagonal, uCols, vCols)).times(v.complexly().adjoint()), m, top)
					if err := svd(false, full)([]view[T]{a}, [][]T{alone, nil, nil}); err != nil {
						t.Fatal(err)
					}
					for i, s := range alone {
						if !(math.Abs(float64(s-values[i])) <= 8*float64(10+rows+cols)*epsilonOf[T]()*top) {
							t.Fatalf("singular value %d is %v alone and %v with vectors", i, s, values[i])
						}
					}
				})
			}
			if rows == cols {
				t.Run(fmt.Sprint(kind.name, " symmetric ", rows), func(t *testing.T) {
					for i := range rows {
						for j := range i {
							m.set(j, i, m.at(i, j))
							a.row(j)[i] = T(math.Copysign(top, -1)) // only the lower triangle is read
						}
					}
					testSymmetric(t, m, a, top, expect, orthonormal)
				})
			}
		}
	}
}

func testSymmetric[T simd.Real](t *testing.T, m *matrix, a view[T], top float64,
	expect func(t *testing.T, what string, got, want *matrix, magnitude float64), orthonormal func(t *testing.T, what string, v view[T])) {
	n := a.rows
	values, alone, v := make([]T, n), make([]T, n), viewOf(n, n, make([]T, n*n))
	if err := realSelfAdjoint[T](true)([]view[T]{a}, [][]T{values, v.data}); err != nil {
		t.Fatal(err)
	}
	orthonormal(t, "v*·v", v)
	diagonal := make([]complex128, n)
	for i, e := range values {
		diagonal[i] = complex(float64(e), 0)
		if i > 0 && e < values[i-1] {
			t.Fatalf("eigenvalues %v", values)
		}
	}
	expect(t, "v·e·v*", v.complexly().times(diagonalMatrix(diagonal, n, n)).times(v.complexly().adjoint()), m, 2*top)
	if err := realSelfAdjoint[T](false)([]view[T]{a}, [][]T{alone, nil}); err != nil {
		t.Fatal(err)
	}
	for i, e := range alone {
		if !(math.Abs(float64(e-values[i])) <= 16*float64(10+n)*epsilonOf[T]()*top) {
			t.Fatalf("eigenvalue %d is %v alone and %v with vectors", i, e, values[i])
		}
	}
}

// TestTridiagonalEigen decomposes matrices with clustered eigenvalues or disconnected parts.
func TestTridiagonalEigen(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for name, element := range map[string]func(i, n int) (diagonal, beside float64){
		"Wilkinson": func(i, n int) (float64, float64) { return math.Abs(float64(i) - float64(n-1)/2), 1 },
		"glued": func(i, _ int) (float64, float64) {
			beside := 1.0
			if i%21 == 20 {
				beside = 1e-8
			}
			return math.Abs(float64(i%21) - 10), beside
		},
		"Toeplitz":  func(int, int) (float64, float64) { return 2, -1 },
		"equal":     func(int, int) (float64, float64) { return 3, 0 },
		"zero":      func(int, int) (float64, float64) { return 0, 0 },
		"no joints": func(i, _ int) (float64, float64) { return float64(i % 5), 0 },
		"random":    func(int, int) (float64, float64) { return r.NormFloat64(), r.NormFloat64() },
		"nearly equal": func(int, int) (float64, float64) {
			return 1 + 1e-15*r.NormFloat64(), 1e-15 * r.NormFloat64()
		},
		"graded": func(i, _ int) (float64, float64) { return math.Pow(10, -float64(i)/4), math.Pow(10, -float64(i)/4) },
	} {
		for _, n := range []int{1, 2, 8, 9, 10, 17, 33, 64, 105, 200} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				diagonal, beside, want := make([]float64, n), make([]float64, n-1), newMatrix(n, n)
				top := 0.0
				for i := range n {
					d, e := element(i, n)
					diagonal[i] = d
					want.set(i, i, complex(d, 0))
					top = max(top, math.Abs(d), math.Abs(e))
					if i < n-1 {
						beside[i] = e
						want.set(i, i+1, complex(e, 0))
						want.set(i+1, i, complex(e, 0))
					}
				}
				rows := viewOf(n, n, make([]float64, n*n))
				for i := range rows.data {
					rows.data[i] = 7
				}
				if !tridiagonalEigen(diagonal, beside, rows) {
					t.Fatal("no eigenvalues")
				}
				values := make([]complex128, n)
				for i, d := range diagonal {
					values[i] = complex(d, 0)
					if i > 0 && d < diagonal[i-1] {
						t.Fatalf("eigenvalues %v", diagonal)
					}
				}
				v := rows.complexly().adjoint()
				if d := distance(v.adjoint().times(v), identityMatrix(n)); d > 1e-14*float64(n) {
					t.Errorf("eigenvectors are %g from orthonormal", d)
				}
				if d := distance(v.times(diagonalMatrix(values, n, n)).times(v.adjoint()), want); d > 1e-14*float64(n)*top {
					t.Errorf("v·e·v* is off by %g of %g", d, top)
				}
			})
		}
	}
}

// TestRealRefuses checks that non-finite matrices are left to the functions for complex ones, and that singular matrices are detected.
func TestRealRefuses(t *testing.T) {
	nan := viewOf(2, 2, []float32{1, 2, 3, float32(math.NaN())})
	if err := realSVD[float32](false, false)([]view[float32]{nan}, [][]float32{make([]float32, 2), nil, nil}); !errors.Is(err, errNotReal) {
		t.Error("Svd:", err)
	}
	if err := realSelfAdjoint[float32](false)([]view[float32]{nan}, [][]float32{make([]float32, 2), nil}); !errors.Is(err, errNotReal) {
		t.Error("SelfAdjointEigV2:", err)
	}
	for _, m := range []view[float32]{nan, viewOf(2, 2, []float32{1, 2, 2, 4}), viewOf(2, 2, make([]float32, 4))} {
		if err := realInverter[float32](false)([]view[float32]{m}, [][]float32{make([]float32, 4)}); err == nil {
			t.Errorf("%v has an inverse", m.data)
		}
	}
	out := [][]float32{make([]float32, 4)}
	if err := realCholesky([]view[float32]{viewOf(2, 2, []float32{1, 2, 2, 1})}, out); err != nil || !math.IsNaN(float64(out[0][0])) {
		t.Error("Cholesky of a matrix that is not positive definite:", err, out)
	}
}

// TestTridiagonalEigenvalues compares the eigenvalues alone with those of LAPACK.
func TestTridiagonalEigenvalues(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for round := range 300 {
		n := 1 + r.IntN(60)
		d, e := make([]float64, n), make([]float64, n-1)
		for i := range d {
			d[i] = r.NormFloat64() * math.Pow(2, float64(r.IntN(1+round/10)))
		}
		for i := range e {
			if r.IntN(5) > 0 {
				e[i] = r.NormFloat64() * math.Pow(2, -float64(r.IntN(1+round/5)))
			}
		}
		want, beside, top := append([]float64{}, d...), append([]float64{}, e...), 0.0
		if !lapack64.Dsterf(n, want, beside) || !tridiagonalEigenvalues(d, e) {
			t.Fatal("no eigenvalues")
		}
		for _, v := range want {
			top = max(top, math.Abs(v))
		}
		for i, v := range want {
			if !(math.Abs(d[i]-v) <= 1e-14*top) {
				t.Fatalf("eigenvalue %d of %d is %v, want %v", i, n, d[i], v)
			}
		}
	}
}
