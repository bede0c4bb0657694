package csr

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// number is the element types of sparse matrices.
type number interface {
	float32 | float64 | complex64 | complex128
}

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	op := table.Op
	op("DenseToCSRSparseMatrix", anyNumber("T", denseToCSR))
	op("SparseTensorToCSRSparseMatrix", anyNumber("T", sparseToCSR))
	op("CSRSparseMatrixToDense", anyNumber("type", csrToDense))
	op("CSRSparseMatrixToSparseTensor", anyNumber("type", csrToSparse))
	op("CSRSparseMatrixComponents", anyNumber("type", components))
	op("SparseMatrixNNZ", []kernels.Def{{New: kernels.Always(countElements)}})
	op("SparseMatrixTranspose", of("type", newTranspose[float32]), of("type", newTranspose[float64]), of("type", newTranspose[complex64]), of("type", newTranspose[complex128]))
	op("Conj", []kernels.Def{{Types: dtypes.Only("T", tensor.Variant), New: kernels.Always(conjugated)}})
	op("SparseMatrixMatMul", of("T", newProduct[float32]), of("T", newProduct[float64]), of("T", newProduct[complex64]), of("T", newProduct[complex128]))
	op("SparseMatrixSparseMatMul", of("type", newSparseProduct[float32]), of("type", newSparseProduct[float64]), of("type", newSparseProduct[complex64]), of("type", newSparseProduct[complex128]))
	op("SparseMatrixOrderingAMD", []kernels.Def{{Expensive: true, New: kernels.Always(order)}})
	op("SparseMatrixSparseCholesky", anyNumber("type", cholesky))
	return table
}

// anyNumber returns a row for all element types.
func anyNumber(attr string, f kernels.Func) []kernels.Def {
	types := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Complex64, tensor.Complex128}
	return []kernels.Def{{Types: map[string][]tensor.DType{attr: types}, Expensive: true, New: kernels.Always(f)}}
}

// of returns a row for one element type.
func of[T number](attr string, construct func(*kernels.Construction) (typed[T], error)) []kernels.Def {
	return []kernels.Def{{Types: dtypes.Only(attr, element.DTypeOf[T]()), Expensive: true, New: func(c *kernels.Construction) (any, error) {
		f, err := construct(c)
		return kernels.Func(f), err
	}}}
}

// typed is a kernel for elements of type T.
type typed[T number] func(ctx *kernels.Context) error
