package linalg

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	op := table.Op
	op("MatMul", matmulRows(oneMatrix, "transpose_a", "transpose_b"))
	op("SparseMatMul", sparseMatMulRows())
	op("BatchMatMul", matmulRows(equalBatch, "adj_x", "adj_y"))
	op("BatchMatMulV2", matmulRows(stretchBatch, "adj_x", "adj_y"))
	op("BatchMatMulV3", matmulV3Rows())
	op("Einsum", einsum(simd.Gemm), einsum(simd.Gemm64), einsum(simd.GemmInt32), einsum(gemm.Portable[int64]),
		einsum(gemm.Portable[complex64]), einsum(gemm.Portable[complex128]))
	op("Cross", cross[float32](), cross[float64](), cross[int8](), cross[int16](), cross[int32](), cross[int64](), cross[uint8](), cross[uint16](), cross[uint32](), cross[uint64]())

	op("Cholesky", linalgRows(newCholesky, tensor.Float16))
	op("BatchCholesky", linalgRows(newCholesky, tensor.Float16))
	op("CholeskyGrad", linalgOf(linalgReal, newCholeskyGrad))
	op("BatchCholeskyGrad", linalgOf(linalgReal, newCholeskyGrad))
	op("MatrixExponential", linalgRows(newExponential))
	op("MatrixLogarithm", linalgOf(linalgComplex, newLogarithm))
	op("MatrixSquareRoot", linalgRows(newSquareRoot))
	op("MatrixInverse", linalgRows(newInverse, tensor.Float16))
	op("BatchMatrixInverse", linalgRows(newInverse, tensor.Float16))
	op("MatrixSolve", linalgRows(newSolve))
	op("BatchMatrixSolve", linalgRows(newSolve))
	op("MatrixTriangularSolve", linalgRows(newTriangularSolve(true), halves.Types...))
	op("BatchMatrixTriangularSolve", linalgRows(newTriangularSolve(true), halves.Types...))
	op("MatrixDeterminant", linalgRows(newMatrixDeterminant, tensor.Float16))
	op("BatchMatrixDeterminant", linalgRows(newMatrixDeterminant, tensor.Float16))
	op("LogMatrixDeterminant", linalgRows(newLogDeterminant, tensor.Float16))
	op("MatrixSolveLs", linalgRows(newSolveLeastSquares))
	op("BatchMatrixSolveLs", linalgRows(newSolveLeastSquares))
	op("Qr", linalgRows(newQr, tensor.Float16))
	op("Svd", linalgRows(newSvd, tensor.Float16))
	op("BatchSvd", linalgRows(newSvd))
	op("SelfAdjointEig", linalgOf(linalgReal, newSelfAdjointEigV1))
	op("BatchSelfAdjointEig", linalgOf(linalgReal, newSelfAdjointEigV1))
	op("SelfAdjointEigV2", linalgRows(newSelfAdjointEig, tensor.Float16))
	op("BatchSelfAdjointEigV2", linalgOf(linalgReal, newSelfAdjointEig))
	op("Eig", linalgRows(newEig))
	op("Lu", linalgRows(newLu, tensor.Float16))
	op("TridiagonalSolve", linalgRows(newTridiagonalSolve))
	op("TridiagonalMatMul", linalgRows(newTridiagonalMatMul))
	op("BandedTriangularSolve", linalgRows(newBandedTriangularSolve))
	addMatmulGPU(table)
	return table
}
