package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// A GPU's rows of the stacks and arrays of loops, which keep values where they are.
func init() {
	onHost("", nil, "Stack", "StackV2", "StackClose", "StackCloseV2", "TensorArrayCloseV3")
	passing("T", []string{"handle"}, nil, "StackPush", "StackPushV2")
	passing("elem_type", []string{"handle"}, nil, "StackPop", "StackPopV2")
	share(sharing{hostInputs: []string{"size"}, hostOutputs: []string{"handle"}}, "TensorArrayV3")
	share(sharing{hostInputs: []string{"handle"}, hostOutputs: []string{"grad_handle"}}, "TensorArrayGradV3")
	share(sharing{hostInputs: []string{"handle", "shape_to_prepend"}, hostOutputs: []string{"grad_handle"}}, "TensorArrayGradWithShape")
	share(sharing{hostInputs: []string{"handle"}, hostOutputs: []string{"size"}}, "TensorArraySizeV3")
	arrayWriter([]string{"handle", "index"}, "TensorArrayWriteV3")
	arrayWriter([]string{"handle", "indices"}, "TensorArrayScatterV3")
	arrayWriter([]string{"handle", "lengths"}, "TensorArraySplitV3")
	arrayReading([]string{"handle", "index"}, nil, "TensorArrayReadV3")
	arrayReading([]string{"handle", "indices"}, nil, "TensorArrayGatherV3")
	arrayReading([]string{"handle"}, []string{"lengths"}, "TensorArrayConcatV3")
}

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
