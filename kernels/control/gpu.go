package control

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
)

func addCheckGPU(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "CheckNumerics", Device: "GPU", Types: dtypes.FloatT, New: checkNumericsOn(anomalies.String)},
		{Op: "CheckNumericsV2", Device: "GPU", Types: dtypes.FloatT, New: checkNumericsOn(anomalies.signed)},
	}...)
}

// GPU rows for ops that pass values on: they reuse the CPU's kernels, which read no elements.
func addFlowGPU(table *kernels.Table) {
	table.Share(kernels.Sharing{}, "NoOp", "ControlTrigger", "Placeholder", "PlaceholderV2", "IdentityN", "Abort")
	table.Passing("T", nil, nil, "Identity", "RefIdentity", "Snapshot", "StopGradient", "PreventGradient", "DebugGradientIdentity",
		"DebugGradientRefIdentity", "GuaranteeConst", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration")
	table.Passing("dtype", nil, nil, "PlaceholderWithDefault")
	table.Passing("T", []string{"pred"}, nil, "Switch", "RefSwitch")
	table.Passing("T", []string{"output_index"}, nil, "_SwitchN")
	table.Passing("T", []string{"index"}, nil, "RefSelect")
	table.Passing("T", nil, []string{"value_index"}, "Merge", "RefMerge")
	table.Passing("T", []string{"data"}, nil, "Print")
	table.OnHost("", nil, "LoopCond", "Assert", "PrintV2")
}

// GPU rows for ops that move values between memories.
func addTransferGPU(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Const", Device: "GPU", Types: map[string][]tensor.DType{"dtype": dtypes.Plain}, New: newDeviceConst},
		{Op: "_Send", Device: "GPU", New: newDeviceSend},
		{Op: "_HostSend", Device: "GPU", HostInputs: []string{kernels.Everything}, New: newSend},
		{Op: "_Recv", Device: "GPU", New: newDeviceRecv},
		{Op: "_HostRecv", Device: "GPU", HostOutputs: []string{kernels.Everything}, New: newDeviceRecv},
		{Op: "_Arg", Device: "GPU", Types: map[string][]tensor.DType{"T": dtypes.BesideInt32}, New: newDeviceArg},
		{Op: "_Arg", Device: "GPU", Types: dtypes.Only("T", tensor.Int32), HostOutputs: []string{kernels.Everything}, New: newDeviceArg},
		{Op: "_DeviceArg", Device: "GPU", New: newDeviceArg},
		{Op: "_DeviceRetval", Device: "GPU", New: newRetval},
	}...)
	table.OnHost("dtype", []tensor.DType{tensor.Int32, tensor.String}, "Const")
	table.Passing("T", nil, nil, "_Retval")
}
