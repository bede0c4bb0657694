package state

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// GPU rows for variables, and for the updates of values in the device's memory. The device executes work in the order of the locks: a
// kernel that changes a variable queues its work on the device before the next one sees the value.
func addStateGPU(table *kernels.Table) {
	ofDType, types := map[string][]tensor.DType{"dtype": dtypes.Variables}, map[string][]tensor.DType{"T": dtypes.Variables}
	table.Share(kernels.Sharing{Types: ofDType}, "Variable", "VariableV2", "TemporaryVariable", "VarHandleOp", "AssignVariableOp")
	table.Moving("dtype", dtypes.Updated, nil, "AssignAddVariableOp", "AssignSubVariableOp")
	table.Moving("T", dtypes.Updated, nil, "AssignAdd", "AssignSub")
	table.Share(kernels.Sharing{Types: types}, "Assign", "DestroyTemporaryVariable")
	table.Share(kernels.Sharing{HostOutputs: []string{kernels.Everything}}, "IsVariableInitialized", "VarIsInitializedOp", "VariableShape")
	table.Share(kernels.Sharing{}, "ReadVariableOp", "DestroyResourceOp", "DisableCopyOnRead")

	// Several updates of one element are applied in any order, and indices that are out of range are ignored, as in TensorFlow's GPU
	// kernels.
	adding := slices.DeleteFunc(slices.Clone(update.Scattered), func(d tensor.DType) bool { return d == tensor.Int32 })
	table.Moving("T", dtypes.Variables, nil, "ScatterUpdate")
	table.Moving("dtype", dtypes.Variables, nil, "ResourceScatterUpdate")
	table.Moving("T", adding, nil, "ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterMin", "ScatterMax")
	table.Moving("dtype", adding, nil, "ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterMul", "ResourceScatterDiv", "ResourceScatterMin", "ResourceScatterMax")
}
