package linalg

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
)

// bands returns the diagonals of a tridiagonal system as rows.
func bands(upper, diagonal, lower []complex128) *matrix {
	n := len(diagonal)
	d := newMatrix(3, n)
	copy(d.row(0), upper)
	copy(d.row(1), diagonal)
	copy(d.row(2)[min(1, n):], lower)
	return d
}

// timesBands returns the product of a tridiagonal matrix and x.
func timesBands(d, x *matrix) *matrix {
	out := newMatrix(x.rows, x.cols)
	for i := range x.rows {
		subtract(out.row(i), -d.at(1, i), x.row(i))
		if i+1 < x.rows {
			subtract(out.row(i), -d.at(0, i), x.row(i+1))
		}
		if i > 0 {
			subtract(out.row(i), -d.at(2, i), x.row(i-1))
		}
	}
	return out
}

// TestPerturbedTridiagonal checks that regular systems have their solution, and singular ones a finite solution that is large along the
// near null space of the matrix.
func TestPerturbedTridiagonal(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for round := range 200 {
		n, kind := 1+r.IntN(9), round%2 == 1
		d, b := randomMatrix(r, 3, n, kind), randomMatrix(r, n, 2, kind)
		for i := range d.data {
			if r.IntN(6) == 0 {
				d.data[i] = 0
			}
		}
		x := newMatrix(n, 2)
		if err := perturbedTridiagonal(precisionOf(tensor.Float64))([]*matrix{d, b}, [][]complex128{x.data}); err != nil {
			t.Fatal(err)
		}
		most := 1.
		for _, v := range x.data {
			if cmplx.IsNaN(v) || cmplx.IsInf(v) {
				t.Fatalf("round %d: the solution has %v", round, v)
			}
			most = max(most, cmplx.Abs(v))
		}
		if off := distance(timesBands(d, x), b); off > 1e-13*most {
			t.Errorf("round %d: the product is %g away from the right side, with a solution as large as %g", round, off, most)
		}
	}
}

func TestPerturbedTridiagonalOfZeros(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		for _, right := range []complex128{0, 1, 0x1p-1060, complex(math.NaN(), 0), complex(math.Inf(1), 0)} {
			d, b, x := bands(make([]complex128, n-1), make([]complex128, n), make([]complex128, n-1)), newMatrix(n, 1), newMatrix(n, 1)
			for i := range b.data {
				b.data[i] = right
			}
			if err := perturbedTridiagonal(precisionOf(tensor.Float64))([]*matrix{d, b}, [][]complex128{x.data}); err != nil {
				t.Fatal(err)
			}
			for _, v := range x.data {
				if finite := !cmplx.IsNaN(right) && !cmplx.IsInf(right); finite && (cmplx.IsNaN(v) || cmplx.IsInf(v)) {
					t.Errorf("%d zeros and %v give %v", n, right, v)
				}
			}
		}
	}
}
