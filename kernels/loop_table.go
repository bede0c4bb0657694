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

		Def{Op: "TensorArrayV3", New: newTensorArray},
		Def{Op: "TensorArrayGradV3", New: newTensorArrayGrad},
		Def{Op: "TensorArrayGradWithShape", New: newTensorArrayGrad},
		Def{Op: "TensorArrayWriteV3", New: always(tensorArrayWrite)},
		Def{Op: "TensorArrayReadV3", New: arrayReader(tensorArrayRead)},
		Def{Op: "TensorArrayGatherV3", New: arrayReader(tensorArrayGather)},
		Def{Op: "TensorArrayConcatV3", New: arrayReader(tensorArrayConcat)},
		Def{Op: "TensorArrayScatterV3", New: always(tensorArrayScatter)},
		Def{Op: "TensorArraySplitV3", New: always(tensorArraySplit)},
		Def{Op: "TensorArraySizeV3", New: always(tensorArraySize)},
		Def{Op: "TensorArrayCloseV3", New: always(tensorArrayClose)},
	)
}
