package ragged

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addRagged(table)
	return table
}

// The ops on ragged tensors.
func addRagged(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "RaggedRange", Types: dtypes.Only("T", tensor.Int32), New: raggedRange[int32]},
		{Op: "RaggedRange", Types: dtypes.Only("T", tensor.Int64), New: raggedRange[int64]},
		{Op: "RaggedRange", Types: dtypes.Only("T", tensor.Float32), New: raggedRange[float32]},
		{Op: "RaggedRange", Types: dtypes.Only("T", tensor.Float64), New: raggedRange[float64]},
		{Op: "RaggedTensorToTensor", New: newRaggedDense},
		{Op: "RaggedTensorToSparse", New: kernels.Always(raggedToSparse)},
		{Op: "RaggedTensorToVariant", New: newRaggedToVariant},
		{Op: "RaggedTensorFromVariant", New: newRaggedFromVariant},
		{Op: "RaggedTensorToVariantGradient", New: newRaggedToVariantGrad},
		{Op: "RaggedGather", New: newRaggedGather},
	}...)
}
