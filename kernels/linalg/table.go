package linalg

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addCross(table)
	addEinsum(table)
	addLinalg(table)
	addMatmul(table)
	addMatmulGPU(table)
	return table
}

func addCross(table *kernels.Table) {
	crossRows[float32](table)
	crossRows[float64](table)
	crossRows[int8](table)
	crossRows[int16](table)
	crossRows[int32](table)
	crossRows[int64](table)
	crossRows[uint8](table)
	crossRows[uint16](table)
	crossRows[uint32](table)
	crossRows[uint64](table)
}

func addEinsum(table *kernels.Table) {
	einsumRows(table, simd.Gemm)
	einsumRows(table, gemm.Portable[float64])
	einsumRows(table, gemm.Portable[int32])
	einsumRows(table, gemm.Portable[int64])
	einsumRows(table, gemm.Portable[complex64])
	einsumRows(table, gemm.Portable[complex128])
}

var (
	linalgReal    = []tensor.DType{tensor.Float32, tensor.Float64}
	linalgComplex = []tensor.DType{tensor.Complex64, tensor.Complex128}
)

// sameAs makes results of one output with the sizes of input i.
func sameAs(i int) func(in []tensor.Shape) []result {
	return func(in []tensor.Shape) []result { return []result{{shape: in[i]}} }
}

