package linalg

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

func randomMatrix(r *rand.Rand, rows, cols int, complexToo bool) *matrix {
	m := newMatrix(rows, cols)
	for i := range m.data {
		m.data[i] = complex(r.NormFloat64(), 0)
		if complexToo {
			m.data[i] += complex(0, r.NormFloat64())
		}
	}
	return m
}

func distance(a, b *matrix) float64 {
	d := 0.0
	for i := range a.data {
		d = max(d, cmplx.Abs(a.data[i]-b.data[i]))
	}
	return d
}

func diagonalMatrix(values []complex128, rows, cols int) *matrix {
	m := newMatrix(rows, cols)
	for i, v := range values {
		m.set(i, i, v)
	}
	return m
}

func unitary(t *testing.T, what string, m *matrix) {
	t.Helper()
	if d := distance(m.adjoint().times(m), identityMatrix(m.cols)); d > 1e-12 {
		t.Errorf("%s of %d by %d is %g from unitary", what, m.rows, m.cols, d)
	}
}

// TestDecompositions multiplies the factors of random matrices and compares the product with the matrix.
func TestDecompositions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][2]int{{1, 1}, {2, 2}, {5, 3}, {3, 5}, {8, 8}, {20, 7}, {12, 30}} {
		for _, kind := range []bool{false, true} {
			a := randomMatrix(r, size[0], size[1], kind)
			if size[0] > 4 {
				copy(a.row(1), a.row(3)) // rank-deficient if square
			}
			for _, full := range []bool{false, true} {
				q, upper := qr(a, full)
				unitary(t, "q", q)
				if d := distance(q.times(upper), a); d > 1e-12 {
					t.Errorf("q·r of %v is off by %g", size, d)
				}
				s, u, v := svd(a, full)
				unitary(t, "u", u)
				unitary(t, "v", v)
				values := make([]complex128, len(s))
				for i, e := range s {
					values[i] = complex(e, 0)
					if i > 0 && e > s[i-1] {
						t.Errorf("singular values %v are not in order", s)
					}
				}
				if d := distance(u.times(diagonalMatrix(values, u.cols, v.cols)).times(v.adjoint()), a); d > 1e-11 {
					t.Errorf("u·s·v* of %v (full %v) is off by %g", size, full, d)
				}
			}
		}
	}
}

// TestEigenvectors compares a·v with v·e.
func TestEigenvectors(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 3, 6, 15, 30} {
		for _, kind := range []bool{false, true} {
			a := randomMatrix(r, n, n, kind)
			out := [][]complex128{make([]complex128, n), make([]complex128, n*n)}
			if err := general(true)([]*matrix{a}, out); err != nil {
				t.Fatal(err)
			}
			v := a.over(n, n, out[1])
			if d := distance(a.times(v), v.times(diagonalMatrix(out[0], n, n))); d > 1e-10 {
				t.Errorf("eigenvectors of a %d by %d matrix are off by %g", n, n, d)
			}
			h := a.times(a.adjoint())
			values, vectors, ok := eigHermitian(h)
			if !ok {
				t.Fatal("no eigenvalues")
			}
			unitary(t, "eigenvectors", vectors)
			e := make([]complex128, n)
			for i := range e {
				e[i] = complex(values[i], 0)
			}
			if d := distance(h.times(vectors), vectors.times(diagonalMatrix(e, n, n))); d > 1e-10 {
				t.Errorf("eigenvectors of a self-adjoint %d by %d matrix are off by %g", n, n, d)
			}
		}
	}
}

// TestFunctions applies the inverse of each matrix function and compares the result with the matrix.
func TestFunctions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	apply := func(f func(in []*matrix, out [][]complex128) error, m *matrix) *matrix {
		to := newMatrix(m.rows, m.cols)
		if err := f([]*matrix{m}, [][]complex128{to.data}); err != nil {
			t.Fatal(err)
		}
		return to
	}
	for _, n := range []int{1, 2, 3, 6, 15, 30} {
		for _, kind := range []bool{false, true} {
			a := randomMatrix(r, n, n, kind)
			a.add(identityMatrix(n), complex(2*float64(n), 0))
			root := apply(squareRoot(!kind), a)
			if d := distance(root.times(root), a); d > 1e-10 {
				t.Errorf("the square of the root of a %d by %d matrix is off by %g", n, n, d)
			}
			if d := distance(apply(exponential, apply(logarithm, a)), a); d > 1e-9 {
				t.Errorf("the exponential of the logarithm of a %d by %d matrix is off by %g", n, n, d)
			}
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		a := identityMatrix(3)
		a.set(0, 1, complex(bad, 0))
		for _, f := range []func(in []*matrix, out [][]complex128) error{exponential, logarithm, squareRoot(true)} {
			if v := apply(f, a).at(0, 1); !cmplx.IsNaN(v) && !cmplx.IsInf(v) {
				t.Errorf("a function of a matrix with %v is %v there", bad, v)
			}
		}
	}
}
