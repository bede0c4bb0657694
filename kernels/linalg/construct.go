package linalg

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

var (
	linalgReal    = []tensor.DType{tensor.Float32, tensor.Float64}
	linalgComplex = []tensor.DType{tensor.Complex64, tensor.Complex128}
)

// sameAs makes results of one output with the sizes of input i.
func sameAs(i int) func(in []tensor.Shape) []result {
	return func(in []tensor.Shape) []result { return []result{{shape: in[i]}} }
}

// linalgRows are the rows of an op for the real and complex types, and for the halves that are named.
func linalgRows(make func(a attrReader) (kernels.Kernel, error), halfToo ...tensor.DType) []kernels.Def {
	construct := func(c *kernels.Construction) (any, error) {
		return make(attrReader{c})
	}
	rows := slices.Concat(linalgOf(linalgReal, make), linalgOf(linalgComplex, make))
	for _, half := range halfToo {
		rows = append(rows, kernels.Def{Types: dtypes.Only("T", half), Expensive: true, New: halves.Constructor(half, construct)})
	}
	return rows
}

// linalgOf is an op's row for some types.
func linalgOf(types []tensor.DType, make func(a attrReader) (kernels.Kernel, error)) []kernels.Def {
	return []kernels.Def{{Types: map[string][]tensor.DType{"T": types}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
		return make(attrReader{c})
	}}}
}

// attrReader reads boolean attributes.
type attrReader struct{ c *kernels.Construction }

func (a attrReader) flag(name string) (bool, error) { return a.c.Attrs().Bool(name) }

// flags reads two.
func (a attrReader) flags(first, second string) (x, y bool, err error) {
	x, err1 := a.flag(first)
	y, err2 := a.flag(second)
	return x, y, args.FirstError(err1, err2)
}

func triangularSizes(in []tensor.Shape) error {
	if in[0][0] != in[0][1] {
		return status.InvalidArgumentf("In[0] matrices in the last dimensions must be square (%d =/= %d)", in[0][0], in[0][1])
	}
	if in[0][1] != in[1][0] {
		return status.InvalidArgumentf("In[0] mismatch In[1] shape: %d vs. %d: %v %v", in[0][1], in[1][0], in[0], in[1])
	}
	return nil
}

func newCholesky(attrReader) (kernels.Kernel, error) {
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: choleskyFactor, real: &realForms{realCholesky[float32], realCholesky[float64]}}, nil
}

func newCholeskyGrad(attrReader) (kernels.Kernel, error) {
	return &linalg{inputs: 2, check: squarePair, results: sameAs(0), run: choleskyGradient}, nil
}

func newExponential(attrReader) (kernels.Kernel, error) {
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: exponential, work: 8}, nil
}

func newLogarithm(attrReader) (kernels.Kernel, error) {
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: logarithm, work: 8}, nil
}

func newSquareRoot(a attrReader) (kernels.Kernel, error) {
	dtype, err := a.c.Attrs().Type("T")
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: squareRoot(!dtype.IsComplex()), work: 8}, err
}

func newInverse(a attrReader) (kernels.Kernel, error) {
	adjoint, err := a.flag("adjoint")
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: inverter(adjoint), real: &realForms{realInverter[float32](adjoint), realInverter[float64](adjoint)}}, err
}

func newSolve(a attrReader) (kernels.Kernel, error) {
	adjoint, err := a.flag("adjoint")
	return &linalg{inputs: 2, check: squareSystem, results: sameAs(1), run: solver(adjoint), real: &realForms{realSolver[float32](adjoint), realSolver[float64](adjoint)}}, err
}

// newTriangularSolve lets batches stretch with broadcast.
func newTriangularSolve(broadcast bool) func(a attrReader) (kernels.Kernel, error) {
	return func(a attrReader) (kernels.Kernel, error) {
		lower, adjoint, err := a.flags("lower", "adjoint")
		return &linalg{inputs: 2, check: triangularSizes, results: sameAs(1), run: triangularSolver(lower, adjoint), real: &realForms{realTriangularSolver[float32](lower, adjoint), realTriangularSolver[float64](lower, adjoint)}, broadcast: broadcast}, err
	}
}

func newMatrixDeterminant(attrReader) (kernels.Kernel, error) {
	return &linalg{inputs: 1, check: squareMatrix, run: determinant, real: &realForms{realDeterminant[float32], realDeterminant[float64]}, results: func([]tensor.Shape) []result { return []result{{}} }}, nil
}

func newLogDeterminant(attrReader) (kernels.Kernel, error) {
	return &linalg{inputs: 1, check: squareMatrix, run: signAndLogDeterminant, real: &realForms{realSignAndLog[float32], realSignAndLog[float64]}, results: func([]tensor.Shape) []result { return []result{{}, {}} }}, nil
}

func newSolveLeastSquares(a attrReader) (kernels.Kernel, error) {
	fast, err := a.flag("fast")
	return kernels.Func(func(ctx *kernels.Context) error {
		l2 := ctx.Input(2)
		if err := args.CheckType(ctx, 2, tensor.Float64); err != nil {
			return err
		}
		if l2.Rank() != 0 {
			return status.InvalidArgumentf("l2_regularizer must be scalar, got shape %v", l2.Shape())
		}
		weight := tensor.Of[float64](l2)[0]
		if weight < 0 {
			return status.InvalidArgumentf("l2_regularizer must be >= 0.")
		}
		l := linalg{inputs: 2, check: system, run: leastSquares(fast, weight), results: func(in []tensor.Shape) []result {
			return []result{{shape: tensor.Shape{in[0][1], in[1][1]}}}
		}}
		return l.Compute(ctx)
	}), err
}

