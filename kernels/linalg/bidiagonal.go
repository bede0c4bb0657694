package linalg

import (
	"cmp"
	"math"
	"slices"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// bidiagonalOf reduces a matrix with at least as many rows as columns to upper bidiagonal form, by reflections from the left and from the
// right. It overwrites the matrix. As in LAPACK's dlabrd, a panel's reflections are deferred and subtracted from the rest as products.
func (s *scratch[T]) bidiagonalOf(a view[T]) (diagonal, above []float64, left, right reflectors[T]) {
	m, n := a.rows, a.cols
	left, right = s.newReflectors(n, m, 0), s.newReflectors(n-1, n, 1)
	diagonal, above = make([]float64, n), make([]float64, n-1)
	defer s.reset(s.mark())
	xs, ys := s.zeros(panel, m), s.zeros(panel, n)
	var dots, factors [panel]T
	for from := 0; from < n; from += panel {
		size := min(panel, n-from)
		v, u := left.v.part(from, 0, size, m), right.v.part(from, 0, min(size, n-1-from), n)
		for j := range size {
			s.look()
			i := from + j
			// The column, and the reflection that clears it.
			column := v.row(j)[i:]
			for r := range column {
				column[r] = a.data[(i+r)*a.stride+i]
			}
			for l := range j {
				dots[l], factors[l] = ys.row(l)[i], u.row(l)[i]
			}
			subtractRows(column, v, 0, i, dots[:j])
			subtractRows(column, xs, 0, i, factors[:j])
			beta, tau := reflector(column)
			diagonal[i], left.taus[i] = float64(beta), tau
			if i == n-1 {
				break
			}
			// y is the transpose of the remaining matrix, times v.
			y := ys.row(j)[i+1:]
			clear(y)
			simd.AddRows(y, a.from(i, i+1), a.stride, column)
			simd.DotRows(dots[:j], v.from(0, i), v.stride, column)
			simd.DotRows(factors[:j], xs.from(0, i), xs.stride, column)
			subtractRows(y, ys, 0, i+1, dots[:j])
			subtractRows(y, u, 0, i+1, factors[:j])
			multiplyBy(y, tau)
			// The row, and the reflection that clears it.
			row := u.row(j)[i+1:]
			copy(row, a.row(i)[i+1:])
			for l := range j + 1 {
				dots[l], factors[l] = v.row(l)[i], xs.row(l)[i]
			}
			subtractRows(row, ys, 0, i+1, dots[:j+1])
			subtractRows(row, u, 0, i+1, factors[:j])
			beta, tau = reflector(row)
			above[i], right.taus[i] = float64(beta), tau
			// x is the remaining matrix times u.
			x := xs.row(j)[i+1:]
			simd.DotRows(x, a.from(i+1, i+1), a.stride, row)
			simd.DotRows(dots[:j+1], ys.from(0, i+1), ys.stride, row)
			simd.DotRows(factors[:j], u.from(0, i+1), u.stride, row)
			subtractRows(x, v, 0, i+1, dots[:j+1])
			subtractRows(x, xs, 0, i+1, factors[:j])
			multiplyBy(x, tau)
		}
		if next := from + panel; next < n {
			rest := a.tail(next, next)
			s.subtractProduct(rest, v.tail(0, next), ys.tail(0, next), true, false)
			s.subtractProduct(rest, xs.tail(0, next), u.tail(0, next), true, false)
		}
	}
	return diagonal, above, left, right
}

// singularValues sets values to the singular values of a in descending order. a has at least as many rows as columns, and is overwritten.
// ok is false if the iteration does not converge.
func (s *scratch[T]) singularValues(a view[T], values []float64) (ok bool) {
	diagonal, above, _, _ := s.bidiagonalOf(a)
	n := len(diagonal)
	if lapack64.Dlasq1(n, diagonal, append(above, 0), make([]float64, 4*n)) != 0 {
		return false
	}
	copy(values, diagonal)
	return true
}

// singularVectors is singularValues, and also sets the first columns of u and of v to the singular vectors.
func singularVectors[T simd.Real](a view[T], values []float64, u, v view[T]) (ok bool) {
	s := newScratch[T](a.step)
	defer s.release()
	d := newScratch[float64](a.step)
	defer d.release()
	diagonal, above, left, right := s.bidiagonalOf(a)
	n := len(diagonal)
	solve := vectorsBySquares
	if _, double := any(s).(*scratch[float64]); double {
		solve = vectorsByHalves
	}
	leftRows, rightRows, order, ok := solve(d, diagonal, above, values)
	if !ok {
		return false
	}
	for _, side := range []struct {
		to   view[T]
		rows view[float64]
		r    reflectors[T]
	}{{u, leftRows, left}, {v, rightRows, right}} {
		rounded := s.matrix(n, n)
		for i, k := range order {
			round(rounded.row(i), side.rows.row(k))
		}
		for i := range side.to.rows {
			row := side.to.row(i)
			if clear(row); i >= n && i < len(row) {
				row[i] = 1
			}
		}
		side.to.part(0, 0, n, n).transposeFrom(rounded)
		s.join(side.r)
		s.applyAll(side.to, side.r, false)
	}
	return true
}

// vectorsBySquares returns the singular vectors of a bidiagonal matrix, as rows, and their order by descending value. It is for single precision
// only: it computes the squares of the singular values as eigenvalues, which double precision resolves as well as single precision resolves
// the values themselves.
func vectorsBySquares(d *scratch[float64], diagonal, above, values []float64) (left, right view[float64], order []int, ok bool) {
	n := len(diagonal)
	squares, beside := make([]float64, n), make([]float64, n-1)
	for i, x := range diagonal {
		squares[i] = x * x
		if i > 0 {
			squares[i] += above[i-1] * above[i-1]
		}
		if i < n-1 {
			beside[i] = x * above[i]
		}
	}
	right = d.matrix(n, n)
	if !tridiagonalEigen(squares, beside, right) {
		return left, right, nil, false
	}
	left, order = leftVectors(d, diagonal, above, right, values)
	return left, right, order, true
}

// vectorsByHalves is vectorsBySquares for double precision. A vector and its counterpart on the other side, element by element in turn, are an
// eigenvector of the tridiagonal matrix with a zero diagonal and the bidiagonal elements beside it (Golub and Kahan); the singular values are its
// eigenvalues that are not negative. The smaller a value, the more of the eigenvector of its negative is in the computed one, and the less
// orthogonal are its halves to the other vectors. Those of small values are therefore made orthogonal to those of greater ones.
func vectorsByHalves(d *scratch[float64], diagonal, above, values []float64) (left, right view[float64], order []int, ok bool) {
	const small, negligible = 0.1, 1e-8
	n := len(diagonal)
	both, beside := make([]float64, 2*n), make([]float64, 2*n-1)
	for i, x := range diagonal {
		beside[2*i] = x
		if i < n-1 {
			beside[2*i+1] = above[i]
		}
	}
	vectors := d.matrix(2*n, 2*n)
	if !tridiagonalEigen(both, beside, vectors) {
		return left, right, nil, false
	}
	left, right, order = d.matrix(n, n), d.matrix(n, n), make([]int, n)
	sides := []struct {
		rows view[float64]
		from int
		o    orthogonal
	}{{right, 0, orthogonal{dots: d.list(n)}}, {left, 1, orthogonal{dots: d.list(n)}}}
	for i := range n {
		d.look()
		k := 2*n - 1 - i
		order[i], values[i] = i, max(0, both[k])
		for j := range sides {
			side := &sides[j]
			to := side.rows.row(i)
			for l := range to {
				to[l] = vectors.row(k)[2*l+side.from]
			}
			if size := norm(to); values[i] > small*values[0] {
				multiplyBy(to, 1/size)
				continue
			}
			if side.o.rows = side.rows.part(0, 0, i, n); side.o.without(to) < negligible {
				side.o.complete(to)
			}
		}
	}
	return left, right, order, true
}

// leftVectors computes the left singular vectors of a bidiagonal matrix, as rows, from the right ones, which are ordered by ascending
// value. It sets values to the singular values in descending order, and returns the order of the rows that corresponds to it.
func leftVectors(s *scratch[float64], diagonal, above []float64, right view[float64], values []float64) (left view[float64], order []int) {
	n := len(diagonal)
	left = s.matrix(n, n)
	sizes := s.list(n)
	// A left vector is the product of the matrix and the right vector, divided by the value. If the value is small, rounding leaves
	// components of the other vectors in it, which are removed.
	const small, negligible = 1e-3, 1e-8
	o := orthogonal{dots: s.list(n)}
	for done := range n {
		s.look()
		i := n - 1 - done
		z, to := right.row(i), left.row(done)
		for k, x := range diagonal {
			to[k] = x * z[k]
			if k < n-1 {
				to[k] += above[k] * z[k+1]
			}
		}
		size := norm(to)
		o.rows = left.part(0, 0, done, n)
		if done == 0 || size > small*sizes[0] {
			if size > 0 {
				multiplyBy(to, 1/size)
			} else {
				o.complete(to)
			}
		} else if rest := o.without(to); rest > negligible*size {
			size = rest
		} else {
			size = 0
			o.complete(to)
		}
		sizes[done] = size
	}
	order = make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	for i, k := range order {
		values[i] = sizes[k]
	}
	// Reverse the rows of the right vectors to match.
	for i, k := 0, n-1; i < k; i, k = i+1, k-1 {
		swap(right.row(i), right.row(k))
	}
	return left, order
}

// orthogonal makes vectors orthogonal to a set of unit rows.
type orthogonal struct {
	rows view[float64]
	dots []float64
	next int // the next unit vector to try
}

// without removes the components along the rows from x, normalizes it, and returns the length that was left.
func (o *orthogonal) without(x []float64) float64 {
	size := 1.0
	for range 2 {
		length := norm(x)
		if length == 0 {
			return 0
		}
		size *= length
		multiplyBy(x, 1/length)
		dots := o.dots[:o.rows.rows]
		simd.DotRows(dots, o.rows.data, o.rows.stride, x)
		subtractRows(x, o.rows, 0, 0, dots)
	}
	length := norm(x)
	if length == 0 {
		return 0
	}
	multiplyBy(x, 1/length)
	return size * length
}

// complete sets x to a unit vector that is orthogonal to the rows.
func (o *orthogonal) complete(x []float64) {
	// There are fewer rows than unit vectors, so at least one unit vector keeps this length.
	least := 0.5 / math.Sqrt(float64(len(x)))
	for ; ; o.next++ {
		clear(x)
		x[o.next] = 1
		if o.without(x) > least {
			return
		}
	}
}
