package lookup

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addLookup(table)
	return table
}

// addLookup adds the ops on lookup tables. Each takes a resource handle (V2) or a reference to a pair of container and name, and one kernel
// serves both. As in TensorFlow, tables have kernels only for some pairs of types.
func addLookup(table *kernels.Table) {
	var (
		static = tablePairs{
			tensor.Int32:  {tensor.Float64, tensor.Float32, tensor.Int32, tensor.String},
			tensor.Int64:  {tensor.Float64, tensor.Float32, tensor.Int32, tensor.Int64, tensor.String},
			tensor.String: {tensor.Bool, tensor.Float64, tensor.Float32, tensor.Int32, tensor.Int64, tensor.String},
		}
		vectors = tablePairs{
			tensor.Int32:  {tensor.Float64, tensor.Float32, tensor.Int32},
			tensor.Int64:  {tensor.Float64, tensor.Float32, tensor.Int32, tensor.Int64, tensor.String},
			tensor.String: {tensor.Bool, tensor.Float64, tensor.Float32, tensor.Int32, tensor.Int64},
		}
		scalars = tablePairs{
			tensor.Int32:  vectors[tensor.Int32],
			tensor.Int64:  append([]tensor.DType{tensor.Variant}, vectors[tensor.Int64]...),
			tensor.String: vectors[tensor.String],
		}
		dense = tablePairs{
			tensor.Int32:  vectors[tensor.Int32],
			tensor.Int64:  {tensor.Bool, tensor.Float64, tensor.Float32, tensor.Int32, tensor.Int64, tensor.Variant},
			tensor.String: append([]tensor.DType{tensor.Resource}, vectors[tensor.String]...),
		}
	)
	op := table.Op
	op("HashTable", static.rows(newHashTable))
	op("HashTableV2", static.rows(newHashTable))
	op("AnonymousHashTable", static.rows(newHashTable))
	op("MutableHashTable", scalars.rows(newMutableHashTable))
	op("MutableHashTableV2", scalars.rows(newMutableHashTable))
	op("AnonymousMutableHashTable", scalars.rows(newMutableHashTable))
	op("MutableHashTableOfTensors", vectors.rows(newMutableHashTableOfTensors))
	op("MutableHashTableOfTensorsV2", vectors.rows(newMutableHashTableOfTensors))
	op("AnonymousMutableHashTableOfTensors", vectors.rows(newMutableHashTableOfTensors))
	op("MutableDenseHashTable", dense.rows(newMutableDenseHashTable))
	op("MutableDenseHashTableV2", dense.rows(newMutableDenseHashTable))
	op("AnonymousMutableDenseHashTable", dense.rows(newMutableDenseHashTable))

	table.Add([]kernels.Def{
		{Op: "InitializeTable", New: kernels.Always(initializeTable)},
		{Op: "InitializeTableV2", New: kernels.Always(initializeTable)},
		{Op: "InitializeTableFromTextFile", New: newInitializeFromTextFile},
		{Op: "InitializeTableFromTextFileV2", New: newInitializeFromTextFile},
		{Op: "LookupTableFind", New: kernels.Always(lookupFind)},
		{Op: "LookupTableFindV2", New: kernels.Always(lookupFind)},
		{Op: "LookupTableInsert", New: kernels.Always(lookupInsert)},
		{Op: "LookupTableInsertV2", New: kernels.Always(lookupInsert)},
		{Op: "LookupTableRemoveV2", New: kernels.Always(lookupRemove)},
		{Op: "LookupTableSize", New: kernels.Always(lookupSize)},
		{Op: "LookupTableSizeV2", New: kernels.Always(lookupSize)},
		{Op: "LookupTableExport", New: kernels.Always(lookupExport)},
		{Op: "LookupTableExportV2", New: kernels.Always(lookupExport)},
		{Op: "LookupTableImport", New: kernels.Always(lookupImport)},
		{Op: "LookupTableImportV2", New: kernels.Always(lookupImport)},
	}...)
}

// tablePairs holds the value types that each key type supports.
type tablePairs map[tensor.DType][]tensor.DType

// rows returns the rows of an op that creates a table, one for each key type.
func (p tablePairs) rows(construct func(*kernels.Construction) (any, error)) (rows []kernels.Def) {
	for _, key := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.String} {
		rows = append(rows, kernels.Def{New: construct, Types: map[string][]tensor.DType{"key_dtype": {key}, "value_dtype": p[key]}})
	}
	return rows
}
