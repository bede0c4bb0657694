package kernels

// The ops on maps of tensors, and on composite tensors (sparse, ragged and the like) that became one
// element.
func init() {
	Register(
		Def{Op: "EmptyTensorMap", New: always(emptyTensorMap)},
		Def{Op: "TensorMapSize", New: always(tensorMapSize)},
		Def{Op: "TensorMapLookup", New: always(tensorMapLookup)},
		Def{Op: "TensorMapInsert", New: always(tensorMapInsert)},
		Def{Op: "TensorMapErase", New: always(tensorMapErase)},
		Def{Op: "TensorMapHasKey", New: always(tensorMapHasKey)},
		Def{Op: "TensorMapStackKeys", New: newTensorMapStackKeys},

		Def{Op: "CompositeTensorVariantFromComponents", New: newCompositeFromComponents},
		Def{Op: "CompositeTensorVariantToComponents", New: newCompositeToComponents},
	)
}
