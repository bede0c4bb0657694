package sparse

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addSparse(table)
	return table
}

// The ops that store, keep and rearrange sparse tensors.
func addSparse(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "SerializeSparse", New: newSerializeSparse},
		{Op: "SerializeManySparse", New: newSerializeManySparse},
		{Op: "DeserializeSparse", New: newDeserializeSparse},
		{Op: "DeserializeManySparse", New: newDeserializeSparse},
		{Op: "AddSparseToTensorsMap", New: newAddSparse},
		{Op: "AddManySparseToTensorsMap", New: newAddManySparse},
		{Op: "TakeManySparseFromTensorsMap", New: newTakeManySparse},
		{Op: "SparseReorder", New: kernels.Always(sparseReorder)},
		{Op: "SparseSplit", New: newSparseSplit},
		{Op: "SparseConcat", New: newSparseConcat},
		{Op: "SparseReshape", New: kernels.Always(sparseReshape)},
		{Op: "SparseSlice", New: kernels.Always(sparseSlice)},
		{Op: "SparseSliceGrad", Types: dtypes.Numbers("T"), New: kernels.Always(sparseSliceGrad)},
		{Op: "SparseFillEmptyRows", New: kernels.Always(fillEmptyRows)},
		{Op: "SparseFillEmptyRowsGrad", Types: dtypes.Numbers("T"), New: kernels.Always(fillEmptyRowsGrad)},
		{Op: "SparseToDense", New: newSparseToDense},
	}...)
}
