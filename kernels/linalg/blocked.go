package linalg

import (
	"cmp"
	"math"
	"sync"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Real matrices are factored in their own type, one panel of rows or columns after another. The effect of a panel on the rest of the matrix
// is a matrix product.

// panel is the number of rows or columns that are factored between two products.
const panel = 32

// view is a real matrix in row-major order, or a part of one. Its rows start stride elements apart.
type view[T simd.Real] struct {
	rows, cols, stride int
	data               []T
	step               *kernels.Step // like the step of a matrix
}

func viewOf[T simd.Real](rows, cols int, data []T) view[T] {
	return view[T]{rows, cols, cols, data, nil}
}

func (v view[T]) row(i int) []T { return v.data[i*v.stride:][:v.cols] }

// from returns the data from row i, column j to the end.
func (v view[T]) from(i, j int) []T { return v.data[i*v.stride+j:] }

// part returns a submatrix that starts at row i and column j.
func (v view[T]) part(i, j, rows, cols int) view[T] {
	if rows == 0 || cols == 0 {
		return view[T]{rows, cols, v.stride, nil, v.step}
	}
	return view[T]{rows, cols, v.stride, v.data[i*v.stride+j:], v.step}
}

// tail returns the submatrix from row i and column j to the end.
func (v view[T]) tail(i, j int) view[T] { return v.part(i, j, v.rows-i, v.cols-j) }

func (v view[T]) empty() bool { return v.rows == 0 || v.cols == 0 }

// copyFrom copies a matrix of the same size.
func (v view[T]) copyFrom(from view[T]) {
	if v.empty() {
		return
	}
	for i := range v.rows {
		copy(v.row(i), from.row(i))
	}
}

// transposeFrom copies the transpose of a matrix.
func (v view[T]) transposeFrom(from view[T]) {
	if v.empty() {
		return
	}
	switch to := any(v.data).(type) {
	case []float32:
		simd.Transpose(to, v.stride, any(from.data).([]float32), from.stride, v.rows, v.cols)
	case []float64:
		simd.TransposeAny(to, v.stride, any(from.data).([]float64), from.stride, v.rows, v.cols)
	}
}

// scratch is memory for one decomposition at a time. A pool keeps it for the next one until the garbage collector frees it.
type scratch[T simd.Real] struct {
	lists [][]T
	used  int
	step  *kernels.Step // the step that uses it, like that of a matrix
}

var singleScratch, doubleScratch sync.Pool

func scratchPool[T simd.Real]() *sync.Pool {
	if _, single := any(*new(T)).(float32); single {
		return &singleScratch
	}
	return &doubleScratch
}

func newScratch[T simd.Real](step *kernels.Step) *scratch[T] {
	s, ok := scratchPool[T]().Get().(*scratch[T])
	if !ok {
		s = new(scratch[T])
	}
	s.step = step
	return s
}

// release returns the scratch to its pool. Everything allocated from it is invalid from then on.
func (s *scratch[T]) release() {
	s.used, s.step = 0, nil
	scratchPool[T]().Put(s)
}

// mark and reset free what was allocated between them.
func (s *scratch[T]) mark() int    { return s.used }
func (s *scratch[T]) reset(to int) { s.used = to }

// look is like that of a matrix.
func (s *scratch[T]) look() { lookAt(s.step) }

// list allocates n elements, which are not cleared. It also checks whether the step has ended; every panel calls it.
func (s *scratch[T]) list(n int) []T {
	s.look()
	if s.used == len(s.lists) {
		s.lists = append(s.lists, nil)
	}
	if cap(s.lists[s.used]) < n {
		s.lists[s.used] = make([]T, n)
	}
	s.used++
	return s.lists[s.used-1][:n]
}

// matrix allocates a matrix, which is not cleared.
func (s *scratch[T]) matrix(rows, cols int) view[T] {
	m := viewOf(rows, cols, s.list(rows*cols))
	m.step = s.step
	return m
}

// zeros allocates a zero matrix.
func (s *scratch[T]) zeros(rows, cols int) view[T] {
	m := s.matrix(rows, cols)
	clear(m.data)
	return m
}

// sizeOfProduct returns the rows, the columns and the inner dimension of a product.
func sizeOfProduct[T simd.Real](a, b view[T], transA, transB bool) (m, n, k int) {
	m, k, n = a.rows, a.cols, b.cols
	if transA {
		m, k = k, m
	}
	if transB {
		n = b.rows
	}
	return m, n, k
}

// setProduct sets c to a·b, each optionally transposed. addProduct adds the product to c.
func setProduct[T simd.Real](c, a, b view[T], transA, transB bool) {
	product(c, a, b, transA, transB, false)
}

func addProduct[T simd.Real](c, a, b view[T], transA, transB bool) {
	product(c, a, b, transA, transB, true)
}

// longProduct is the number of multiplications between two checks whether the step has ended.
const longProduct = 1 << 28

func product[T simd.Real](c, a, b view[T], transA, transB, accumulate bool) {
	m, n, k := sizeOfProduct(a, b, transA, transB)
	if m <= 2*panel || n*k <= longProduct/m {
		simd.GemmOf(transA, transB, m, n, k, a.data, a.stride, b.data, b.stride, c.data, c.stride, accumulate)
		return
	}
	most := max(2*panel, longProduct/(n*k)/panel*panel)
	for from := 0; from < m; from += most {
		lookAt(cmp.Or(c.step, a.step, b.step))
		rows := min(most, m-from)
		var part view[T]
		if transA {
			part = a.part(0, from, k, rows)
		} else {
			part = a.part(from, 0, rows, k)
		}
		simd.GemmOf(transA, transB, rows, n, k, part.data, part.stride, b.data, b.stride, c.data[from*c.stride:], c.stride, accumulate)
	}
}

// subtractProduct subtracts a·b from c, each optionally transposed.
func (s *scratch[T]) subtractProduct(c, a, b view[T], transA, transB bool) {
	if c.empty() || a.empty() {
		return
	}
	defer s.reset(s.mark())
	if b.rows*b.cols < a.rows*a.cols {
		b = s.negative(b)
	} else {
		a = s.negative(a)
	}
	addProduct(c, a, b, transA, transB)
}

func (s *scratch[T]) negative(m view[T]) view[T] {
	n := s.matrix(m.rows, m.cols)
	for i := range m.rows {
		negate(n.row(i), m.row(i))
	}
	return n
}

func negate[T simd.Real](to, from []T) {
	if to, ok := any(to).([]float32); ok {
		simd.Neg(to, any(from).([]float32))
		return
	}
	to = to[:len(from)]
	for i, x := range from {
		to[i] = -x
	}
}

func divideBy[T simd.Real](to []T, by T) {
	if to, ok := any(to).([]float32); ok {
		simd.DivScalar(to, to, float32(by))
		return
	}
	for j := range to {
		to[j] /= by
	}
}

func multiplyBy[T simd.Real](to []T, by T) {
	if to, ok := any(to).([]float32); ok {
		simd.MulScalar(to, to, float32(by))
		return
	}
	for j := range to {
		to[j] *= by
	}
}

func dot[T simd.Real](a, b []T) T {
	var sum [1]T
	simd.DotRows(sum[:], a, len(a), b)
	return sum[0]
}

// subtractRows subtracts rows of m, starting at row i and column j, from to. Each row is multiplied by its element of factors.
func subtractRows[T simd.Real](to []T, m view[T], i, j int, factors []T) {
	if len(factors) == 0 || len(to) == 0 {
		return
	}
	var c [panel]T
	for len(factors) > 0 {
		n := min(len(factors), panel)
		for k, f := range factors[:n] {
			c[k] = -f
		}
		simd.AddRows(to, m.from(i, j), m.stride, c[:n])
		factors = factors[n:]
		i += n
	}
}

// halved returns the first half of a size, rounded up to a multiple of the size that is solved without halving.
func halved(n int) int { return (n/2 + panel - 1) / panel * panel }

// solveLower replaces x by the solution of a system whose matrix is the lower triangle of l. If unit is set, the diagonal counts as ones.
func (s *scratch[T]) solveLower(l view[T], unit bool, x view[T]) {
	n := l.rows
	if x.empty() {
		return
	}
	if n > panel {
		h := halved(n)
		upper, lower := x.part(0, 0, h, x.cols), x.tail(h, 0)
		s.solveLower(l.part(0, 0, h, h), unit, upper)
		s.subtractProduct(lower, l.part(h, 0, n-h, h), upper, false, false)
		s.solveLower(l.tail(h, h), unit, lower)
		return
	}
	for i := range n {
		row, to := l.row(i), x.row(i)
		subtractRows(to, x, 0, 0, row[:i])
		if !unit {
			divideBy(to, row[i])
		}
	}
}

// solveUpper is solveLower for the upper triangle.
func (s *scratch[T]) solveUpper(u view[T], x view[T]) {
	n := u.rows
	if x.empty() {
		return
	}
	if n > panel {
		h := halved(n)
		upper, lower := x.part(0, 0, h, x.cols), x.tail(h, 0)
		s.solveUpper(u.tail(h, h), lower)
		s.subtractProduct(upper, u.part(0, h, h, n-h), lower, false, false)
		s.solveUpper(u.part(0, 0, h, h), upper)
		return
	}
	for i := n - 1; i >= 0; i-- {
		row, to := u.row(i), x.row(i)
		subtractRows(to, x, i+1, 0, row[i+1:])
		divideBy(to, row[i])
	}
}

// cholesky replaces the upper triangle of a by the factor u of a = uᵀ·u, and overwrites the rest. ok is false if the matrix is not positive
// definite.
func (s *scratch[T]) cholesky(a view[T]) (ok bool) {
	n := a.rows
	var factors [panel]T
	for from := 0; from < n; from += panel {
		size := min(panel, n-from)
		if from > 0 {
			s.subtractProduct(a.part(from, from, size, n-from), a.part(0, from, from, size), a.part(0, from, from, n-from), true, false)
		}
		for i := from; i < from+size; i++ {
			row := a.row(i)[i:]
			for k := from; k < i; k++ {
				factors[k-from] = a.row(k)[i]
			}
			subtractRows(row, a, from, i, factors[:i-from])
			if !(row[0] > 0) {
				return false
			}
			row[0] = T(math.Sqrt(float64(row[0])))
			divideBy(row[1:], row[0])
		}
	}
	return true
}

// lu replaces a matrix with at least as many rows as columns by its triangular factors. It swaps row i with row pivots[i], in ascending
// order of i. singular reports whether a pivot is zero.
func (s *scratch[T]) lu(a view[T], pivots []int) (singular bool) {
	defer s.reset(s.mark())
	n := a.cols
	work := s.list(min(panel, n) * a.rows)
	for from := 0; from < n; from += panel {
		size, rows := min(panel, n-from), a.rows-from
		columns := viewOf(size, rows, work[:size*rows])
		columns.transposeFrom(a.part(from, from, rows, size))
		found := pivots[from:][:size]
		singular = luOfColumns(columns, found) || singular
		a.part(from, from, rows, size).transposeFrom(columns)
		left, right := a.part(from, 0, rows, from), a.part(from, from+size, rows, n-from-size)
		exchange(left, found)
		exchange(right, found)
		top := right.part(0, 0, size, right.cols)
		s.solveLower(a.part(from, from, size, size), true, top)
		s.subtractProduct(right.tail(size, 0), columns.tail(0, size), top, true, false)
		for i := range found {
			found[i] += from
		}
	}
	return singular
}

// luOfColumns is lu for a few columns, which are the rows of c.
func luOfColumns[T simd.Real](c view[T], pivots []int) (singular bool) {
	for k := range c.rows {
		column := c.row(k)
		for i, p := range pivots[:k] {
			column[i], column[p] = column[p], column[i]
		}
		for i := 1; i < k; i++ {
			v := column[i]
			for l, f := range column[:i] {
				v -= c.data[l*c.stride+i] * f
			}
			column[i] = v
		}
		subtractRows(column[k:], c, 0, k, column[:k])
		best := k + largest(column[k:])
		pivots[k] = best
		for l := range k + 1 {
			r := c.row(l)
			r[k], r[best] = r[best], r[k]
		}
		if column[k] == 0 {
			singular = true
			continue
		}
		divideBy(column[k+1:], column[k])
	}
	return singular
}

// largest returns the index of the first element of the greatest magnitude.
func largest[T simd.Real](x []T) int {
	best, size := 0, max(x[0], -x[0])
	for i, v := range x {
		if v = max(v, -v); v > size {
			best, size = i, v
		}
	}
	return best
}

// exchange swaps rows according to pivots.
func exchange[T simd.Real](a view[T], pivots []int) {
	if a.cols == 0 {
		return
	}
	for i, p := range pivots {
		if p != i {
			swap(a.row(i), a.row(p))
		}
	}
}

func swap[T simd.Real](a, b []T) {
	for j, v := range a {
		a[j], b[j] = b[j], v
	}
}
