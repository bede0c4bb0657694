package linalg

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/graph/tensor"
)

// precision is the resolution of a floating-point type: the distance between 1 and the next number, and the least normal number.
type precision struct{ eps, tiny float64 }

func precisionOf(t tensor.DType) precision {
	if t == tensor.Float64 || t == tensor.Complex128 {
		return precision{0x1p-52, 0x1p-1022}
	}
	return precision{0x1p-23, 0x1p-126}
}

// perturbedTridiagonal returns the function of TridiagonalSolve for systems that may be singular, like those of inverse iteration. A pivot
// that is too small to divide by is moved away from zero by about the rounding error of the largest number of the factorization. LAPACK's
// xLAGTF and xLAGTS do the same.
func perturbedTridiagonal(p precision) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		d := in[0]
		x := in[0].over(in[1].rows, in[1].cols, out[0])
		copy(x.data, in[1].data)
		if d.cols == 0 || x.cols == 0 {
			return nil
		}
		u := factorScaled(d, x)
		by := p.eps * u.largest()
		for i := d.cols - 1; i >= 0; i-- {
			to := x.row(i)
			if i+1 < d.cols {
				subtract(to, u.upper[i], x.row(i+1))
			}
			if i+2 < d.cols {
				subtract(to, u.second[i], x.row(i+2))
			}
			pivot := p.perturb(u.diagonal[i], by, to)
			for j := range to {
				to[j] /= pivot
			}
		}
		return nil
	}
}

// upperBands is the main diagonal of an upper triangle and the two diagonals above it.
type upperBands struct{ diagonal, upper, second []complex128 }

func (u *upperBands) largest() float64 {
	most := 0.
	for _, band := range [][]complex128{u.diagonal, u.upper, u.second} {
		for _, v := range band {
			most = max(most, cmplx.Abs(v))
		}
	}
	return most
}

// factorScaled reduces a tridiagonal system to an upper triangle, and applies the same row operations to x. Of two rows, the pivot is the
// one that is larger relative to its row.
func factorScaled(d, x *matrix) *upperBands {
	n := d.cols
	u := &upperBands{make([]complex128, n), make([]complex128, n), make([]complex128, n)}
	above := func(i int) complex128 {
		if i+1 < n {
			return d.at(0, i)
		}
		return 0
	}
	u.diagonal[0], u.upper[0] = d.at(1, 0), above(0)
	scale := cmplx.Abs(u.diagonal[0]) + cmplx.Abs(u.upper[0])
	for i := range n - 1 {
		lower, diagonal, upper := d.at(2, i+1), d.at(1, i+1), above(i+1)
		nextScale := cmplx.Abs(lower) + cmplx.Abs(diagonal) + cmplx.Abs(upper)
		if u.diagonal[i] == 0 && lower != 0 || cmplx.Abs(lower)/nextScale > cmplx.Abs(u.diagonal[i])/scale {
			x.swap(i, i+1)
			f := u.diagonal[i] / lower
			u.diagonal[i+1], u.upper[i+1] = u.upper[i]-f*diagonal, -f*upper
			u.diagonal[i], u.upper[i], u.second[i] = lower, diagonal, upper
			subtract(x.row(i+1), f, x.row(i))
			continue
		}
		scale = nextScale
		u.diagonal[i+1], u.upper[i+1] = diagonal, upper
		if lower != 0 {
			f := lower / u.diagonal[i]
			u.diagonal[i+1] -= f * u.upper[i]
			subtract(x.row(i+1), f, x.row(i))
		}
	}
	return u
}

// perturb returns a pivot that can divide a row without overflow. It adds by to the pivot, doubling by each time, until that holds. If the
// row is as small as the pivot, it scales both up instead.
func (p precision) perturb(pivot complex128, by float64, row []complex128) complex128 {
	most := 0.
	for _, v := range row {
		most = max(most, cmplx.Abs(v))
	}
	by = math.Copysign(max(by, p.tiny), real(pivot))
	for {
		size := cmplx.Abs(pivot)
		switch {
		case size < p.tiny && size != 0 && most*p.tiny <= size:
			for j := range row {
				row[j] = complex(real(row[j])/p.tiny, imag(row[j])/p.tiny)
			}
			return complex(real(pivot)/p.tiny, imag(pivot)/p.tiny)
		case size < p.tiny || size < 1 && most*p.tiny > size:
			pivot += complex(by, 0)
			by *= 2
		default:
			return pivot // also if it is NaN
		}
	}
}
