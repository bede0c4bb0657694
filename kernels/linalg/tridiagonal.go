package linalg

import (
	"gonum.org/v1/gonum/lapack"
	lapackimpl "gonum.org/v1/gonum/lapack/gonum"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

var lapack64 lapackimpl.Implementation

// tridiagonalOf brings a symmetric matrix, of which the upper triangle is read and lost, to tridiagonal form by reflections from both
// sides (LAPACK's dlatrd: a panel's reflections are put off, and subtracted from the rest as one product).
func (s *scratch[T]) tridiagonalOf(a view[T]) (diagonal, beside []float64, r reflectors[T]) {
	n := a.rows
	r = s.newReflectors(max(0, n-1), n, 1)
	diagonal, beside = make([]float64, n), make([]float64, max(0, n-1))
	taus := make([]T, max(0, n-1))
	defer s.reset(s.mark())
	w, p := s.zeros(panel, n), s.list(n)
	left, right := s.list(2*panel*n), s.list(2*panel*n)
	var ofV, ofW [panel]T
	for from := 0; from < n; from += panel {
		v := r.v.part(from, 0, min(panel, max(0, n-1-from)), n)
		for j := range min(panel, n-from) {
			i := from + j
			row := a.row(i)[i:]
			for l := range j {
				ofV[l], ofW[l] = v.row(l)[i], w.row(l)[i]
			}
			subtractRows(row, w, 0, i, ofV[:j])
			subtractRows(row, v, 0, i, ofW[:j])
			diagonal[i] = float64(row[0])
			if i == n-1 {
				continue
			}
			u, to := v.row(j)[i+1:], w.row(j)[i+1:]
			copy(u, row[1:])
			beta, tau := reflector(u)
			beside[i], taus[i] = float64(beta), tau
			if tau == 0 {
				clear(w.row(j))
				continue
			}
			p := p[:len(u)]
			symmetricProduct(p, a.tail(i+1, i+1), u)
			if j > 0 {
				simd.DotRows(ofV[:j], v.from(0, i+1), v.stride, u)
				simd.DotRows(ofW[:j], w.from(0, i+1), w.stride, u)
				subtractRows(p, v, 0, i+1, ofW[:j])
				subtractRows(p, w, 0, i+1, ofV[:j])
			}
			multiplyBy(p, tau)
			copy(to, p)
			simd.AddRows(to, u, len(u), []T{-tau / 2 * dot(p, u)})
		}
		next := from + panel
		if next >= n {
			break
		}
		// The rest loses vᵀ·w + wᵀ·v.
		l, m := viewOf(2*panel, n-next, left[:2*panel*(n-next)]), viewOf(2*panel, n-next, right[:2*panel*(n-next)])
		for k := range panel {
			copy(l.row(k), v.row(k)[next:])
			copy(l.row(panel+k), w.row(k)[next:])
			negate(m.row(k), w.row(k)[next:])
			negate(m.row(panel+k), v.row(k)[next:])
		}
		addSymmetric(a.tail(next, next), l, m)
	}
	s.join(r, taus)
	return diagonal, beside, r
}

// addSymmetric adds lᵀ·m to the upper triangle of c, and something to the elements beside it.
func addSymmetric[T simd.Real](c, l, m view[T]) {
	const rows = 2 * panel
	for i := 0; i < c.rows; i += rows {
		size := min(rows, c.rows-i)
		addProduct(c.part(i, i, size, c.cols-i), l.part(0, i, l.rows, size), m.tail(0, i), true, false)
	}
}

// symmetricProduct sets y to the product of the matrix whose upper triangle a has, and x.
func symmetricProduct[T simd.Real](y []T, a view[T], x []T) {
	clear(y)
	n := len(x)
	for r := 0; r < n; r += 4 {
		size := min(4, n-r)
		for p := r; p < r+size; p++ {
			row := a.row(p)
			y[p] += row[p] * x[p]
			for q := p + 1; q < r+size; q++ {
				y[p] += row[q] * x[q]
				y[q] += row[q] * x[p]
			}
		}
		if end := r + size; end < n {
			sums := simd.DotAddRows(y[end:], a.from(r, end), a.stride, x[end:], [4]T(x[r:end]))
			for p, v := range sums {
				y[r+p] += v
			}
		}
	}
}

// selfAdjoint gives the eigenvalues of a symmetric matrix, of which the lower triangle is read, the least first, and with vectors the
// eigenvectors, as columns of vectors. size is the greatest magnitude of an element. ok is false if they are not found.
func (s *scratch[T]) selfAdjoint(m view[T], size float64, values []T, vectors *view[T]) (ok bool) {
	n := m.rows
	a := s.matrix(n, n)
	a.transposeFrom(m)
	undo := scale(a, size)
	diagonal, beside, r := s.tridiagonalOf(a)
	if vectors == nil {
		if !lapack64.Dsterf(n, diagonal, beside) {
			return false
		}
	} else {
		doubles := newScratch[float64]()
		defer doubles.release()
		rows := doubles.matrix(n, n)
		if !tridiagonalEigen(diagonal, beside, rows) {
			return false
		}
		s.transposeDoubles(*vectors, rows)
		s.applyAll(*vectors, r, false)
	}
	for i, v := range diagonal {
		values[i] = T(v * undo)
	}
	return true
}

// transposeDoubles sets to to the transpose of a matrix in double precision.
func (s *scratch[T]) transposeDoubles(to view[T], from view[float64]) {
	rounded, ok := any(from).(view[T])
	if !ok {
		defer s.reset(s.mark())
		rounded = s.matrix(from.rows, from.cols)
		for i := range from.rows {
			round(rounded.row(i), from.row(i))
		}
	}
	to.transposeFrom(rounded)
}

// round sets to to the numbers nearest to those in double precision.
func round[T simd.Real](to []T, from []float64) {
	switch to := any(to).(type) {
	case []float32:
		simd.FloatsOfDoubles(to, from)
	case []float64:
		copy(to, from)
	}
}

// smallEigen is tridiagonalEigen of a few rows.
func smallEigen(diagonal, beside []float64, rows view[float64]) (ok bool) {
	n := len(diagonal)
	vectors, work := make([]float64, n*n), make([]float64, max(1, 2*n-2))
	if !lapack64.Dsteqr(lapack.EVTridiag, n, diagonal, beside, vectors, n, work) {
		return false
	}
	rows.transposeFrom(viewOf(n, n, vectors))
	return true
}
