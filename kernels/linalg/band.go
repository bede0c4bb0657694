package linalg

import (
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// tridiagonal returns the function of TridiagonalSolve. The rows of input 0 are the upper, the main and the lower diagonal; the last
// element of the upper and the first of the lower one are ignored. The solution of a singular system is NaN, as in TensorFlow.
func tridiagonal(pivoting bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		d, n := in[0], in[0].cols
		x := in[0].over(in[1].rows, in[1].cols, out[0])
		copy(x.data, in[1].data)
		if n == 0 || x.cols == 0 {
			return nil
		}
		if n == 1 {
			if d.at(1, 0) == 0 {
				fillNaN(x.data)
				return nil
			}
			for j := range x.cols {
				x.data[j] /= d.at(1, 0)
			}
			return nil
		}
		if !eliminate(d, x, pivoting) {
			fillNaN(x.data)
		}
		return nil
	}
}

// eliminate solves a tridiagonal system in place. Pivoting swaps rows, which creates a second upper diagonal. ok is false if a pivot is
// zero.
func eliminate(d, x *matrix, pivoting bool) (ok bool) {
	n := d.cols
	diagonal, upper, second := make([]complex128, n), make([]complex128, n), make([]complex128, n)
	copy(diagonal, d.row(1))
	copy(upper, d.row(0)[:n-1])
	for i := range n - 1 {
		lower := d.at(2, i+1)
		nextUpper := complex128(0)
		if i+2 < n {
			nextUpper = d.at(0, i+1)
		}
		if pivoting && cmplx.Abs(lower) > cmplx.Abs(diagonal[i]) {
			x.swap(i, i+1)
			f := diagonal[i] / lower
			diagonal[i] = lower
			upper[i], diagonal[i+1] = diagonal[i+1], upper[i]-f*diagonal[i+1]
			second[i], upper[i+1] = nextUpper, -f*nextUpper
			subtract(x.row(i+1), f, x.row(i))
			continue
		}
		if diagonal[i] == 0 {
			return false
		}
		f := lower / diagonal[i]
		diagonal[i+1] -= f * upper[i]
		subtract(x.row(i+1), f, x.row(i))
	}
	if diagonal[n-1] == 0 {
		return false
	}
	for i := n - 1; i >= 0; i-- {
		if i+1 < n {
			subtract(x.row(i), upper[i], x.row(i+1))
		}
		if i+2 < n {
			subtract(x.row(i), second[i], x.row(i+2))
		}
		to := x.row(i)
		for j := range to {
			to[j] /= diagonal[i]
		}
	}
	return true
}

func fillNaN(x []complex128) {
	for i := range x {
		x[i] = cmplx.NaN()
	}
}

func subtract(to []complex128, f complex128, from []complex128) {
	if f == 0 {
		return
	}
	for j, v := range from {
		to[j] -= f * v
	}
}

// tridiagonalProduct is TridiagonalMatMul. Each diagonal is an input of one row.
func tridiagonalProduct(in []*matrix, out [][]complex128) error {
	upper, diagonal, lower, b := in[0].data, in[1].data, in[2].data, in[3]
	p := b.over(b.rows, b.cols, out[0])
	for i := range b.rows {
		to := p.row(i)
		subtract(to, -diagonal[i], b.row(i))
		if i+1 < b.rows {
			subtract(to, -upper[i], b.row(i+1))
		}
		if i > 0 {
			subtract(to, -lower[i], b.row(i-1))
		}
	}
	return nil
}

// banded returns the function of BandedTriangularSolve. The rows of input 0 are the bands: from the diagonal down for a lower triangle,
// down to the diagonal for an upper one.
func banded(lower, adjoint bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		bands := in[0]
		if slices.ContainsFunc(bands.row(bandOf(bands, lower, 0)), func(v complex128) bool { return v == 0 || cmplx.IsNaN(v) }) { // NaN is not a valid pivot
			return status.InvalidArgumentf("Input matrix is not invertible.")
		}
		x := bands.over(in[1].rows, in[1].cols, out[0])
		copy(x.data, in[1].data)
		substituteBands(bands, x, lower, adjoint)
		return nil
	}
}

// bandOf returns the row of the bands that holds the elements off columns to the right of the diagonal.
func bandOf(bands *matrix, lower bool, off int) int {
	if lower {
		return -off
	}
	return bands.rows - 1 - off
}

// substituteBands is substitute for a matrix, or its adjoint, given by its bands. In full, the matrix may be larger than memory.
func substituteBands(bands, x *matrix, lower, adjoint bool) {
	n, wide := bands.cols, bands.rows-1
	element := func(i, j int) complex128 {
		if adjoint {
			return cmplx.Conj(bands.at(bandOf(bands, lower, i-j), j))
		}
		return bands.at(bandOf(bands, lower, j-i), i)
	}
	for done := range n {
		i := done
		lo, hi := max(0, i-wide), i
		if lower == adjoint {
			i = n - 1 - done
			lo, hi = i+1, min(n, i+1+wide)
		}
		if done%64 == 0 {
			bands.look()
		}
		to := x.row(i)
		for k := lo; k < hi; k++ {
			if f := element(i, k); f != 0 {
				subtract(to, f, x.row(k))
			}
		}
		d := element(i, i)
		for j := range to {
			to[j] /= d
		}
	}
}

func tridiagonalSizes(in []tensor.Shape) error {
	if in[0][0] != 3 {
		return status.InvalidArgumentf("Expected diagonals to be provided as a matrix with 3 rows, got %d rows.", in[0][0])
	}
	if in[0][1] != in[1][0] {
		return status.InvalidArgumentf("Expected the same number of left-hand sides and right-hand sides, got %d and %d.", in[0][1], in[1][0])
	}
	return nil
}

func tridiagonalProductSizes(in []tensor.Shape) error {
	for i, name := range []string{"superdiagonal", "main diagonal", "subdiagonal"} {
		if in[i][0] != 1 || in[i][1] != in[3][0] {
			return status.InvalidArgumentf("Invalid %s shape.", name)
		}
	}
	return nil
}

func bandedSizes(in []tensor.Shape) error {
	if in[0][0] == 0 {
		return status.InvalidArgumentf("Banded matrices must have at least one band")
	}
	if in[0][0] > in[0][1] {
		return status.InvalidArgumentf("Number of bands %d cannot exceed the size of the matrix %d", in[0][0], in[0][1])
	}
	if in[0][1] != in[1][0] {
		return status.InvalidArgumentf("In[0] mismatch In[1] shape: %d vs. %d: %v %v", in[0][1], in[1][0], in[0], in[1])
	}
	return nil
}
