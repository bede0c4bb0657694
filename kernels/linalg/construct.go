package linalg

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
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

// sameAs returns a results function for one output with the shape of input i.
func sameAs(i int) func(in []tensor.Shape) []result {
	return func(in []tensor.Shape) []result { return []result{{shape: in[i]}} }
}

// linalgRows returns the rows of an op for the real and complex types, and for the given half types.
func linalgRows(make func(a *graph.AttrReader) kernels.Kernel, halfToo ...tensor.DType) []kernels.Def {
	rows := slices.Concat(linalgOf(linalgReal, make), linalgOf(linalgComplex, make))
	for _, half := range halfToo {
		rows = append(rows, kernels.Def{Types: dtypes.Only("T", half), Expensive: true, New: halves.Constructor(half, kernels.FromAttrs(make))})
	}
	return rows
}

// linalgOf returns an op's row for the given types.
func linalgOf(types []tensor.DType, make func(a *graph.AttrReader) kernels.Kernel) []kernels.Def {
	return []kernels.Def{{Types: map[string][]tensor.DType{"T": types}, Expensive: true, New: kernels.FromAttrs(make)}}
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

func newCholesky(*graph.AttrReader) kernels.Kernel {
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: choleskyFactor, real: &realForms{realCholesky[float32], realCholesky[float64]}}
}

func newCholeskyGrad(*graph.AttrReader) kernels.Kernel {
	return &linalg{inputs: 2, check: squarePair, results: sameAs(0), run: choleskyGradient}
}

func newExponential(*graph.AttrReader) kernels.Kernel {
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: exponential, work: 8}
}

func newLogarithm(*graph.AttrReader) kernels.Kernel {
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: logarithm, work: 8}
}

func newSquareRoot(a *graph.AttrReader) kernels.Kernel {
	dtype := a.Type("T")
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: squareRoot(!dtype.IsComplex()), work: 8}
}

func newInverse(a *graph.AttrReader) kernels.Kernel {
	adjoint := a.Bool("adjoint")
	return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: inverter(adjoint), real: &realForms{realInverter[float32](adjoint), realInverter[float64](adjoint)}}
}

func newSolve(a *graph.AttrReader) kernels.Kernel {
	adjoint := a.Bool("adjoint")
	return &linalg{inputs: 2, check: squareSystem, results: sameAs(1), run: solver(adjoint), real: &realForms{realSolver[float32](adjoint), realSolver[float64](adjoint)}}
}

// newTriangularSolve returns the constructor of a triangular solve. If broadcast is set, the batches are broadcast.
func newTriangularSolve(broadcast bool) func(a *graph.AttrReader) kernels.Kernel {
	return func(a *graph.AttrReader) kernels.Kernel {
		lower, adjoint := a.Bool("lower"), a.Bool("adjoint")
		return &linalg{inputs: 2, check: triangularSizes, results: sameAs(1), run: triangularSolver(lower, adjoint), real: &realForms{realTriangularSolver[float32](lower, adjoint), realTriangularSolver[float64](lower, adjoint)}, broadcast: broadcast}
	}
}

func newMatrixDeterminant(*graph.AttrReader) kernels.Kernel {
	return &linalg{inputs: 1, check: squareMatrix, run: determinant, real: &realForms{realDeterminant[float32], realDeterminant[float64]}, results: func([]tensor.Shape) []result { return []result{{}} }}
}

func newLogDeterminant(*graph.AttrReader) kernels.Kernel {
	return &linalg{inputs: 1, check: squareMatrix, run: signAndLogDeterminant, real: &realForms{realSignAndLog[float32], realSignAndLog[float64]}, results: func([]tensor.Shape) []result { return []result{{}, {}} }}
}

func newSolveLeastSquares(a *graph.AttrReader) kernels.Kernel {
	fast := a.Bool("fast")
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
	})
}

func newQr(a *graph.AttrReader) kernels.Kernel {
	full := a.Bool("full_matrices")
	return &linalg{inputs: 1, check: anyMatrix, run: qrFactors(full), real: &realForms{realQR[float32](full), realQR[float64](full)}, results: func(in []tensor.Shape) []result {
		m, n := in[0][0], in[0][1]
		inner := min(m, n)
		if full {
			inner = m
		}
		return []result{{shape: tensor.Shape{m, inner}}, {shape: tensor.Shape{inner, n}}}
	}}
}

