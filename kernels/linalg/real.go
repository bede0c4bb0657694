package linalg

import (
	"errors"
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/simd"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack"
	lapackimpl "gonum.org/v1/gonum/lapack/gonum"
)

// errNotReal says that the function of complex matrices has to do it.
var errNotReal = errors.New("no result for real numbers")

// real64 is a matrix of real numbers by rows, in double precision. What is here does for them what the functions of complex
// matrices do, by LAPACK's algorithms.
type real64 struct {
	rows, cols int
	data       []float64
}

var lapack64 lapackimpl.Implementation

func newReal(rows, cols int) *real64 { return &real64{rows, cols, make([]float64, rows*cols)} }

func (m *real64) transpose() *real64 {
	t := newReal(m.cols, m.rows)
	for i := range m.rows {
		for j := range m.cols {
			t.data[j*m.rows+i] = m.data[i*m.cols+j]
		}
	}
	return t
}

// finite tells whether all elements are.
func (m *real64) finite() bool {
	return !slices.ContainsFunc(m.data, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

// load reads the matrix from element at of a tensor of floats.
func (m *real64) load(t *tensor.Tensor, at int) {
	if t.DType() == tensor.Float64 {
		copy(m.data, tensor.Of[float64](t)[at:])
		return
	}
	simd.Doubles(m.data, tensor.Of[float32](t)[at:at+len(m.data)])
}

// storeReals writes elements of a tensor of floats or integers from element at.
func storeReals(t *tensor.Tensor, at int, src []float64) {
	switch t.DType() {
	case tensor.Float32:
		simd.FloatsOfDoubles(tensor.Of[float32](t)[at:at+len(src)], src)
	case tensor.Float64:
		copy(tensor.Of[float64](t)[at:], src)
	case tensor.Int32:
		for i, v := range src {
			tensor.Of[int32](t)[at+i] = int32(v)
		}
	case tensor.Int64:
		for i, v := range src {
			tensor.Of[int64](t)[at+i] = int64(v)
		}
	}
}

// workspace gives a call of LAPACK the memory that it asks for.
func workspace(call func(work []float64, lwork int)) {
	var size [1]float64
	call(size[:], -1)
	work := make([]float64, int(size[0]))
	call(work, len(work))
}

func realCholesky(in []*real64, out [][]float64) error {
	m, n := in[0], in[0].rows
	copy(out[0], m.data)
	if !choleskyOf((&real64{n, n, out[0]}).view()) {
		for i := range out[0] {
			out[0][i] = math.NaN()
		}
		return nil
	}
	for i := range n {
		clear(out[0][i*n+i+1 : (i+1)*n])
	}
	return nil
}

// realLU is lu of real matrices; pivots are the exchanges of rows, one after the other.
func realLU(m *real64) (pivots []int, singular bool) {
	pivots = make([]int, m.rows)
	singular = luOf(m.view(), pivots)
	for i := range m.rows {
		singular = singular || math.IsNaN(m.data[i*m.cols+i])
	}
	return pivots, singular
}

func realFactorLU(in []*real64, out [][]float64) error {
	pivots, singular := realLU(in[0])
	if singular {
		return status.InvalidArgumentf("Input is not invertible.")
	}
	copy(out[0], in[0].data)
	for i := range out[1] {
		out[1][i] = float64(i)
	}
	for i, p := range pivots {
		out[1][i], out[1][p] = out[1][p], out[1][i]
	}
	return nil
}

func realSolver(adjoint bool) func(in []*real64, out [][]float64) error {
	return func(in []*real64, out [][]float64) error {
		copy(out[0], in[1].data)
		return solveReal(in[0], adjoint, &real64{in[1].rows, in[1].cols, out[0]}, "Input matrix is not invertible.")
	}
}

func realInverter(adjoint bool) func(in []*real64, out [][]float64) error {
	return func(in []*real64, out [][]float64) error {
		n := in[0].rows
		for i := range n {
			out[0][i*n+i] = 1
		}
		return solveReal(in[0], adjoint, &real64{n, n, out[0]}, "Input is not invertible.")
	}
}

// solveReal replaces x by the solution of the system with matrix m, which is lost.
func solveReal(m *real64, adjoint bool, x *real64, refused string) error {
	if adjoint {
		m = m.transpose()
	}
	pivots, singular := realLU(m)
	if singular {
		return status.InvalidArgumentf("%s", refused)
	}
	exchange(x.view(), pivots)
	solveLower(m.view(), true, x.view())
	solveUpper(m.view(), x.view())
	return nil
}

// realSign is the sign of the permutation that exchanges make.
func realSign(pivots []int) float64 {
	sign := 1.0
	for i, p := range pivots {
		if p != i {
			sign = -sign
		}
	}
	return sign
}

func realDeterminant(in []*real64, out [][]float64) error {
	pivots, _ := realLU(in[0])
	d := realSign(pivots)
	for i := range in[0].rows {
		d *= in[0].data[i*in[0].cols+i]
	}
	out[0][0] = d
	return nil
}

func realSignAndLog(in []*real64, out [][]float64) error {
	pivots, _ := realLU(in[0])
	sign, log := realSign(pivots), 0.0
	for i := range in[0].rows {
		d := in[0].data[i*in[0].cols+i]
		if d == 0 {
			out[0][0], out[1][0] = 0, math.Inf(-1)
			return nil
		}
		if d < 0 {
			sign = -sign
		}
		log += math.Log(math.Abs(d))
	}
	if math.IsNaN(log) {
		sign = log
	}
	out[0][0], out[1][0] = sign, log
	return nil
}

func realTriangularSolver(lower, adjoint bool) func(in []*real64, out [][]float64) error {
	return func(in []*real64, out [][]float64) error {
		m, x := in[0], &real64{in[1].rows, in[1].cols, out[0]}
		copy(x.data, in[1].data)
		if adjoint {
			m = m.transpose()
		}
		if lower != adjoint {
			solveLower(m.view(), false, x.view())
		} else {
			solveUpper(m.view(), x.view())
		}
		return nil
	}
}

func realQR(full bool) func(in []*real64, out [][]float64) error {
	return func(in []*real64, out [][]float64) error {
		m := in[0]
		size := min(m.rows, m.cols)
		taus := make([]float64, size)
		workspace(func(work []float64, lwork int) { lapack64.Dgeqrf(m.rows, m.cols, m.data, m.cols, taus, work, lwork) })
		cols := size
		if full {
			cols = m.rows
		}
		q, r := out[0], out[1]
		for i := range size {
			copy(r[i*m.cols+i:(i+1)*m.cols], m.data[i*m.cols+i:])
		}
		for i := range m.rows {
			copy(q[i*cols:][:size], m.data[i*m.cols:])
		}
		workspace(func(work []float64, lwork int) { lapack64.Dorgqr(m.rows, cols, size, q, cols, taus, work, lwork) })
		return nil
	}
}

// realSVD leaves matrices that are not finite, on which LAPACK does not end well, to the other form.
func realSVD(vectors, full bool) func(in []*real64, out [][]float64) error {
	return func(in []*real64, out [][]float64) error {
		m := in[0]
		if !m.finite() {
			return errNotReal
		}
		job, size := lapack.SVDNone, min(m.rows, m.cols)
		var u, vt []float64
		uCols, vRows := 1, 1
		if vectors {
			job, uCols, vRows = lapack.SVDStore, size, size
			if full {
				job, uCols, vRows = lapack.SVDAll, m.rows, m.cols
			}
			u, vt = out[1], make([]float64, vRows*m.cols)
		}
		var ok bool
		workspace(func(work []float64, lwork int) {
			ok = lapack64.Dgesvd(job, job, m.rows, m.cols, m.data, m.cols, out[0], u, uCols, vt, m.cols, work, lwork)
		})
		if !ok {
			return errNotReal
		}
		if vectors {
			copy(out[2], (&real64{vRows, m.cols, vt}).transpose().data)
		}
		return nil
	}
}

func realSelfAdjoint(vectors bool) func(in []*real64, out [][]float64) error {
	return func(in []*real64, out [][]float64) error {
		m := in[0]
		if !m.finite() {
			return errNotReal
		}
		job := lapack.EVNone
		if vectors {
			job = lapack.EVCompute
		}
		var ok bool
		workspace(func(work []float64, lwork int) {
			ok = lapack64.Dsyev(job, blas.Lower, m.rows, m.data, m.cols, out[0], work, lwork)
		})
		if !ok {
			return errNotReal
		}
		if vectors {
			copy(out[1], m.data)
		}
		return nil
	}
}
