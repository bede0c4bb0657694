package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The ops on variables, by reference and by handle.
func init() {
	Register(
		Def{Op: "Variable", New: newRefVariable},
		Def{Op: "VariableV2", New: newRefVariable},
		Def{Op: "TemporaryVariable", New: newTemporaryVariable},
		Def{Op: "DestroyTemporaryVariable", New: newDestroyTemporaryVariable, UninitializedOK: true},
		Def{Op: "IsVariableInitialized", New: always(isVariableInitialized), UninitializedOK: true},
		Def{Op: "Assign", New: newAssign, UninitializedOK: true},
		Def{Op: "AssignAdd", Types: numbers("T"), New: refUpdate(updateAdd)},
		Def{Op: "AssignSub", Types: numbers("T"), New: refUpdate(updateSub)},
		Def{Op: "CountUpTo", Types: counters, New: newCountUpTo(refOf)},

		Def{Op: "VarHandleOp", New: newVarHandle},
		Def{Op: "ReadVariableOp", New: newReadVariable},
		Def{Op: "AssignVariableOp", New: newAssignVariable},
		Def{Op: "AssignAddVariableOp", Types: numbers("dtype"), New: assignUpdate(updateAdd)},
		Def{Op: "AssignSubVariableOp", Types: numbers("dtype"), New: assignUpdate(updateSub)},
		Def{Op: "VarIsInitializedOp", New: always(varIsInitialized)},
		Def{Op: "VariableShape", New: newVariableShape},
		Def{Op: "DestroyResourceOp", New: newDestroyResource},
		Def{Op: "DisableCopyOnRead", New: always(disableCopyOnRead)},
		Def{Op: "ResourceCountUpTo", Types: counters, New: newCountUpTo(resourceOf)},

		Def{Op: "ScatterUpdate", New: scatterRef(updateSet)},
		Def{Op: "ScatterAdd", Types: numbers("T"), New: scatterRef(updateAdd)},
		Def{Op: "ScatterSub", Types: numbers("T"), New: scatterRef(updateSub)},
		Def{Op: "ScatterMul", Types: numbers("T"), New: scatterRef(updateMul)},
		Def{Op: "ScatterDiv", Types: numbers("T"), New: scatterRef(updateDiv)},
		Def{Op: "ScatterMin", Types: reals("T"), New: scatterRef(updateMin)},
		Def{Op: "ScatterMax", Types: reals("T"), New: scatterRef(updateMax)},
		Def{Op: "ResourceScatterUpdate", New: scatterVariable(updateSet)},
		Def{Op: "ResourceScatterAdd", Types: numbers("dtype"), New: scatterVariable(updateAdd)},
		Def{Op: "ResourceScatterSub", Types: numbers("dtype"), New: scatterVariable(updateSub)},
		Def{Op: "ResourceScatterMul", Types: numbers("dtype"), New: scatterVariable(updateMul)},
		Def{Op: "ResourceScatterDiv", Types: numbers("dtype"), New: scatterVariable(updateDiv)},
		Def{Op: "ResourceScatterMin", Types: reals("dtype"), New: scatterVariable(updateMin)},
		Def{Op: "ResourceScatterMax", Types: reals("dtype"), New: scatterVariable(updateMax)},
	)
}

var counters = map[string][]tensor.DType{"T": {tensor.Int32, tensor.Int64}}

// realTypes and numberTypes are the element types of TensorFlow's TF_CALL_REAL_NUMBER_TYPES and
// TF_CALL_NUMBER_TYPES.
var (
	realTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
		tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}
	numberTypes = append(realTypes[:len(realTypes):len(realTypes)], tensor.Complex64, tensor.Complex128)
)

func numbers(attr string) map[string][]tensor.DType {
	return map[string][]tensor.DType{attr: numberTypes}
}

func reals(attr string) map[string][]tensor.DType { return map[string][]tensor.DType{attr: realTypes} }
