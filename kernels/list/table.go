package list

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addList(table)
	addMap(table)
	return table
}

// addList adds the ops on lists of tensors and on optional tensors. Functional loops and conditionals use them for TensorArrays, and for
// the values of each iteration and branch that their gradients need.
func addList(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "EmptyTensorList", New: listOp(emptyTensorList)},
		{Op: "TensorListReserve", New: listOp(tensorListReserve)},
		{Op: "TensorListPushBack", New: listOp(tensorListPushBack)},
		{Op: "TensorListPushBackBatch", New: listOp(tensorListPushBackBatch)},
		{Op: "TensorListPopBack", New: listOp(tensorListPopBack)},
		{Op: "TensorListLength", New: kernels.Always(tensorListLength)},
		{Op: "TensorListElementShape", New: newTensorListElementShape},
		{Op: "TensorListResize", New: kernels.Always(tensorListResize)},
		{Op: "TensorListGetItem", New: listOp(tensorListGetItem)},
		{Op: "TensorListSetItem", New: newTensorListSetItem},
		{Op: "TensorListStack", New: newTensorListStack},
		{Op: "TensorListGather", New: listOp(tensorListGather)},
		{Op: "TensorListFromTensor", New: listOp(tensorListFromTensor)},
		{Op: "TensorListScatter", New: listOp(tensorListScatter)},
		{Op: "TensorListScatterV2", New: listOp(tensorListScatter)},
		{Op: "TensorListScatterIntoExistingList", New: listOp(tensorListScatterInto)},
		{Op: "TensorListConcat", New: listOp(tensorListConcat)},
		{Op: "TensorListConcatV2", New: listOp(tensorListConcat)},
		{Op: "TensorListConcatLists", New: listOp(tensorListConcatLists)},
		{Op: "TensorListSplit", New: listOp(tensorListSplit)},

		{Op: "OptionalFromValue", New: kernels.Always(optionalFromValue)},
		{Op: "OptionalNone", New: kernels.Always(optionalNone)},
		{Op: "OptionalHasValue", New: kernels.Always(optionalHasValue)},
		{Op: "OptionalGetValue", New: newOptionalGetValue},
		{Op: "AddN", Types: dtypes.Only("T", tensor.Variant), New: kernels.Always(variant.AddN)},
	}...)
}

// addMap adds the ops on maps of tensors, and on composite tensors (sparse, ragged and the like) that were packed into one element.
func addMap(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "EmptyTensorMap", New: kernels.Always(emptyTensorMap)},
		{Op: "TensorMapSize", New: kernels.Always(tensorMapSize)},
		{Op: "TensorMapLookup", New: kernels.Always(tensorMapLookup)},
		{Op: "TensorMapInsert", New: kernels.Always(tensorMapInsert)},
		{Op: "TensorMapErase", New: kernels.Always(tensorMapErase)},
		{Op: "TensorMapHasKey", New: kernels.Always(tensorMapHasKey)},
		{Op: "TensorMapStackKeys", New: newTensorMapStackKeys},

		{Op: "CompositeTensorVariantFromComponents", New: newCompositeFromComponents},
		{Op: "CompositeTensorVariantToComponents", New: newCompositeToComponents},
	}...)
}
