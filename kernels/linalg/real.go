package linalg

import (
	"errors"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/simd"
	"gonum.org/v1/gonum/lapack"
)

// errNotReal means that the function for complex matrices must compute the result.
var errNotReal = errors.New("no result for real numbers")

// realFunction is an op's function for real matrices, which have at least one element. It does not change its inputs. Its outputs start as
// zeros.
type realFunction[T simd.Real] func(in []view[T], out [][]T) error

// realForms holds a function for both real types.
type realForms struct {
	single realFunction[float32]
	double realFunction[float64]
}

// really returns a function that computes set to of the outputs from the sets from of the inputs.
func really[T simd.Real](ctx *kernels.Context, run realFunction[T], in []tensor.Shape, results []result, outputs []*tensor.Tensor) func(from []int, to int) error {
	matrices, parts := make([]view[T], len(in)), make([][]T, len(results))
	return func(from []int, to int) error {
		for i, s := range in {
			size := s.Elements()
			if size == 0 {
				return errNotReal
			}
			matrices[i] = viewOf(int(s[0]), int(s[1]), tensor.Of[T](ctx.Input(i))[from[i]*size:][:size])
			matrices[i].step = ctx.Step
		}
		for i, r := range results {
			size := r.shape.Elements()
			if same := outputs[i].DType() == ctx.Input(0).DType(); same && !r.absent {
				parts[i] = tensor.Of[T](outputs[i])[to*size:][:size]
			} else {
				parts[i] = make([]T, size)
			}
		}
		if err := run(matrices, parts); err != nil {
			return err
		}
		for i, p := range parts {
			if !results[i].absent {
				storeIntegers(outputs[i], to*len(p), p)
			}
		}
		return nil
	}
}

