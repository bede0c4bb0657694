package sparse

import (
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addSparse(table)
	addArithmetic(table)
	addSets(table)
	addCounts(table)
	addCrosses(table)
	addDistances(table.Op)
	return table
}

// addSparse adds the ops that store, keep and rearrange sparse tensors.
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
		{Op: "SparseFillEmptyRows", New: kernels.Always(fillEmptyRows(sparseRows))},
		{Op: "SparseFillEmptyRowsGrad", Types: dtypes.Numbers("T"), New: kernels.Always(fillEmptyRowsGrad)},
		{Op: "RaggedFillEmptyRows", New: kernels.Always(fillEmptyRows(raggedRows))},
		{Op: "RaggedFillEmptyRowsGrad", Types: dtypes.Numbers("T"), New: kernels.Always(fillEmptyRowsGrad)},
		{Op: "SparseToDense", New: newSparseToDense},
	}...)
}

func addDistances(op func(op string, sets ...[]kernels.Def)) {
	op("EditDistance", editDistances[int8](), editDistances[int16](), editDistances[int32](), editDistances[int64](),
		editDistances[uint8](), editDistances[uint16](), editDistances[uint32](), editDistances[uint64](),
		editDistances[element.Float16](), editDistances[element.BFloat16](), editDistances[float32](), editDistances[float64](),
		editDistances[complex64](), editDistances[complex128](), editDistances[bool](), editDistances[string]())
}

// addArithmetic adds the ops that compute with the values of sparse tensors.
func addArithmetic(table *kernels.Table) {
	op := adder(table)
	op("SparseTensorDenseMatMul", timesDenseRows[float32](nil), timesDenseRows[float64](nil), timesDenseRows[int32](nil), timesDenseRows(conj64), timesDenseRows(cmplx.Conj))
	op("SparseTensorDenseAdd", []kernels.Def{{Types: dtypes.Numbers("T"), New: kernels.Always(addDense)}})
	op("SparseAdd", sumRows())
	op("SparseAddGrad", sumGradRows())
	op("SparseSparseMaximum", reals(func(t numbers) []kernels.Def { return t.extremes(greatest) }))
	op("SparseSparseMinimum", reals(func(t numbers) []kernels.Def { return t.extremes(least) }))
	op("SparseDenseCwiseAdd", reals(func(t numbers) []kernels.Def { return t.withDense(plus) }))
	op("SparseDenseCwiseMul", reals(func(t numbers) []kernels.Def { return t.withDense(times) }))
	op("SparseDenseCwiseDiv", reals(func(t numbers) []kernels.Def { return t.withDense(over) }))
	op("SparseReduceSum", reals(func(t numbers) []kernels.Def { return t.reduced(plus, false) }), reduceRows(false, sumOf[complex64]), reduceRows(false, sumOf[complex128]))
	op("SparseReduceSumSparse", reals(func(t numbers) []kernels.Def { return t.reduced(plus, true) }), reduceRows(true, sumOf[complex64]), reduceRows(true, sumOf[complex128]))
	op("SparseReduceMax", reals(func(t numbers) []kernels.Def { return t.reduced(greatest, false) }))
	op("SparseReduceMaxSparse", reals(func(t numbers) []kernels.Def { return t.reduced(greatest, true) }))
	op("SparseSoftmax", softmaxRows())
}

// addSets adds the ops on sets of values that share all coordinates but the last.
func addSets(table *kernels.Table) {
	op := adder(table)
	op("DenseToDenseSetOperation", members(func(t setsOf) kernels.Def { return t.denseToDense() }))
	op("DenseToSparseSetOperation", members(func(t setsOf) kernels.Def { return t.denseToSparse() }))
	op("SparseToSparseSetOperation", members(func(t setsOf) kernels.Def { return t.sparseToSparse() }))
	op("SetSize", members(func(t setsOf) kernels.Def { return t.size() }))
}

// addCounts adds the ops that count how often numbers occur.
func addCounts(table *kernels.Table) {
	op := adder(table)
	op("DenseCountSparseOutput", countRows(denseNumbers))
	op("SparseCountSparseOutput", countRows(sparseNumbers))
	op("RaggedCountSparseOutput", countRows(raggedNumbers))
}

// addCrosses adds the ops that cross features.
func addCrosses(table *kernels.Table) {
	op := adder(table)
	op("SparseCross", crossRows(tensor.String, newSparseCrossText), crossRows(tensor.Int64, newSparseCrossHash))
	op("SparseCrossV2", []kernels.Def{{Expensive: true, New: newSparseCrossV2}})
	op("SparseCrossHashed", []kernels.Def{{Expensive: true, New: newSparseCrossHashed}})
	op("RaggedCross", raggedCrossRows(tensor.String, newRaggedCrossText), raggedCrossRows(tensor.Int64, newRaggedCrossHash))
}

// adder returns a function that adds rows to the table and sets their op.
func adder(table *kernels.Table) func(op string, rows ...[]kernels.Def) {
	return func(op string, rows ...[]kernels.Def) {
		for _, row := range slices.Concat(rows...) {
			row.Op = op
			table.Add(row)
		}
	}
}
