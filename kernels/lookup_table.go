package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The ops on lookup tables. Each takes a resource handle (V2) or a reference to a pair of container
// and name, and one kernel serves both. Like TensorFlow, tables have kernels for some pairs of types alone.
func init() {
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
	registerTable(static, newHashTable, "HashTable", "HashTableV2", "AnonymousHashTable")
	registerTable(scalars, newMutableHashTable, "MutableHashTable", "MutableHashTableV2", "AnonymousMutableHashTable")
	registerTable(vectors, newMutableHashTableOfTensors, "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", "AnonymousMutableHashTableOfTensors")
	registerTable(dense, newMutableDenseHashTable, "MutableDenseHashTable", "MutableDenseHashTableV2", "AnonymousMutableDenseHashTable")

	Register(
		Def{Op: "InitializeTable", New: always(initializeTable)},
		Def{Op: "InitializeTableV2", New: always(initializeTable)},
		Def{Op: "InitializeTableFromTextFile", New: newInitializeFromTextFile},
		Def{Op: "InitializeTableFromTextFileV2", New: newInitializeFromTextFile},
		Def{Op: "LookupTableFind", New: always(lookupFind)},
		Def{Op: "LookupTableFindV2", New: always(lookupFind)},
		Def{Op: "LookupTableInsert", New: always(lookupInsert)},
		Def{Op: "LookupTableInsertV2", New: always(lookupInsert)},
		Def{Op: "LookupTableRemoveV2", New: always(lookupRemove)},
		Def{Op: "LookupTableSize", New: always(lookupSize)},
		Def{Op: "LookupTableSizeV2", New: always(lookupSize)},
		Def{Op: "LookupTableExport", New: always(lookupExport)},
		Def{Op: "LookupTableExportV2", New: always(lookupExport)},
		Def{Op: "LookupTableImport", New: always(lookupImport)},
		Def{Op: "LookupTableImportV2", New: always(lookupImport)},
	)
}

// tablePairs tells which value types go with a key type.
type tablePairs map[tensor.DType][]tensor.DType

func registerTable(pairs tablePairs, constructor func(*Construction) (any, error), ops ...string) {
	for _, op := range ops {
		for _, key := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.String} {
			Register(Def{Op: op, New: constructor, Types: map[string][]tensor.DType{"key_dtype": {key}, "value_dtype": pairs[key]}})
		}
	}
}
