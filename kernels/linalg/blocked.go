package linalg

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// The factorizations of real matrices divide them into halves until these are small, so that nearly all work is in products
// (Toledo, "Locality of reference in LU decomposition with partial pivoting", 1997; Gustavson, "Recursion leads to automatic
// variable blocking for dense linear-algebra algorithms", 1997).

// view is a part of a real matrix.
type view struct {
	rows, cols, stride int
	data               []float64
}

func (m *real64) view() view { return view{m.rows, m.cols, m.cols, m.data} }

func (v view) row(i int) []float64 { return v.data[i*v.stride:][:v.cols] }

// part is rows and columns from a place on.
func (v view) part(i, j, rows, cols int) view {
	if rows == 0 || cols == 0 {
		return view{rows, cols, v.stride, nil}
	}
	return view{rows, cols, v.stride, v.data[i*v.stride+j:]}
}

// smallest is the size from which on halves are not divided any more.
const smallest = 8

// halved is a size's first half: a multiple of what the product computes at a time, if that is less than all.
func halved(n int) int {
	if h := (n/2 + 7) &^ 7; h < n {
		return h
	}
	return n / 2
}

// subtractProduct subtracts a·b from c, or with transposed a·bᵀ.
func subtractProduct(c, a, b view, transposed bool) {
	if c.rows == 0 || c.cols == 0 || a.cols == 0 {
		return
	}
	negative := make([]float64, a.rows*a.cols)
	for i := range a.rows {
		to := negative[i*a.cols:][:a.cols]
		for j, x := range a.row(i) {
			to[j] = -x
		}
	}
	simd.Gemm64(nil, false, transposed, c.rows, c.cols, a.cols, negative, a.cols, b.data, b.stride, c.data, c.stride, true)
}

// solveLower replaces x by the solution of a system whose matrix is the lower triangle of l; unit takes the diagonal for ones.
func solveLower(l view, unit bool, x view) {
	n := l.rows
	if n > smallest {
		h := halved(n)
		upper, lower := x.part(0, 0, h, x.cols), x.part(h, 0, n-h, x.cols)
		solveLower(l.part(0, 0, h, h), unit, upper)
		subtractProduct(lower, l.part(h, 0, n-h, h), upper, false)
		solveLower(l.part(h, h, n-h, n-h), unit, lower)
		return
	}
	for i := range n {
		row, to := l.row(i), x.row(i)
		for k, f := range row[:i] {
			subtractScaled(to, x.row(k), f)
		}
		if !unit {
			divide(to, row[i])
		}
	}
}

// solveUpper is solveLower for the upper triangle.
func solveUpper(u view, x view) {
	n := u.rows
	if n > smallest {
		h := halved(n)
		upper, lower := x.part(0, 0, h, x.cols), x.part(h, 0, n-h, x.cols)
		solveUpper(u.part(h, h, n-h, n-h), lower)
		subtractProduct(upper, u.part(0, h, h, n-h), lower, false)
		solveUpper(u.part(0, 0, h, h), upper)
		return
	}
	for i := n - 1; i >= 0; i-- {
		row, to := u.row(i), x.row(i)
		for k := i + 1; k < n; k++ {
			subtractScaled(to, x.row(k), row[k])
		}
		divide(to, row[i])
	}
}

func subtractScaled(to, from []float64, f float64) {
	if f == 0 {
		return
	}
	from = from[:len(to)]
	for j := range to {
		to[j] -= f * from[j]
	}
}

func divide(to []float64, by float64) {
	for j := range to {
		to[j] /= by
	}
}

// solveRight replaces the rows of x by the solutions y of y·lᵀ = x, where l is a lower triangle.
func solveRight(l, x view) {
	n := l.rows
	if n > smallest {
		h := halved(n)
		left, right := x.part(0, 0, x.rows, h), x.part(0, h, x.rows, n-h)
		solveRight(l.part(0, 0, h, h), left)
		subtractProduct(right, left, l.part(h, 0, n-h, h), true)
		solveRight(l.part(h, h, n-h, n-h), right)
		return
	}
	for i := range x.rows {
		to := x.row(i)
		for j := range n {
			row := l.row(j)
			sum := to[j]
			for k, f := range row[:j] {
				sum -= f * to[k]
			}
			to[j] = sum / row[j]
		}
	}
}

// choleskyOf replaces the lower triangle by its Cholesky factor; what is above it is lost. ok is false if the matrix is not positive
// definite.
func choleskyOf(a view) (ok bool) {
	n := a.rows
	if n > smallest {
		h := halved(n)
		first, below, rest := a.part(0, 0, h, h), a.part(h, 0, n-h, h), a.part(h, h, n-h, n-h)
		if !choleskyOf(first) {
			return false
		}
		solveRight(first, below)
		subtractProduct(rest, below, below, true)
		return choleskyOf(rest)
	}
	for j := range n {
		row := a.row(j)
		d := row[j]
		for _, v := range row[:j] {
			d -= v * v
		}
		if !(d > 0) {
			return false
		}
		d = math.Sqrt(d)
		row[j] = d
		for i := j + 1; i < n; i++ {
			below := a.row(i)
			sum := below[j]
			for k, v := range row[:j] {
				sum -= below[k] * v
			}
			below[j] = sum / d
		}
	}
	return true
}

// luOf replaces a matrix of at least as many rows as columns by its triangular factors. Row i has changed places with row pivots[i],
// one after the other. singular tells that a pivot is zero.
func luOf(a view, pivots []int) (singular bool) {
	n := a.cols
	if n > smallest/2 {
		h := halved(n)
		left, right := a.part(0, 0, a.rows, h), a.part(0, h, a.rows, n-h)
		singular = luOf(left, pivots[:h])
		exchange(right, pivots[:h])
		top, rest, below := right.part(0, 0, h, n-h), right.part(h, 0, a.rows-h, n-h), left.part(h, 0, a.rows-h, h)
		solveLower(left.part(0, 0, h, h), true, top)
		subtractProduct(rest, below, top, false)
		singular = luOf(rest, pivots[h:]) || singular
		exchange(below, pivots[h:])
		for i := range pivots[h:] {
			pivots[h+i] += h
		}
		return singular
	}
	for k := range n {
		best := k
		for i := k + 1; i < a.rows; i++ {
			if math.Abs(a.row(i)[k]) > math.Abs(a.row(best)[k]) {
				best = i
			}
		}
		pivots[k] = best
		from := a.row(k)
		swap(from, a.row(best))
		if from[k] == 0 {
			singular = true
			continue
		}
		for i := k + 1; i < a.rows; i++ {
			row := a.row(i)
			row[k] /= from[k]
			subtractScaled(row[k+1:], from[k+1:], row[k])
		}
	}
	return singular
}

// exchange exchanges rows as pivots say.
func exchange(a view, pivots []int) {
	if a.cols == 0 {
		return
	}
	for i, p := range pivots {
		if p != i {
			swap(a.row(i), a.row(p))
		}
	}
}

func swap(a, b []float64) {
	for j, v := range a {
		a[j], b[j] = b[j], v
	}
}