// storeIntegers converts src to integers and stores it in t, starting at element at. It does nothing if t does not hold integers.
func storeIntegers[T simd.Real](t *tensor.Tensor, at int, src []T) {
	switch t.DType() {
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

// magnitude returns the greatest magnitude of an element, or NaN if an element is NaN.
func magnitude[T simd.Real](m view[T]) float64 {
	switch data := any(m.data).(type) {
	case []float32:
		sizes := make([]float32, m.cols)
		top := float32(0)
		for i := range m.rows {
			simd.Abs(sizes, data[i*m.stride:][:m.cols])
			top = max(top, simd.MaxOf(sizes))
		}
		return float64(top)
	case []float64:
		top := 0.0
		for i := range m.rows {
			for _, v := range data[i*m.stride:][:m.cols] {
				top = max(top, math.Abs(v))
			}
		}
		return top
	}
	return math.NaN()
}

func finite(magnitude float64) bool { return magnitude-magnitude == 0 }

// scale multiplies m by a power of two so that squares of its elements neither overflow nor underflow, and returns the factor that undoes
// it.
func scale[T simd.Real](m view[T], magnitude float64) (undo float64) {
	least, most := 0x1p-20, 0x1p20
	if magnitude == 0 || magnitude > least && magnitude < most {
		return 1
	}
	_, exponent := math.Frexp(magnitude)
	for i := range m.rows {
		for j, v := range m.row(i) {
			m.row(i)[j] = T(math.Ldexp(float64(v), 1-exponent))
		}
	}
	return math.Ldexp(1, exponent-1)
}

func realCholesky[T simd.Real](in []view[T], out [][]T) error {
	n := in[0].rows
	s := newScratch[T](in[0].step)
	defer s.release()
	u, to := s.matrix(n, n), viewOf(n, n, out[0])
	u.transposeFrom(in[0])
	if !s.cholesky(u) {
		for i := range out[0] {
			out[0][i] = T(math.NaN())
		}
		return nil
	}
	to.transposeFrom(u)
	for i := range n {
		clear(to.row(i)[i+1:])
	}
	return nil
}

// factored is lu for a copy of m, or of its transpose. A NaN in the factors' diagonal counts as singular.
func (s *scratch[T]) factored(m view[T], transposed bool) (factors view[T], pivots []int, singular bool) {
	factors, pivots = s.matrix(m.rows, m.cols), make([]int, m.rows)
	if transposed {
		factors.transposeFrom(m)
	} else {
		factors.copyFrom(m)
	}
	singular = s.lu(factors, pivots)
	for i := range m.rows {
		singular = singular || math.IsNaN(float64(factors.row(i)[i]))
	}
	return factors, pivots, singular
}

func realFactorLU[T simd.Real](in []view[T], out [][]T) error {
	s := newScratch[T](in[0].step)
	defer s.release()
	factors, pivots, singular := s.factored(in[0], false)
	if singular {
		return status.InvalidArgumentf("Input is not invertible.")
	}
	copy(out[0], factors.data)
	for i := range out[1] {
		out[1][i] = T(i)
	}
	for i, p := range pivots {
		out[1][i], out[1][p] = out[1][p], out[1][i]
	}
	return nil
}

func realSolver[T simd.Real](adjoint bool) realFunction[T] {
	return func(in []view[T], out [][]T) error {
		x := viewOf(in[1].rows, in[1].cols, out[0])
		x.copyFrom(in[1])
		return solveReal(in[0], adjoint, x, "Input matrix is not invertible.")
	}
}

func realInverter[T simd.Real](adjoint bool) realFunction[T] {
	return func(in []view[T], out [][]T) error {
		n := in[0].rows
		for i := range n {
			out[0][i*n+i] = 1
		}
		return solveReal(in[0], adjoint, viewOf(n, n, out[0]), "Input is not invertible.")
	}
}

// solveReal replaces x by the solution of the system with matrix m.
func solveReal[T simd.Real](m view[T], adjoint bool, x view[T], refused string) error {
	s := newScratch[T](m.step)
	defer s.release()
	factors, pivots, singular := s.factored(m, adjoint)
	if singular {
		return status.InvalidArgumentf("%s", refused)
	}
	exchange(x, pivots)
	s.solveLower(factors, true, x)
	s.solveUpper(factors, x)
	return nil
}

// realSign returns the sign of the permutation that the swaps make.
func realSign(pivots []int) float64 {
	sign := 1.0
	for i, p := range pivots {
		if p != i {
			sign = -sign
		}
	}
	return sign
}

func realDeterminant[T simd.Real](in []view[T], out [][]T) error {
	s := newScratch[T](in[0].step)
	defer s.release()
	factors, pivots, _ := s.factored(in[0], false)
	d := realSign(pivots)
	for i := range factors.rows {
		d *= float64(factors.row(i)[i])
	}
	out[0][0] = T(d)
	return nil
}

func realSignAndLog[T simd.Real](in []view[T], out [][]T) error {
	s := newScratch[T](in[0].step)
	defer s.release()
	factors, pivots, _ := s.factored(in[0], false)
	sign, log := realSign(pivots), 0.0
	for i := range factors.rows {
		d := float64(factors.row(i)[i])
		if d == 0 {
			out[0][0], out[1][0] = 0, T(math.Inf(-1))
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
	out[0][0], out[1][0] = T(sign), T(log)
	return nil
}

func realTriangularSolver[T simd.Real](lower, adjoint bool) realFunction[T] {
	return func(in []view[T], out [][]T) error {
		s := newScratch[T](in[0].step)
		defer s.release()
		m, x := in[0], viewOf(in[1].rows, in[1].cols, out[0])
		x.copyFrom(in[1])
		if adjoint {
			t := s.matrix(m.cols, m.rows)
			t.transposeFrom(m)
			m = t
		}
		if lower != adjoint {
			s.solveLower(m, false, x)
		} else {
			s.solveUpper(m, x)
		}
		return nil
	}
}

func realQR[T simd.Real](full bool) realFunction[T] {
	return func(in []view[T], out [][]T) error {
		m := in[0]
		s := newScratch[T](in[0].step)
		defer s.release()
		a, size := s.matrix(m.rows, m.cols), min(m.rows, m.cols)
		a.copyFrom(m)
		reflections := s.qr(a)
		cols := size
		if full {
			cols = m.rows
		}
		q, r := viewOf(m.rows, cols, out[0]), viewOf(cols, m.cols, out[1])
		for i := range size {
			copy(r.row(i)[i:], a.row(i)[i:])
		}
		for i := range cols {
			q.row(i)[i] = 1
		}
		s.applyAll(q, reflections, true)
		return nil
	}
}

// realSVD is Svd. It leaves matrices that are not finite to the complex form: its own iteration would not terminate.
func realSVD[T simd.Real](vectors, full bool) realFunction[T] {
	return func(in []view[T], out [][]T) error {
		m := in[0]
		size := magnitude(m)
		if !finite(size) {
			return errNotReal
		}
		s := newScratch[T](in[0].step)
		defer s.release()
		// The transpose has the same vectors with u and v swapped.
		turned := m.rows < m.cols
		a := s.matrix(max(m.rows, m.cols), min(m.rows, m.cols))
		if turned {
			a.transposeFrom(m)
		} else {
			a.copyFrom(m)
		}
		undo, values := scale(a, size), make([]float64, a.cols)
		if !vectors {
			if !s.singularValues(a, values) {
				return errNotReal
			}
		} else {
			cols := func(rows int) int {
				if full {
					return rows
				}
				return a.cols
			}
			u, v := viewOf(m.rows, cols(m.rows), out[1]), viewOf(m.cols, cols(m.cols), out[2])
			if turned {
				u, v = v, u
			}
			if !singularVectors(a, values, u, v) {
				return errNotReal
			}
		}
		for i, v := range values {
			out[0][i] = T(v * undo)
		}
		return nil
	}
}

// smallSVD is the number of elements of a matrix up to which gonum's LAPACK finds its vectors faster than realSVD.
const smallSVD = 32 * 32

// doubleSVD is realSVD for float64, by gonum's LAPACK for small matrices.
func doubleSVD(vectors, full bool) realFunction[float64] {
	large := realSVD[float64](vectors, full)
	return func(in []view[float64], out [][]float64) error {
		m := in[0]
		if len(m.data) > smallSVD {
			return large(in, out)
		}
		if !finite(magnitude(m)) {
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
		a := append([]float64(nil), m.data...)
		var work [1]float64
		lapack64.Dgesvd(job, job, m.rows, m.cols, a, m.cols, out[0], u, uCols, vt, m.cols, work[:], -1)
		space := make([]float64, int(work[0]))
		if !lapack64.Dgesvd(job, job, m.rows, m.cols, a, m.cols, out[0], u, uCols, vt, m.cols, space, len(space)) {
			return errNotReal
		}
		if vectors {
			viewOf(m.cols, vRows, out[2]).transposeFrom(viewOf(vRows, m.cols, vt))
		}
		return nil
	}
}

func realSelfAdjoint[T simd.Real](vectors bool) realFunction[T] {
	return func(in []view[T], out [][]T) error {
		m := in[0]
		size := magnitude(m)
		if !finite(size) {
			return errNotReal
		}
		s := newScratch[T](in[0].step)
		defer s.release()
		var columns *view[T]
		if vectors {
			v := viewOf(m.rows, m.rows, out[1])
			columns = &v
		}
		if !s.selfAdjoint(m, size, out[0], columns) {
			return errNotReal
		}
		return nil
	}
}