func newQr(a attrReader) (kernels.Kernel, error) {
	full, err := a.flag("full_matrices")
	return &linalg{inputs: 1, check: anyMatrix, run: qrFactors(full), real: &realForms{realQR[float32](full), realQR[float64](full)}, results: func(in []tensor.Shape) []result {
		m, n := in[0][0], in[0][1]
		inner := min(m, n)
		if full {
			inner = m
		}
		return []result{{shape: tensor.Shape{m, inner}}, {shape: tensor.Shape{inner, n}}}
	}}, err
}

func newSvd(a attrReader) (kernels.Kernel, error) {
	vectors, full, err := a.flags("compute_uv", "full_matrices")
	return &linalg{inputs: 1, check: anyMatrix, run: singular(vectors, full), real: &realForms{singleSVD(vectors, full), doubleSVD(vectors, full)}, results: func(in []tensor.Shape) []result {
		m, n := in[0][0], in[0][1]
		p := min(m, n)
		switch {
		case !vectors:
			return []result{{shape: tensor.Shape{p}}, {absent: true}, {absent: true}}
		case full:
			return []result{{shape: tensor.Shape{p}}, {shape: tensor.Shape{m, m}}, {shape: tensor.Shape{n, n}}}
		}
		return []result{{shape: tensor.Shape{p}}, {shape: tensor.Shape{m, p}}, {shape: tensor.Shape{n, p}}}
	}}, err
}

func newSelfAdjointEig(a attrReader) (kernels.Kernel, error) {
	vectors, err := a.flag("compute_v")
	return &linalg{inputs: 1, check: squareMatrix, run: selfAdjoint(vectors), real: &realForms{realSelfAdjoint[float32](vectors), realSelfAdjoint[float64](vectors)}, results: func(in []tensor.Shape) []result {
		return eigResults(in[0], vectors, tensor.Invalid)
	}}, err
}

// newSelfAdjointEigV1 gives eigenvalues and eigenvectors as one matrix.
func newSelfAdjointEigV1(attrReader) (kernels.Kernel, error) {
	return &linalg{inputs: 1, check: squareMatrix, run: selfAdjointJoined, results: func(in []tensor.Shape) []result {
		return []result{{shape: tensor.Shape{in[0][0] + 1, in[0][1]}}}
	}}, nil
}

func newEig(a attrReader) (kernels.Kernel, error) {
	vectors, err := a.flag("compute_v")
	out, err2 := a.c.Attrs().Type("Tout")
	dtype, err3 := a.c.Attrs().Type("T")
	want := tensor.Complex64
	if dtype == tensor.Float64 || dtype == tensor.Complex128 {
		want = tensor.Complex128
	}
	if err2 == nil && out != want {
		err2 = status.InvalidArgumentf("Invalid output dtype %d vs %d", out, want)
	}
	return &linalg{inputs: 1, check: squareMatrix, run: general(vectors), results: func(in []tensor.Shape) []result {
		return eigResults(in[0], vectors, out)
	}}, args.FirstError(err, err2, err3)
}

func newLu(a attrReader) (kernels.Kernel, error) {
	index, err := a.c.Attrs().Type("output_idx_type")
	return &linalg{inputs: 1, check: squareMatrix, run: factorLU, real: &realForms{realFactorLU[float32], realFactorLU[float64]}, results: func(in []tensor.Shape) []result {
		return []result{{shape: in[0]}, {shape: in[0][:1], dtype: index}}
	}}, err
}

func newTridiagonalSolve(a attrReader) (kernels.Kernel, error) {
	pivoting, err := a.flag("partial_pivoting")
	if perturb, have := a.c.Attrs()["perturb_singular"]; err == nil && have && perturb.GetB() {
		err = status.Unimplementedf("TridiagonalSolve with perturb_singular is not supported")
	}
	return &linalg{inputs: 2, check: tridiagonalSizes, results: sameAs(1), run: tridiagonal(pivoting)}, err
}

func newTridiagonalMatMul(attrReader) (kernels.Kernel, error) {
	return &linalg{inputs: 4, check: tridiagonalProductSizes, results: sameAs(3), run: tridiagonalProduct}, nil
}

func newBandedTriangularSolve(a attrReader) (kernels.Kernel, error) {
	lower, adjoint, err := a.flags("lower", "adjoint")
	solve := &linalg{inputs: 2, check: bandedSizes, results: sameAs(1), run: banded(lower, adjoint), broadcast: true}
	return kernels.Func(func(ctx *kernels.Context) error {
		for i := range 2 {
			if t := ctx.Input(i); t.Len() == 0 {
				return status.InvalidArgumentf("In[%d] must not be an empty tensor: shape %v", i, t.Shape())
			}
		}
		return solve.Compute(ctx)
	}), err
}

// eigResults are eigenvalues and, with vectors, eigenvectors.
func eigResults(in tensor.Shape, vectors bool, dtype tensor.DType) []result {
	if !vectors {
		return []result{{shape: in[:1], dtype: dtype}, {dtype: dtype, absent: true}}
	}
	return []result{{shape: in[:1], dtype: dtype}, {shape: in, dtype: dtype}}
}
