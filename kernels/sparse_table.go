package kernels

// The ops that store, keep and rearrange sparse tensors.
func init() {
	Register(
		Def{Op: "SerializeSparse", New: newSerializeSparse},
		Def{Op: "SerializeManySparse", New: newSerializeManySparse},
		Def{Op: "DeserializeSparse", New: newDeserializeSparse},
		Def{Op: "DeserializeManySparse", New: newDeserializeSparse},
		Def{Op: "AddSparseToTensorsMap", New: newAddSparse},
		Def{Op: "AddManySparseToTensorsMap", New: newAddManySparse},
		Def{Op: "TakeManySparseFromTensorsMap", New: newTakeManySparse},
		Def{Op: "SparseReorder", New: always(sparseReorder)},
		Def{Op: "SparseSplit", New: newSparseSplit},
		Def{Op: "SparseConcat", New: newSparseConcat},
		Def{Op: "SparseReshape", New: always(sparseReshape)},
		Def{Op: "SparseSlice", New: always(sparseSlice)},
		Def{Op: "SparseSliceGrad", Types: numbers("T"), New: always(sparseSliceGrad)},
		Def{Op: "SparseToDense", New: newSparseToDense},
	)
}
