package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

var (
	linalgReal    = []tensor.DType{tensor.Float32, tensor.Float64}
	linalgComplex = []tensor.DType{tensor.Complex64, tensor.Complex128}
)

// sameAs makes results of one output with the sizes of input i.
func sameAs(i int) func(in []tensor.Shape) []result {
	return func(in []tensor.Shape) []result { return []result{{shape: in[i]}} }
}

// linalgOp registers an op for the real and complex types, the halves too where they are named.
func linalgOp(op string, halfToo []tensor.DType, make func(a attrReader) (Kernel, error)) {
	construct := func(c *Construction) (any, error) {
		return make(attrReader{c})
	}
	for _, types := range [][]tensor.DType{linalgReal, linalgComplex} {
		Register(Def{Op: op, Types: map[string][]tensor.DType{"T": types}, Expensive: true, New: construct})
	}
	for _, half := range halfToo {
		Register(Def{Op: op, Types: map[string][]tensor.DType{"T": {half}}, Expensive: true, New: halves(half, construct)})
	}
}

// attrReader reads boolean attributes.
type attrReader struct{ c *Construction }

func (a attrReader) flag(name string) (bool, error) { return a.c.Attrs().Bool(name) }

// flags reads two.
func (a attrReader) flags(first, second string) (x, y bool, err error) {
	x, err1 := a.flag(first)
	y, err2 := a.flag(second)
	return x, y, firstError(err1, err2)
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

func init() {
	half := []tensor.DType{tensor.Float16}
	for _, op := range []string{"Cholesky", "BatchCholesky"} {
		linalgOp(op, half, func(attrReader) (Kernel, error) {
			return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: choleskyFactor}, nil
		})
	}
	for _, op := range []string{"MatrixInverse", "BatchMatrixInverse"} {
		linalgOp(op, half, func(a attrReader) (Kernel, error) {
			adjoint, err := a.flag("adjoint")
			return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: inverter(adjoint)}, err
		})
	}
	for _, op := range []string{"MatrixSolve", "BatchMatrixSolve"} {
		linalgOp(op, nil, func(a attrReader) (Kernel, error) {
			adjoint, err := a.flag("adjoint")
			return &linalg{inputs: 2, check: squareSystem, results: sameAs(1), run: solver(adjoint)}, err
		})
	}
	for _, op := range []string{"MatrixTriangularSolve", "BatchMatrixTriangularSolve"} {
		linalgOp(op, halfTypes, func(a attrReader) (Kernel, error) {
			lower, adjoint, err := a.flags("lower", "adjoint")
			return &linalg{inputs: 2, check: triangularSizes, results: sameAs(1), run: triangularSolver(lower, adjoint), broadcast: op == "MatrixTriangularSolve"}, err
		})
	}
	for _, op := range []string{"MatrixDeterminant", "BatchMatrixDeterminant"} {
		linalgOp(op, half, func(attrReader) (Kernel, error) {
			return &linalg{inputs: 1, check: squareMatrix, run: determinant, results: func([]tensor.Shape) []result { return []result{{}} }}, nil
		})
	}
	linalgOp("LogMatrixDeterminant", half, func(attrReader) (Kernel, error) {
		return &linalg{inputs: 1, check: squareMatrix, run: signAndLogDeterminant, results: func([]tensor.Shape) []result { return []result{{}, {}} }}, nil
	})
	linalgOp("MatrixSolveLs", nil, func(a attrReader) (Kernel, error) {
		fast, err := a.flag("fast")
		return Func(func(ctx *Context) error {
			l2 := ctx.Input(2)
			if err := checkType(ctx, 2, tensor.Float64); err != nil {
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
	})
	linalgOp("Qr", half, func(a attrReader) (Kernel, error) {
		full, err := a.flag("full_matrices")
		return &linalg{inputs: 1, check: anyMatrix, run: qrFactors(full), results: func(in []tensor.Shape) []result {
			m, n := in[0][0], in[0][1]
			inner := min(m, n)
			if full {
				inner = m
			}
			return []result{{shape: tensor.Shape{m, inner}}, {shape: tensor.Shape{inner, n}}}
		}}, err
	})
	linalgOp("Svd", half, func(a attrReader) (Kernel, error) {
		vectors, full, err := a.flags("compute_uv", "full_matrices")
		return &linalg{inputs: 1, check: anyMatrix, run: singular(vectors, full), results: func(in []tensor.Shape) []result {
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
	})
	linalgOp("SelfAdjointEigV2", half, func(a attrReader) (Kernel, error) {
		vectors, err := a.flag("compute_v")
		return &linalg{inputs: 1, check: squareMatrix, run: selfAdjoint(vectors), results: func(in []tensor.Shape) []result {
			return eigResults(in[0], vectors, tensor.Invalid)
		}}, err
	})
	linalgOp("Eig", nil, func(a attrReader) (Kernel, error) {
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
		}}, firstError(err, err2, err3)
	})
	linalgOp("Lu", half, func(a attrReader) (Kernel, error) {
		index, err := a.c.Attrs().Type("output_idx_type")
		return &linalg{inputs: 1, check: squareMatrix, run: factorLU, results: func(in []tensor.Shape) []result {
			return []result{{shape: in[0]}, {shape: in[0][:1], dtype: index}}
		}}, err
	})
	linalgOp("TridiagonalSolve", nil, func(a attrReader) (Kernel, error) {
		pivoting, err := a.flag("partial_pivoting")
		if perturb, have := a.c.Attrs()["perturb_singular"]; err == nil && have && perturb.GetB() {
			err = status.Unimplementedf("TridiagonalSolve with perturb_singular is not supported")
		}
		return &linalg{inputs: 2, check: tridiagonalSizes, results: sameAs(1), run: tridiagonal(pivoting)}, err
	})
	linalgOp("TridiagonalMatMul", nil, func(attrReader) (Kernel, error) {
		return &linalg{inputs: 4, check: tridiagonalProductSizes, results: sameAs(3), run: tridiagonalProduct}, nil
	})
	linalgOp("BandedTriangularSolve", nil, func(a attrReader) (Kernel, error) {
		lower, adjoint, err := a.flags("lower", "adjoint")
		solve := &linalg{inputs: 2, check: bandedSizes, results: sameAs(1), run: banded(lower, adjoint), broadcast: true}
		return Func(func(ctx *Context) error {
			for i := range 2 {
				if t := ctx.Input(i); t.Len() == 0 {
					return status.InvalidArgumentf("In[%d] must not be an empty tensor: shape %v", i, t.Shape())
				}
			}
			return solve.Compute(ctx)
		}), err
	})
}

// eigResults are eigenvalues and, with vectors, eigenvectors.
func eigResults(in tensor.Shape, vectors bool, dtype tensor.DType) []result {
	if !vectors {
		return []result{{shape: in[:1], dtype: dtype}, {dtype: dtype, absent: true}}
	}
	return []result{{shape: in[:1], dtype: dtype}, {shape: in, dtype: dtype}}
}
