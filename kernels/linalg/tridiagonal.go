package linalg

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/lapack"
	lapackimpl "gonum.org/v1/gonum/lapack/gonum"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

var lapack64 lapackimpl.Implementation

// tridiagonalOf reduces a symmetric matrix to tridiagonal form by reflections from both sides. It overwrites the matrix. As in LAPACK's
// dlatrd, a panel's reflections are deferred and subtracted from the rest as one product. Both triangles are maintained, since whole rows
// multiply faster than parts of rows.
func (s *scratch[T]) tridiagonalOf(a view[T]) (diagonal, beside []float64, r reflectors[T]) {
	n := a.rows
	r = s.newReflectors(max(0, n-1), n, 1)
	diagonal, beside = make([]float64, n), make([]float64, max(0, n-1))
	defer s.reset(s.mark())
	w, p := s.zeros(panel, n), s.list(n)
	left, right := s.list(2*panel*n), s.list(2*panel*n)
	var ofV, ofW [panel]T
	for from := 0; from < n; from += panel {
		v := r.v.part(from, 0, min(panel, max(0, n-1-from)), n)
		for j := range min(panel, n-from) {
			s.look()
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
			beside[i], r.taus[i] = float64(beta), tau
			if tau == 0 {
				clear(w.row(j))
				continue
			}
			p := p[:len(u)]
			simd.DotRows(p, a.from(i+1, i+1), a.stride, u)
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
		// Subtract vᵀ·w + wᵀ·v from the rest.
		l, m := viewOf(2*panel, n-next, left[:2*panel*(n-next)]), viewOf(2*panel, n-next, right[:2*panel*(n-next)])
		for k := range panel {
			copy(l.row(k), v.row(k)[next:])
			copy(l.row(panel+k), w.row(k)[next:])
			negate(m.row(k), w.row(k)[next:])
			negate(m.row(panel+k), v.row(k)[next:])
		}
		addProduct(a.tail(next, next), l, m, true, false)
	}
	return diagonal, beside, r
}

// selfAdjoint computes the eigenvalues of a symmetric matrix in ascending order and, if vectors is not nil, the eigenvectors as its
// columns. It reads only the lower triangle. size is the greatest magnitude of an element. ok is false if the iteration does not converge.
func (s *scratch[T]) selfAdjoint(m view[T], size float64, values []T, vectors *view[T]) (ok bool) {
	n := m.rows
	a, mirrored := s.matrix(n, n), s.matrix(n, n)
	a.copyFrom(m)
	mirrored.transposeFrom(m)
	for i := range n {
		copy(a.row(i)[i:], mirrored.row(i)[i:])
	}
	undo := scale(a, size)
	diagonal, beside, r := s.tridiagonalOf(a)
	if vectors == nil {
		if !tridiagonalEigenvalues(diagonal, beside) {
			return false
		}
	} else {
		doubles := newScratch[float64](s.step)
		defer doubles.release()
		rows := doubles.matrix(n, n)
		if !tridiagonalEigen(diagonal, beside, rows) {
			return false
		}
		s.transposeDoubles(*vectors, rows)
		s.join(r)
		s.applyAll(*vectors, r, false)
	}
	for i, v := range diagonal {
		values[i] = T(v * undo)
	}
	return true
}

// transposeDoubles sets to to the transpose of a double-precision matrix.
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

// round sets to to from, rounded to T.
func round[T simd.Real](to []T, from []float64) {
	switch to := any(to).(type) {
	case []float32:
		simd.FloatsOfDoubles(to, from)
	case []float64:
		copy(to, from)
	}
}

// tridiagonalEigenvalues replaces the diagonal by the eigenvalues in ascending order. It overwrites the off-diagonal elements. ok is false
// if the iteration does not converge. It is LAPACK's dsterf: QL iterations without square roots (Pal, Walker and Kahan).
func tridiagonalEigenvalues(diagonal, beside []float64) (ok bool) {
	for i, e := range beside {
		beside[i] = e * e
	}
	left := 30 * len(diagonal)
	for first := 0; first < len(diagonal); {
		last := first + joined(diagonal[first:], beside[first:])
		d, e := diagonal[first:last+1], beside[first:last]
		if math.Abs(d[len(d)-1]) < math.Abs(d[0]) {
			slices.Reverse(d)
			slices.Reverse(e)
		}
		for len(d) > 0 {
			end := joined(d, e)
			switch end {
			case 0:
				d, e = d[1:], e[min(1, len(e)):]
			case 1:
				d[0], d[1] = lapack64.Dlae2(d[0], math.Sqrt(e[0]), d[1])
				d, e = d[2:], e[min(2, len(e)):]
			default:
				if left--; left < 0 {
					return false
				}
				iterate(d[:end+1], e[:end])
			}
		}
		first = last + 1
	}
	slices.Sort(diagonal)
	return true
}

// joined returns the last row that is connected to the first one. It sets the negligible square next to that row to zero.
func joined(d, squares []float64) int {
	for i := range len(d) - 1 {
		if squares[i] <= epsilon*epsilon*math.Abs(d[i]*d[i+1]) {
			squares[i] = 0
			return i
		}
	}
	return len(d) - 1
}

// iterate is one QL iteration. A row waits for only one division: those for gamma and for the next row's p run in parallel.
func iterate(d, squares []float64) {
	end := len(squares)
	root := math.Sqrt(squares[0])
	shift := (d[1] - d[0]) / (2 * root)
	shift = d[0] - root/(shift+math.Copysign(math.Hypot(shift, 1), shift))
	c, s, gamma := 1.0, 0.0, d[end]-shift
	p := gamma * gamma
	d, squares = d[:end+1], squares[:end]
	for i := end - 1; i >= 0; i-- {
		square, alpha := squares[i], d[i]
		r := p + square
		inverse := 1 / r
		if i < end-1 {
			squares[i+1] = s * r
		}
		before := gamma
		gamma = (p*(alpha-shift) - square*before) * inverse
		d[i+1] = before + (alpha - gamma)
		s = square * inverse
		if p > 0x1p-900*r {
			c, p = p*inverse, gamma*gamma*(r/p)
		} else {
			c, p = 0, c*square
		}
	}
	squares[0] = s * p
	d[0] = shift + gamma
}

// smallEigen is tridiagonalEigen for a few rows.
func smallEigen(diagonal, beside []float64, rows view[float64]) (ok bool) {
	n := len(diagonal)
	vectors, work := make([]float64, n*n), make([]float64, max(1, 2*n-2))
	if !lapack64.Dsteqr(lapack.EVTridiag, n, diagonal, beside, vectors, n, work) {
		return false
	}
	rows.transposeFrom(viewOf(n, n, vectors))
	return true
}
