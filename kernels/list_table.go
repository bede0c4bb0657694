package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The ops on lists of tensors and on optional tensors, which functional loops and conditionals use
// for TensorArrays and for what their gradients need of each iteration and each branch.
func init() {
	Register(
		Def{Op: "EmptyTensorList", New: listOp(emptyTensorList)},
		Def{Op: "TensorListReserve", New: listOp(tensorListReserve)},
		Def{Op: "TensorListPushBack", New: listOp(tensorListPushBack)},
		Def{Op: "TensorListPushBackBatch", New: listOp(tensorListPushBackBatch)},
		Def{Op: "TensorListPopBack", New: listOp(tensorListPopBack)},
		Def{Op: "TensorListLength", New: always(tensorListLength)},
		Def{Op: "TensorListElementShape", New: newTensorListElementShape},
		Def{Op: "TensorListResize", New: always(tensorListResize)},
		Def{Op: "TensorListGetItem", New: listOp(tensorListGetItem)},
		Def{Op: "TensorListSetItem", New: newTensorListSetItem},
		Def{Op: "TensorListStack", New: newTensorListStack},
		Def{Op: "TensorListGather", New: listOp(tensorListGather)},
		Def{Op: "TensorListFromTensor", New: listOp(tensorListFromTensor)},
		Def{Op: "TensorListScatter", New: listOp(tensorListScatter)},
		Def{Op: "TensorListScatterV2", New: listOp(tensorListScatter)},
		Def{Op: "TensorListScatterIntoExistingList", New: listOp(tensorListScatterInto)},
		Def{Op: "TensorListConcat", New: listOp(tensorListConcat)},
		Def{Op: "TensorListConcatV2", New: listOp(tensorListConcat)},
		Def{Op: "TensorListConcatLists", New: listOp(tensorListConcatLists)},
		Def{Op: "TensorListSplit", New: listOp(tensorListSplit)},

		Def{Op: "OptionalFromValue", New: always(optionalFromValue)},
		Def{Op: "OptionalNone", New: always(optionalNone)},
		Def{Op: "OptionalHasValue", New: always(optionalHasValue)},
		Def{Op: "OptionalGetValue", New: newOptionalGetValue},
		Def{Op: "AddN", Types: only("T", tensor.Variant), New: always(variantAddN)},
	)
}
