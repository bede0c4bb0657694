package state

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addSession(table)
	addState(table)
	addStateGPU(table)
	return table
}

// Ops that keep tensors in a session from one run to the next.
func addSession(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "GetSessionHandle", New: newGetSessionHandle},
		{Op: "GetSessionHandleV2", New: newGetSessionHandle},
		{Op: "GetSessionTensor", New: newGetSessionTensor},
		{Op: "DeleteSessionTensor", New: newDeleteSessionTensor},
	}...)
}

// Ops on variables, by reference and by handle.
func addState(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Variable", New: newRefVariable},
		{Op: "VariableV2", New: newRefVariable},
		{Op: "TemporaryVariable", New: newTemporaryVariable},
		{Op: "DestroyTemporaryVariable", New: newDestroyTemporaryVariable, UninitializedOK: true},
		{Op: "IsVariableInitialized", New: kernels.Always(isVariableInitialized), UninitializedOK: true},
		{Op: "Assign", New: newAssign, UninitializedOK: true},
		{Op: "AssignAdd", Types: dtypes.Numbers("T"), New: refUpdate(update.Add)},
		{Op: "AssignSub", Types: dtypes.Numbers("T"), New: refUpdate(update.Sub)},
		{Op: "CountUpTo", Types: counters, New: newCountUpTo(refOf)},

		{Op: "VarHandleOp", New: newVarHandle},
		{Op: "ReadVariableOp", New: newReadVariable},
		{Op: "AssignVariableOp", New: newAssignVariable},
		{Op: "AssignAddVariableOp", Types: dtypes.Numbers("dtype"), New: assignUpdate(update.Add)},
		{Op: "AssignSubVariableOp", Types: dtypes.Numbers("dtype"), New: assignUpdate(update.Sub)},
		{Op: "VarIsInitializedOp", New: kernels.Always(varIsInitialized)},
		{Op: "VariableShape", New: newVariableShape},
		{Op: "DestroyResourceOp", New: newDestroyResource},
		{Op: "DisableCopyOnRead", New: kernels.Always(disableCopyOnRead)},
		{Op: "ResourceCountUpTo", Types: counters, New: newCountUpTo(resourceOf)},

		{Op: "ScatterUpdate", New: scatterRef(update.Set)},
		{Op: "ScatterAdd", Types: dtypes.Numbers("T"), New: scatterRef(update.Add)},
		{Op: "ScatterSub", Types: dtypes.Numbers("T"), New: scatterRef(update.Sub)},
		{Op: "ScatterMul", Types: dtypes.Numbers("T"), New: scatterRef(update.Mul)},
		{Op: "ScatterDiv", Types: dtypes.Numbers("T"), New: scatterRef(update.Div)},
		{Op: "ScatterMin", Types: dtypes.Reals("T"), New: scatterRef(update.Min)},
		{Op: "ScatterMax", Types: dtypes.Reals("T"), New: scatterRef(update.Max)},
		{Op: "ResourceScatterUpdate", New: scatterVariable(update.Set)},
		{Op: "ResourceScatterAdd", Types: dtypes.Numbers("dtype"), New: scatterVariable(update.Add)},
		{Op: "ResourceScatterSub", Types: dtypes.Numbers("dtype"), New: scatterVariable(update.Sub)},
		{Op: "ResourceScatterMul", Types: dtypes.Numbers("dtype"), New: scatterVariable(update.Mul)},
		{Op: "ResourceScatterDiv", Types: dtypes.Numbers("dtype"), New: scatterVariable(update.Div)},
		{Op: "ResourceScatterMin", Types: dtypes.Reals("dtype"), New: scatterVariable(update.Min)},
		{Op: "ResourceScatterMax", Types: dtypes.Reals("dtype"), New: scatterVariable(update.Max)},
	}...)
}

var counters = map[string][]tensor.DType{"T": {tensor.Int32, tensor.Int64}}
