package linalg

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
)

// lu replaces m by its triangular factors, without the unit diagonal of the lower one. Rows are swapped for the largest pivot. order[i] is
// the row that moved to row i. odd reports whether the number of swaps is odd.
func lu(m *matrix) (order []int, odd, singular bool) {
	n := m.rows
	order = make([]int, n)
	for i := range order {
		order[i] = i
	}
	for k := range n {
		m.look()
		best := k
		for i := k + 1; i < n; i++ {
			if cmplx.Abs(m.at(i, k)) > cmplx.Abs(m.at(best, k)) {
				best = i
			}
		}
		pivot := m.at(best, k)
		if pivot == 0 || cmplx.IsNaN(pivot) {
			singular = true
			continue
		}
		if best != k {
			m.swap(best, k)
			order[best], order[k] = order[k], order[best]
			odd = !odd
		}
		from := m.row(k)
		for i := k + 1; i < n; i++ {
			row := m.row(i)
			f := row[k] / pivot
			row[k] = f
			if f == 0 {
				continue
			}
			for j := k + 1; j < n; j++ {
				row[j] -= f * from[j]
			}
		}
	}
	return order, odd, singular
}

// solveLU sets x to the solution of the factored system for the right-hand side b.
func solveLU(m *matrix, order []int, b, x *matrix) {
	for i, o := range order {
		copy(x.row(i), b.row(o))
	}
	substitute(m, x, true, true)
	substitute(m, x, false, false)
}

// substitute solves a triangular system in place. If unit is set, the diagonal counts as ones.
func substitute(m, x *matrix, lower, unit bool) {
	n := m.rows
	for step := range n {
		m.look()
		i := step
		if !lower {
			i = n - 1 - step
		}
		to := x.row(i)
		lo, hi := 0, i
		if !lower {
			lo, hi = i+1, n
		}
		for k := lo; k < hi; k++ {
			if f := m.at(i, k); f != 0 {
				for j, v := range x.row(k) {
					to[j] -= f * v
				}
			}
		}
		if !unit {
			d := m.at(i, i)
			for j := range to {
				to[j] /= d
			}
		}
	}
}

// solver returns the function of MatrixSolve.
func solver(adjoint bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		m := in[0]
		if adjoint {
			m = m.adjoint()
		}
		order, _, singular := lu(m)
		if singular {
			return status.InvalidArgumentf("Input matrix is not invertible.")
		}
		solveLU(m, order, in[1], m.over(in[1].rows, in[1].cols, out[0]))
		return nil
	}
}

// inverter returns the function of MatrixInverse.
func inverter(adjoint bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		m := in[0]
		if adjoint {
			m = m.adjoint()
		}
		order, _, singular := lu(m)
		if singular {
			return status.InvalidArgumentf("Input is not invertible.")
		}
		solveLU(m, order, m.identity(m.rows), m.over(m.rows, m.cols, out[0]))
		return nil
	}
}

// logDeterminant returns the sign (or phase) of the determinant and the logarithm of its magnitude.
func logDeterminant(m *matrix) (sign complex128, log float64) {
	_, odd, _ := lu(m)
	sign = 1
	if odd {
		sign = -1
	}
	for i := range m.rows {
		d := m.at(i, i)
		size := cmplx.Abs(d)
		if size == 0 {
			return 0, math.Inf(-1)
		}
		sign *= d / complex(size, 0)
		log += math.Log(size)
	}
	return sign, log
}

func determinant(in []*matrix, out [][]complex128) error {
	_, odd, _ := lu(in[0])
	d := complex128(1)
	if odd {
		d = -1
	}
	for i := range in[0].rows {
		d *= in[0].at(i, i)
	}
	out[0][0] = d
	return nil
}

func signAndLogDeterminant(in []*matrix, out [][]complex128) error {
	sign, log := logDeterminant(in[0])
	out[0][0], out[1][0] = sign, complex(log, 0)
	return nil
}

// factorLU is the op Lu: both factors in one matrix, and the order of the rows.
func factorLU(in []*matrix, out [][]complex128) error {
	order, _, singular := lu(in[0])
	if singular {
		return status.InvalidArgumentf("Input is not invertible.")
	}
	copy(out[0], in[0].data)
	for i, o := range order {
		out[1][i] = complex(float64(o), 0)
	}
	return nil
}

// cholesky replaces the lower triangle of m by its Cholesky factor and clears the rest. It reads only the lower triangle. ok is false if m
// is not positive definite.
func cholesky(m *matrix) (ok bool) {
	n := m.rows
	for j := range n {
		m.look()
		d := real(m.at(j, j))
		for k := range j {
			v := m.at(j, k)
			d -= real(v)*real(v) + imag(v)*imag(v)
		}
		if !(d > 0) {
			return false
		}
		d = math.Sqrt(d)
		m.set(j, j, complex(d, 0))
		for i := j + 1; i < n; i++ {
			s := m.at(i, j)
			for k := range j {
				s -= m.at(i, k) * cmplx.Conj(m.at(j, k))
			}
			m.set(i, j, s/complex(d, 0))
		}
		clear(m.row(j)[j+1:])
	}
	return true
}

// choleskyFactor is the op Cholesky. It yields NaN if there is no factor.
func choleskyFactor(in []*matrix, out [][]complex128) error {
	if !cholesky(in[0]) {
		fillNaN(out[0])
		return nil
	}
	copy(out[0], in[0].data)
	return nil
}

// triangularSolver returns the function of MatrixTriangularSolve.
func triangularSolver(lower, adjoint bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		m, x := in[0], in[0].over(in[1].rows, in[1].cols, out[0])
		copy(x.data, in[1].data)
		if adjoint {
			m = m.adjoint()
		}
		substitute(m, x, lower != adjoint, false)
		return nil
	}
}

// leastSquares returns the function of MatrixSolveLs. If fast is set, it uses the normal equations. Otherwise it uses the singular values,
// which also handles rank-deficient matrices.
func leastSquares(fast bool, l2 float64) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		a, b := in[0], in[1]
		x := a.over(a.cols, b.cols, out[0])
		if a.rows == 0 || a.cols == 0 {
			return nil
		}
		if !fast {
			pseudoSolve(a, b, x)
			return nil
		}
		h := a.adjoint()
		var normal, right *matrix // on the shorter side; the longer one would exceed the reserved memory
		if a.rows < a.cols {
			normal, right = a.times(h), b.clone()
		} else {
			normal, right = h.times(a), h.times(b)
		}
		for i := range normal.rows {
			normal.set(i, i, normal.at(i, i)+complex(l2, 0))
		}
		if !cholesky(normal) {
			return status.InvalidArgumentf("Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger l2_regularizer > 0.")
		}
		substitute(normal, right, true, false)
		substitute(normal.adjoint(), right, false, false)
		if a.rows < a.cols {
			right = h.times(right)
		}
		copy(x.data, right.data)
		return nil
	}
}

// pseudoSolve sets x to the shortest of the vectors that minimize the residual of a·x = b.
func pseudoSolve(a, b, x *matrix) {
	s, u, v := svd(a, false)
	top := 0.0
	if len(s) > 0 {
		top = slices.Max(s)
	}
	limit := top * 2.3e-16 * float64(max(a.rows, a.cols))
	projected := u.adjoint().times(b)
	for i, size := range s {
		row := projected.row(i)
		for j := range row {
			if size > limit {
				row[j] /= complex(size, 0)
			} else {
				row[j] = 0
			}
		}
	}
	copy(x.data, v.times(projected).data)
}