// linalgOp registers an op for the real and complex types, the halves too where they are named.
func linalgOp(table *kernels.Table, op string, halfToo []tensor.DType, make func(a attrReader) (kernels.Kernel, error)) {
	construct := func(c *kernels.Construction) (any, error) {
		return make(attrReader{c})
	}
	for _, types := range [][]tensor.DType{linalgReal, linalgComplex} {
		table.Add(kernels.Def{Op: op, Types: map[string][]tensor.DType{"T": types}, Expensive: true, New: construct})
	}
	for _, half := range halfToo {
		table.Add(kernels.Def{Op: op, Types: map[string][]tensor.DType{"T": {half}}, Expensive: true, New: halves.Constructor(half, construct)})
	}
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

func addLinalg(table *kernels.Table) {
	half := []tensor.DType{tensor.Float16}
	for _, op := range []string{"Cholesky", "BatchCholesky"} {
		linalgOp(table, op, half, func(attrReader) (kernels.Kernel, error) {
			return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: choleskyFactor}, nil
		})
	}
	for _, op := range []string{"MatrixInverse", "BatchMatrixInverse"} {
		linalgOp(table, op, half, func(a attrReader) (kernels.Kernel, error) {
			adjoint, err := a.flag("adjoint")
			return &linalg{inputs: 1, check: squareMatrix, results: sameAs(0), run: inverter(adjoint)}, err
		})
	}
	for _, op := range []string{"MatrixSolve", "BatchMatrixSolve"} {
		linalgOp(table, op, nil, func(a attrReader) (kernels.Kernel, error) {
			adjoint, err := a.flag("adjoint")
			return &linalg{inputs: 2, check: squareSystem, results: sameAs(1), run: solver(adjoint)}, err
		})
	}
	for _, op := range []string{"MatrixTriangularSolve", "BatchMatrixTriangularSolve"} {
		linalgOp(table, op, halves.Types, func(a attrReader) (kernels.Kernel, error) {
			lower, adjoint, err := a.flags("lower", "adjoint")
			return &linalg{inputs: 2, check: triangularSizes, results: sameAs(1), run: triangularSolver(lower, adjoint), broadcast: op == "MatrixTriangularSolve"}, err
		})
	}
	for _, op := range []string{"MatrixDeterminant", "BatchMatrixDeterminant"} {
		linalgOp(table, op, half, func(attrReader) (kernels.Kernel, error) {
			return &linalg{inputs: 1, check: squareMatrix, run: determinant, results: func([]tensor.Shape) []result { return []result{{}} }}, nil
		})
	}
	linalgOp(table, "LogMatrixDeterminant", half, func(attrReader) (kernels.Kernel, error) {
		return &linalg{inputs: 1, check: squareMatrix, run: signAndLogDeterminant, results: func([]tensor.Shape) []result { return []result{{}, {}} }}, nil
	})
	linalgOp(table, "MatrixSolveLs", nil, func(a attrReader) (kernels.Kernel, error) {
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
	})
	linalgOp(table, "Qr", half, func(a attrReader) (kernels.Kernel, error) {
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
	linalgOp(table, "Svd", half, func(a attrReader) (kernels.Kernel, error) {
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
	linalgOp(table, "SelfAdjointEigV2", half, func(a attrReader) (kernels.Kernel, error) {
		vectors, err := a.flag("compute_v")
		return &linalg{inputs: 1, check: squareMatrix, run: selfAdjoint(vectors), results: func(in []tensor.Shape) []result {
			return eigResults(in[0], vectors, tensor.Invalid)
		}}, err
	})
	linalgOp(table, "Eig", nil, func(a attrReader) (kernels.Kernel, error) {
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
	})
	linalgOp(table, "Lu", half, func(a attrReader) (kernels.Kernel, error) {
		index, err := a.c.Attrs().Type("output_idx_type")
		return &linalg{inputs: 1, check: squareMatrix, run: factorLU, results: func(in []tensor.Shape) []result {
			return []result{{shape: in[0]}, {shape: in[0][:1], dtype: index}}
		}}, err
	})
	linalgOp(table, "TridiagonalSolve", nil, func(a attrReader) (kernels.Kernel, error) {
		pivoting, err := a.flag("partial_pivoting")
		if perturb, have := a.c.Attrs()["perturb_singular"]; err == nil && have && perturb.GetB() {
			err = status.Unimplementedf("TridiagonalSolve with perturb_singular is not supported")
		}
		return &linalg{inputs: 2, check: tridiagonalSizes, results: sameAs(1), run: tridiagonal(pivoting)}, err
	})
	linalgOp(table, "TridiagonalMatMul", nil, func(attrReader) (kernels.Kernel, error) {
		return &linalg{inputs: 4, check: tridiagonalProductSizes, results: sameAs(3), run: tridiagonalProduct}, nil
	})
	linalgOp(table, "BandedTriangularSolve", nil, func(a attrReader) (kernels.Kernel, error) {
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
	})
}

// eigResults are eigenvalues and, with vectors, eigenvectors.
func eigResults(in tensor.Shape, vectors bool, dtype tensor.DType) []result {
	if !vectors {
		return []result{{shape: in[:1], dtype: dtype}, {dtype: dtype, absent: true}}
	}
	return []result{{shape: in[:1], dtype: dtype}, {shape: in, dtype: dtype}}
}

func addMatmul(table *kernels.Table) {
	entries := []matmulEntry{
		matmulOf(simd.Gemm, nil), matmulOf(gemm.Portable[float64], nil),
		matmulOf(gemm.Portable[int8], nil), matmulOf(gemm.Portable[int16], nil), matmulOf(gemm.Portable[int32], nil), matmulOf(gemm.Portable[int64], nil),
		matmulOf(gemm.Portable[uint8], nil), matmulOf(gemm.Portable[uint16], nil), matmulOf(gemm.Portable[uint32], nil), matmulOf(gemm.Portable[uint64], nil),
		matmulOf(gemm.Portable[complex64], conjugate[complex64]), matmulOf(gemm.Portable[complex128], conjugate[complex128]),
	}
	for _, half := range halves.Types {
		entries = append(entries, matmulEntry{half, func(rule matmulRule, ta, tb bool) kernels.Kernel {
			return &halves.ViaFloat{Inner: entries[0].make(rule, ta, tb), Half: half}
		}})
	}
	for _, e := range entries {
		if e.dtype == tensor.BFloat16 {
			mixedProducts(table, matmulOf(gemm.Portable[int32], nil), e)
		}
		one, all := []tensor.DType{e.dtype}, map[string][]tensor.DType{"T": {e.dtype}}
		table.Add([]kernels.Def{
			{Op: "MatMul", Types: all, Expensive: true, New: e.constructor(oneMatrix, "transpose_a", "transpose_b")},
			{Op: "BatchMatMul", Types: all, Expensive: true, New: e.constructor(equalBatch, "adj_x", "adj_y")},
			{Op: "BatchMatMulV2", Types: all, Expensive: true, New: e.constructor(stretchBatch, "adj_x", "adj_y")},
			{Op: "BatchMatMulV3", Types: map[string][]tensor.DType{"Ta": one, "Tb": one, "Tout": one}, Expensive: true, New: e.constructor(stretchBatch, "adj_x", "adj_y")},
		}...)
	}
}
