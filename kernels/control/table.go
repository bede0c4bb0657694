package control

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addFlow(table)
	addFunc(table)
	addCheckGPU(table)
	addFlowGPU(table)
	addTransferGPU(table)
	return table
}

// Ops that route values: identities, control flow, feeds, fetches and transfers.
func addFlow(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Const", New: newConst},
		{Op: "NoOp", New: kernels.Always(nothing)},
		{Op: "ControlTrigger", New: kernels.Always(nothing)},

		{Op: "Identity", New: kernels.Always(kernels.PassInput)},
		{Op: "RefIdentity", New: kernels.Always(kernels.PassInput), UninitializedOK: true},
		{Op: "IdentityN", New: kernels.Always(passAll)},
		{Op: "Snapshot", New: kernels.Always(kernels.PassInput)},
		{Op: "StopGradient", New: kernels.Always(kernels.PassInput)},
		{Op: "PreventGradient", New: kernels.Always(kernels.PassInput)},
		{Op: "_EagerConst", New: kernels.Always(kernels.PassInput)},
		{Op: "PlaceholderWithDefault", New: kernels.Always(kernels.PassInput)},
		{Op: "DebugGradientIdentity", New: kernels.Always(kernels.PassInput)},
		{Op: "DebugGradientRefIdentity", New: kernels.Always(kernels.PassInput), UninitializedOK: true},
		{Op: "GuaranteeConst", New: kernels.Always(guaranteeConst)},
		{Op: "Placeholder", New: newPlaceholder},
		{Op: "PlaceholderV2", New: newPlaceholder},

		{Op: "Switch", New: kernels.Always(runSwitch)},
		{Op: "RefSwitch", New: kernels.Always(runSwitch), UninitializedOK: true},
		{Op: "_SwitchN", New: kernels.Always(runSwitchN)},
		{Op: "Merge", New: kernels.Always(merge)},
		{Op: "RefMerge", New: kernels.Always(merge), UninitializedOK: true},
		{Op: "Enter", New: kernels.Always(kernels.PassInput)},
		{Op: "RefEnter", New: kernels.Always(kernels.PassInput), UninitializedOK: true},
		{Op: "Exit", New: kernels.Always(kernels.PassInput)},
		{Op: "RefExit", New: kernels.Always(kernels.PassInput), UninitializedOK: true},
		{Op: "NextIteration", New: kernels.Always(kernels.PassInput)},
		{Op: "RefNextIteration", New: kernels.Always(kernels.PassInput), UninitializedOK: true},
		{Op: "LoopCond", New: kernels.Always(kernels.PassInput)},
		{Op: "RefSelect", New: kernels.Always(refSelect), UninitializedOK: true},
		{Op: "Abort", New: newAbort},

		{Op: "Assert", New: newAssert},
		{Op: "Print", New: newPrint},
		{Op: "PrintV2", New: newPrintV2},
		{Op: "Timestamp", New: kernels.Always(timestamp)},
		{Op: "CheckNumerics", Types: dtypes.FloatT, New: newCheckNumerics},
		{Op: "CheckNumericsV2", Types: dtypes.FloatT, New: newCheckNumericsV2},

		{Op: "_Arg", New: newArg},
		{Op: "_DeviceArg", New: newArg},
		{Op: "_Retval", New: newRetval},
		{Op: "_DeviceRetval", New: newRetval},
		{Op: "_Send", New: newSend},
		{Op: "_HostSend", New: newSend},
		{Op: "_Recv", New: newRecv},
		{Op: "_HostRecv", New: newRecv},
	}...)
}

// Ops that call functions of the graph's library.
func addFunc(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "PartitionedCall", New: newPartitionedCall},
		{Op: "StatefulPartitionedCall", New: newPartitionedCall},
		{Op: "If", New: newIf},
		{Op: "StatelessIf", New: newIf},
		{Op: "_If", New: newIf},
		{Op: "Case", New: newCase},
		{Op: "StatelessCase", New: newCase},
		{Op: "While", New: newWhile},
		{Op: "StatelessWhile", New: newWhile},
		{Op: "_While", New: newWhile},
		{Op: "For", New: newFor},
		{Op: "RemoteCall", New: newRemoteCall},
		{Op: "DeviceIndex", New: newDeviceIndex},
		{Op: "ToBool", New: kernels.Always(toBool)},
		{Op: "FakeParam", New: newFakeParam},
		{Op: "_ListToArray", New: kernels.Always(passAll)},
		{Op: "_ArrayToList", New: kernels.Always(passAll)},
		{Op: "SymbolicGradient", New: newSymbolicGradient},
	}...)
}
