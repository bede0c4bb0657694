package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// A GPU's rows of variables, the stacks and arrays of loops, and what their kernels do to values in
// the device's memory. Their order of work is that of the locks: who has changed a variable has put
// the work into the device's order before the next one sees the value.
func init() {
	dtypes, types := map[string][]tensor.DType{"dtype": variableTypes}, map[string][]tensor.DType{"T": variableTypes}
	share(sharing{types: dtypes}, "Variable", "VariableV2", "TemporaryVariable", "VarHandleOp", "AssignVariableOp",
		"ResourceGather", "ResourceGatherNd")
	moving("dtype", updatedTypes, nil, "AssignAddVariableOp", "AssignSubVariableOp")
	moving("T", updatedTypes, nil, "AssignAdd", "AssignSub")
	share(sharing{types: types}, "Assign", "DestroyTemporaryVariable")
	share(sharing{hostOutputs: names(everything)}, "IsVariableInitialized", "VarIsInitializedOp", "VariableShape")
	share(sharing{}, "ReadVariableOp", "DestroyResourceOp", "DisableCopyOnRead")

	// Several updates of one element come in any order, and indices that are out of range are left out,
	// as with TensorFlow's GPU kernels.
	adding := slices.DeleteFunc(slices.Clone(scattered), func(d tensor.DType) bool { return d == tensor.Int32 })
	moving("T", variableTypes, nil, "ScatterUpdate", "ScatterNdUpdate", "ResourceScatterNdUpdate")
	moving("dtype", variableTypes, nil, "ResourceScatterUpdate")
	moving("T", adding, nil, "ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterMin", "ScatterMax",
		"ScatterNdAdd", "ScatterNdSub", "ScatterNdMin", "ScatterNdMax",
		"ResourceScatterNdAdd", "ResourceScatterNdSub", "ResourceScatterNdMin", "ResourceScatterNdMax")
	moving("dtype", adding, nil, "ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterMul", "ResourceScatterDiv", "ResourceScatterMin", "ResourceScatterMax")
	moving("T", variableTypes, names("begin", "end", "strides"), "StridedSliceAssign", "ResourceStridedSliceAssign")

	// The stacks and arrays of loops keep values where they are.
	onHost("", nil, "Stack", "StackV2", "StackClose", "StackCloseV2", "TensorArrayCloseV3")
	passing("T", names("handle"), nil, "StackPush", "StackPushV2")
	passing("elem_type", names("handle"), nil, "StackPop", "StackPopV2")
	share(sharing{hostInputs: names("size"), hostOutputs: names("handle")}, "TensorArrayV3")
	share(sharing{hostInputs: names("handle"), hostOutputs: names("grad_handle")}, "TensorArrayGradV3")
	share(sharing{hostInputs: names("handle", "shape_to_prepend"), hostOutputs: names("grad_handle")}, "TensorArrayGradWithShape")
	share(sharing{hostInputs: names("handle"), hostOutputs: names("size")}, "TensorArraySizeV3")
	arrayWriter(names("handle", "index"), "TensorArrayWriteV3")
	arrayWriter(names("handle", "indices"), "TensorArrayScatterV3")
	arrayWriter(names("handle", "lengths"), "TensorArraySplitV3")
	arrayReading(names("handle", "index"), nil, "TensorArrayReadV3")
	arrayReading(names("handle", "indices"), nil, "TensorArrayGatherV3")
	arrayReading(names("handle"), names("lengths"), "TensorArrayConcatV3")
}

// updatedTypes are those of variables that are added to.
var updatedTypes = slices.DeleteFunc(slices.Clone(variableTypes), func(d tensor.DType) bool { return d == tensor.Bool })

// arrayWriter makes the rows of an op that puts values into arrays: those of int32 come from the host,
// the flow never does.
func arrayWriter(hostInputs []string, op string) {
	share(sharing{types: map[string][]tensor.DType{"T": besideInt32}, hostInputs: hostInputs}, op)
	share(sharing{types: map[string][]tensor.DType{"T": justInt32}, hostInputs: append(hostInputs, "value")}, op)
}

// arrayReading makes the rows of an op that takes values out of arrays.
func arrayReading(hostInputs, hostOutputs []string, op string) {
	share(sharing{types: map[string][]tensor.DType{"dtype": besideInt32}, hostInputs: hostInputs, hostOutputs: hostOutputs}, op)
	share(sharing{types: map[string][]tensor.DType{"dtype": justInt32}, hostInputs: hostInputs, hostOutputs: append(hostOutputs, "value")}, op)
}

// memoryFor is where values of a type lie that a device keeps: as its rows say, int32 is the host's, too.
func memoryFor(ctx *Context, dtype tensor.DType) tensor.Memory {
	if dtype == tensor.Int32 || dtype.Size() == 0 {
		return ctx.Device.Pool()
	}
	return ctx.Device.Memory()
}

// zeros makes a tensor of zeros.
func zeros(ctx *Context, memory tensor.Memory, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	t, err := memory.New(dtype, shape)
	if err == nil {
		zero(ctx, t)
	}
	return t, err
}

// copyAll copies all elements, of fixed size, from one tensor to another in the same memory.
func copyAll(ctx *Context, dst, src *tensor.Tensor) {
	switch {
	case src.OnHost():
		copy(dst.Data(), src.Data())
	case src.Len() > 0:
		accelerator(ctx.Device).Copy(ctx, dst, src)
	}
}

// updateAllOn is updateAll in a device's memory, for adding and subtracting.
func updateAllOn(ctx *Context, op updateOp, next, old, value *tensor.Tensor) {
	name, n := "update_add_", old.Len()
	if op == updateSub {
		name = "update_sub_"
	}
	if n == 0 {
		return
	}
	var suffix string
	switch d := old.DType(); {
	case d == tensor.Complex64:
		suffix, n = "f32", 2*n // real and imaginary parts
	case d == tensor.Complex128:
		suffix, n = "f64", 2*n
	case d.IsFloating():
		suffix = suffixes[d]
	default:
		suffix = sizeSuffix(d)
	}
	a := accelerator(ctx.Device)
	a.Launch(ctx, elementwise(a, name+suffix, (old.DataSize()+15)/16, next.Address(), old.Address(), value.Address(), uint64(n)))
}
