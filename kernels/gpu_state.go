package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// A GPU's rows of variables, and what their kernels do to values in the device's memory. Their order of work is that of the locks: who has changed a variable has put
// the work into the device's order before the next one sees the value.
func init() {
	dtypes, types := map[string][]tensor.DType{"dtype": variableTypes}, map[string][]tensor.DType{"T": variableTypes}
	share(sharing{types: dtypes}, "Variable", "VariableV2", "TemporaryVariable", "VarHandleOp", "AssignVariableOp")
	moving("dtype", updatedTypes, nil, "AssignAddVariableOp", "AssignSubVariableOp")
	moving("T", updatedTypes, nil, "AssignAdd", "AssignSub")
	share(sharing{types: types}, "Assign", "DestroyTemporaryVariable")
	share(sharing{hostOutputs: []string{everything}}, "IsVariableInitialized", "VarIsInitializedOp", "VariableShape")
	share(sharing{}, "ReadVariableOp", "DestroyResourceOp", "DisableCopyOnRead")

	// Several updates of one element come in any order, and indices that are out of range are left out,
	// as with TensorFlow's GPU kernels.
	adding := slices.DeleteFunc(slices.Clone(scattered), func(d tensor.DType) bool { return d == tensor.Int32 })
	moving("T", variableTypes, nil, "ScatterUpdate")
	moving("dtype", variableTypes, nil, "ResourceScatterUpdate")
	moving("T", adding, nil, "ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterMin", "ScatterMax")
	moving("dtype", adding, nil, "ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterMul", "ResourceScatterDiv", "ResourceScatterMin", "ResourceScatterMax")
}

// updatedTypes are those of variables that are added to.
var updatedTypes = slices.DeleteFunc(slices.Clone(variableTypes), func(d tensor.DType) bool { return d == tensor.Bool })

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
