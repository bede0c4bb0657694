package ragged

import (
	"github.com/troupe-run/troupe/kernels"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addRagged(table)
	return table
}

// addRagged adds the ops on ragged tensors.
func addRagged(table *kernels.Table) {
	table.Op("RaggedRange", rangeOf(intSteps[int32]), rangeOf(intSteps[int64]), rangeOf(floatSteps[float32]), rangeOf(floatSteps[float64]))
	table.Add([]kernels.Def{
		{Op: "RaggedTensorToTensor", New: newRaggedDense},
		{Op: "RaggedTensorToSparse", New: kernels.Always(raggedToSparse)},
		{Op: "RaggedTensorToVariant", New: newRaggedToVariant},
		{Op: "RaggedTensorFromVariant", New: newRaggedFromVariant},
		{Op: "RaggedTensorToVariantGradient", New: newRaggedToVariantGrad},
		{Op: "RaggedGather", New: newRaggedGather},
	}...)
}