func newSvd(a *graph.AttrReader) kernels.Kernel {
	vectors, full := a.Bool("compute_uv"), a.Bool("full_matrices")
	return &linalg{inputs: 1, check: anyMatrix, run: singular(vectors, full), real: &realForms{realSVD[float32](vectors, full), doubleSVD(vectors, full)}, results: func(in []tensor.Shape) []result {
		m, n := in[0][0], in[0][1]
		p := min(m, n)
		switch {
		case !vectors:
			return []result{{shape: tensor.Shape{p}}, {absent: true}, {absent: true}}
		case full:
			return []result{{shape: tensor.Shape{p}}, {shape: tensor.Shape{m, m}}, {shape: tensor.Shape{n, n}}}
		}
		return []result{{shape: tensor.Shape{p}}, {shape: tensor.Shape{m, p}}, {shape: tensor.Shape{n, p}}}
	}}
}

func newSelfAdjointEig(a *graph.AttrReader) kernels.Kernel {
	vectors := a.Bool("compute_v")
	return &linalg{inputs: 1, check: squareMatrix, run: selfAdjoint(vectors), real: &realForms{realSelfAdjoint[float32](vectors), realSelfAdjoint[float64](vectors)}, results: func(in []tensor.Shape) []result {
		return eigResults(in[0], vectors, tensor.Invalid)
	}}
}

// newSelfAdjointEigV1 returns the kernel of SelfAdjointEig, whose output holds eigenvalues and eigenvectors in one matrix.
func newSelfAdjointEigV1(*graph.AttrReader) kernels.Kernel {
	return &linalg{inputs: 1, check: squareMatrix, run: selfAdjointJoined, results: func(in []tensor.Shape) []result {
		return []result{{shape: tensor.Shape{in[0][0] + 1, in[0][1]}}}
	}}
}

func newEig(a *graph.AttrReader) kernels.Kernel {
	vectors, out, dtype := a.Bool("compute_v"), a.Type("Tout"), a.Type("T")
	want := tensor.Complex64
	if dtype == tensor.Float64 || dtype == tensor.Complex128 {
		want = tensor.Complex128
	}
	if out != want {
		a.Failf("Invalid output dtype %d vs %d", out, want)
	}
	return &linalg{inputs: 1, check: squareMatrix, run: general(vectors), results: func(in []tensor.Shape) []result {
		return eigResults(in[0], vectors, out)
	}}
}

func newLu(a *graph.AttrReader) kernels.Kernel {
	index := a.Type("output_idx_type")
	return &linalg{inputs: 1, check: squareMatrix, run: factorLU, real: &realForms{realFactorLU[float32], realFactorLU[float64]}, results: func(in []tensor.Shape) []result {
		return []result{{shape: in[0]}, {shape: in[0][:1], dtype: index}}
	}}
}

func newTridiagonalSolve(a *graph.AttrReader) kernels.Kernel {
	pivoting, perturb, dtype := a.Bool("partial_pivoting"), a.Bool("perturb_singular"), a.Type("T")
	run := tridiagonal(pivoting)
	if perturb {
		if !pivoting {
			a.Failf("Setting perturb_singular requires also setting partial_pivoting.")
		}
		run = perturbedTridiagonal(precisionOf(dtype))
	}
	return &linalg{inputs: 2, check: tridiagonalSizes, results: sameAs(1), run: run}
}

func newTridiagonalMatMul(*graph.AttrReader) kernels.Kernel {
	return &linalg{inputs: 4, check: tridiagonalProductSizes, results: sameAs(3), run: tridiagonalProduct}
}

func newBandedTriangularSolve(a *graph.AttrReader) kernels.Kernel {
	lower, adjoint := a.Bool("lower"), a.Bool("adjoint")
	solve := &linalg{inputs: 2, check: bandedSizes, results: sameAs(1), run: banded(lower, adjoint), broadcast: true}
	return kernels.Func(func(ctx *kernels.Context) error {
		for i := range 2 {
			if t := ctx.Input(i); t.Len() == 0 {
				return status.InvalidArgumentf("In[%d] must not be an empty tensor: shape %v", i, t.Shape())
			}
		}
		return solve.Compute(ctx)
	})
}

// eigResults returns the outputs: eigenvalues and, if vectors is set, eigenvectors.
func eigResults(in tensor.Shape, vectors bool, dtype tensor.DType) []result {
	if !vectors {
		return []result{{shape: in[:1], dtype: dtype}, {dtype: dtype, absent: true}}
	}
	return []result{{shape: in[:1], dtype: dtype}, {shape: in, dtype: dtype}}
}
