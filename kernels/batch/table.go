package batch

import (
	"github.com/troupe-run/troupe/kernels"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addBatch(table)
	return table
}

// Ops that gather the work of concurrent steps into batches and return each step its part of the results.
func addBatch(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Batch", New: newBatch},
		{Op: "BatchFunction", New: newBatchFunction},
		{Op: "Unbatch", New: newUnbatch},
		{Op: "UnbatchGrad", New: newUnbatchGrad},
	}...)
}
