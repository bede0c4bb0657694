package kernels

// A GPU's rows of what passes values on: the CPU's, which look at no element.
func init() {
	share(sharing{}, "NoOp", "ControlTrigger", "Placeholder", "PlaceholderV2", "IdentityN", "Abort")
	passing("T", nil, nil, "Identity", "RefIdentity", "Snapshot", "StopGradient", "PreventGradient", "DebugGradientIdentity",
		"DebugGradientRefIdentity", "GuaranteeConst", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration")
	passing("dtype", nil, nil, "PlaceholderWithDefault")
	passing("T", []string{"pred"}, nil, "Switch", "RefSwitch")
	passing("T", []string{"output_index"}, nil, "_SwitchN")
	passing("T", []string{"index"}, nil, "RefSelect")
	passing("T", nil, []string{"value_index"}, "Merge", "RefMerge")
	passing("T", []string{"data"}, nil, "Print")
	onHost("", nil, "LoopCond", "Assert", "PrintV2")
}
