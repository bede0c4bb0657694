package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The ops that route values: identities, control flow, feeds, fetches and transfers.
func init() {
	Register(
		Def{Op: "Const", New: newConst},
		Def{Op: "NoOp", New: always(nothing)},
		Def{Op: "ControlTrigger", New: always(nothing)},

		Def{Op: "Identity", New: always(pass)},
		Def{Op: "RefIdentity", New: always(pass), UninitializedOK: true},
		Def{Op: "IdentityN", New: always(passAll)},
		Def{Op: "Snapshot", New: always(pass)},
		Def{Op: "StopGradient", New: always(pass)},
		Def{Op: "PreventGradient", New: always(pass)},
		Def{Op: "_EagerConst", New: always(pass)},
		Def{Op: "PlaceholderWithDefault", New: always(pass)},
		Def{Op: "DebugGradientIdentity", New: always(pass)},
		Def{Op: "DebugGradientRefIdentity", New: always(pass), UninitializedOK: true},
		Def{Op: "GuaranteeConst", New: always(pass)},
		Def{Op: "Placeholder", New: newPlaceholder},
		Def{Op: "PlaceholderV2", New: newPlaceholder},

		Def{Op: "Switch", New: always(runSwitch)},
		Def{Op: "RefSwitch", New: always(runSwitch), UninitializedOK: true},
		Def{Op: "_SwitchN", New: always(runSwitchN)},
		Def{Op: "Merge", New: always(merge)},
		Def{Op: "RefMerge", New: always(merge), UninitializedOK: true},
		Def{Op: "Enter", New: always(pass)},
		Def{Op: "RefEnter", New: always(pass), UninitializedOK: true},
		Def{Op: "Exit", New: always(pass)},
		Def{Op: "RefExit", New: always(pass), UninitializedOK: true},
		Def{Op: "NextIteration", New: always(pass)},
		Def{Op: "RefNextIteration", New: always(pass), UninitializedOK: true},
		Def{Op: "LoopCond", New: always(pass)},
		Def{Op: "RefSelect", New: always(refSelect), UninitializedOK: true},
		Def{Op: "Abort", New: newAbort},

		Def{Op: "Assert", New: newAssert},
		Def{Op: "Print", New: newPrint},
		Def{Op: "PrintV2", New: newPrintV2},
		Def{Op: "CheckNumerics", Types: floats, New: newCheckNumerics},
		Def{Op: "CheckNumericsV2", Types: floats, New: newCheckNumericsV2},

		Def{Op: "_Arg", New: newArg},
		Def{Op: "_DeviceArg", New: newArg},
		Def{Op: "_Retval", New: newRetval},
		Def{Op: "_DeviceRetval", New: newRetval},
		Def{Op: "_Send", New: newSend},
		Def{Op: "_HostSend", New: newSend},
		Def{Op: "_Recv", New: newRecv},
		Def{Op: "_HostRecv", New: newRecv},
	)
}

var floats = map[string][]tensor.DType{"T": {tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64}}

// always is the constructor of ops without attributes that matter when they run.
func always(f Func) func(*Construction) (any, error) {
	return func(*Construction) (any, error) { return f, nil }
}
