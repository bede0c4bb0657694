package linalg

import (
	"cmp"
	"math"
	"slices"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// bidiagonalOf brings a matrix of at least as many rows as columns, which is lost, to upper bidiagonal form by reflections from the left
// and from the right (LAPACK's dlabrd: a panel's reflections are put off, and subtracted from the rest as products).
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
			i := from + j
			// The column, and what clears it.
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
			// y is the transpose of what is left, times v.
			y := ys.row(j)[i+1:]
			clear(y)
			simd.AddRows(y, a.from(i, i+1), a.stride, column)
			simd.DotRows(dots[:j], v.from(0, i), v.stride, column)
			simd.DotRows(factors[:j], xs.from(0, i), xs.stride, column)
			subtractRows(y, ys, 0, i+1, dots[:j])
			subtractRows(y, u, 0, i+1, factors[:j])
			multiplyBy(y, tau)
			// The row, and what clears it.
			row := u.row(j)[i+1:]
			copy(row, a.row(i)[i+1:])
			for l := range j + 1 {
				dots[l], factors[l] = v.row(l)[i], xs.row(l)[i]
			}
			subtractRows(row, ys, 0, i+1, dots[:j+1])
			subtractRows(row, u, 0, i+1, factors[:j])
			beta, tau = reflector(row)
			above[i], right.taus[i] = float64(beta), tau
			// x is what is left, times u.
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

// singularValues sets values to the singular values of a, which is lost, the greatest first: it has at least as many rows as columns.
// ok is false if they are not found.
func (s *scratch[T]) singularValues(a view[T], values []float64) (ok bool) {
	diagonal, above, _, _ := s.bidiagonalOf(a)
	n := len(diagonal)
	if lapack64.Dlasq1(n, diagonal, append(above, 0), make([]float64, 4*n)) != 0 {
		return false
	}
	copy(values, diagonal)
	return true
}

// singularVectors is singularValues, and sets the first columns of u and of v to the vectors. It is for matrices of single precision:
// the squares of the singular values are eigenvalues, which double precision tells apart as well as single precision does the values.
func singularVectors(a view[float32], values []float64, u, v view[float32]) (ok bool) {
	s := newScratch[float32]()
	defer s.release()
	d := newScratch[float64]()
	defer d.release()
	diagonal, above, left, right := s.bidiagonalOf(a)
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
	rightRows := d.matrix(n, n)
	if !tridiagonalEigen(squares, beside, rightRows) {
		return false
	}
	leftRows, order := leftVectors(d, diagonal, above, rightRows, values)
	for _, side := range []struct {
		to   view[float32]
		rows view[float64]
		r    reflectors[float32]
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

// leftVectors computes the left singular vectors of a bidiagonal matrix, as rows, from the right ones, whose values ascend. It sets
// values to the singular values, which descend, and gives the order of the rows that they are in.
func leftVectors(s *scratch[float64], diagonal, above []float64, right view[float64], values []float64) (left view[float64], order []int) {
	n := len(diagonal)
	left = s.matrix(n, n)
	sizes := s.list(n)
	// A vector is the product of the matrix and the right one, over the value. Where that is small, rounding leaves parts of the others in
	// it, which are taken out.
	const small, negligible = 1e-3, 1e-8
	o := orthogonal{dots: s.list(n)}
	for done := range n {
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
	// The rows of the right ones go the other way.
	for i, k := 0, n-1; i < k; i, k = i+1, k-1 {
		swap(right.row(i), right.row(k))
	}
	return left, order
}

// orthogonal makes vectors orthogonal to rows of length one.
type orthogonal struct {
	rows view[float64]
	dots []float64
	next int // the unit vector to try
}

// without takes the parts of the rows out of a vector, makes its length one, and gives what that was before.
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

// complete makes x a vector of length one that is orthogonal to the rows.
func (o *orthogonal) complete(x []float64) {
	// As there are fewer rows than unit vectors, of one of these that much is left.
	least := 0.5 / math.Sqrt(float64(len(x)))
	for ; ; o.next++ {
		clear(x)
		x[o.next] = 1
		if o.without(x) > least {
			return
		}
	}
}
