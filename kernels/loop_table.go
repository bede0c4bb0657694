package kernels

// The stacks and arrays of TensorFlow 1's loops, which live in the container of their step.
func init() {
	Register(
		Def{Op: "Stack", New: newStack(true)},
		Def{Op: "StackV2", New: newStack(false)},
		Def{Op: "StackPush", New: always(stackPush)},
		Def{Op: "StackPushV2", New: always(stackPush)},
		Def{Op: "StackPop", New: newStackPop},
		Def{Op: "StackPopV2", New: newStackPop},
		Def{Op: "StackClose", New: always(stackClose)},
		Def{Op: "StackCloseV2", New: always(stackClose)},
	)

	// The handle of the first version is a reference to strings, that of the second strings, that of the third a resource.
	for version, kind := range map[string]handleKind{"": refHandle, "V2": stringHandle, "V3": resourceHandle} {
		Register(
			Def{Op: "TensorArray" + version, New: newTensorArray(kind)},
			Def{Op: "TensorArrayGrad" + version, New: newTensorArrayGrad(kind)},
			Def{Op: "TensorArrayWrite" + version, New: always(tensorArrayWrite)},
			Def{Op: "TensorArrayRead" + version, New: arrayReader(tensorArrayRead)},
			Def{Op: "TensorArrayGather" + version, New: arrayReader(tensorArrayGather)},
			Def{Op: "TensorArrayConcat" + version, New: arrayReader(tensorArrayConcat)},
			Def{Op: "TensorArrayScatter" + version, New: always(tensorArrayScatter)},
			Def{Op: "TensorArraySplit" + version, New: always(tensorArraySplit)},
			Def{Op: "TensorArraySize" + version, New: always(tensorArraySize)},
			Def{Op: "TensorArrayClose" + version, New: always(tensorArrayClose)},
		)
	}
	Register(
		Def{Op: "TensorArrayGradWithShape", New: newTensorArrayGrad(resourceHandle)},
		Def{Op: "TensorArrayPack", New: arrayReader(tensorArrayPack)},
		Def{Op: "TensorArrayUnpack", New: always(tensorArrayUnpack)},
	)
}
