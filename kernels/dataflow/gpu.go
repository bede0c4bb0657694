package dataflow

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
)

// GPU rows for the stacks and arrays of loops, which leave values where they are.
func addLoopGPU(table *kernels.Table) {
	table.OnHost("", nil, "Stack", "StackV2", "StackClose", "StackCloseV2", "TensorArrayCloseV3")
	table.Passing("T", []string{"handle"}, nil, "StackPush", "StackPushV2")
	table.Passing("elem_type", []string{"handle"}, nil, "StackPop", "StackPopV2")
	table.Share(kernels.Sharing{HostInputs: []string{"size"}, HostOutputs: []string{"handle"}}, "TensorArrayV3")
	table.Share(kernels.Sharing{HostInputs: []string{"handle"}, HostOutputs: []string{"grad_handle"}}, "TensorArrayGradV3")
	table.Share(kernels.Sharing{HostInputs: []string{"handle", "shape_to_prepend"}, HostOutputs: []string{"grad_handle"}}, "TensorArrayGradWithShape")
	table.Share(kernels.Sharing{HostInputs: []string{"handle"}, HostOutputs: []string{"size"}}, "TensorArraySizeV3")
	arrayWriter(table, []string{"handle", "index"}, "TensorArrayWriteV3")
	arrayWriter(table, []string{"handle", "indices"}, "TensorArrayScatterV3")
	arrayWriter(table, []string{"handle", "lengths"}, "TensorArraySplitV3")
	arrayReading(table, []string{"handle", "index"}, nil, "TensorArrayReadV3")
	arrayReading(table, []string{"handle", "indices"}, nil, "TensorArrayGatherV3")
	arrayReading(table, []string{"handle"}, []string{"lengths"}, "TensorArrayConcatV3")
}

// arrayWriter adds the rows of an op that writes values to arrays: int32 values come from the host; the flow input never does.
func arrayWriter(table *kernels.Table, hostInputs []string, op string) {
	table.Share(kernels.Sharing{Types: map[string][]tensor.DType{"T": dtypes.BesideInt32}, HostInputs: hostInputs}, op)
	table.Share(kernels.Sharing{Types: map[string][]tensor.DType{"T": dtypes.Int32}, HostInputs: append(hostInputs, "value")}, op)
}

// arrayReading adds the rows of an op that reads values from arrays.
func arrayReading(table *kernels.Table, hostInputs, hostOutputs []string, op string) {
	table.Share(kernels.Sharing{Types: map[string][]tensor.DType{"dtype": dtypes.BesideInt32}, HostInputs: hostInputs, HostOutputs: hostOutputs}, op)
	table.Share(kernels.Sharing{Types: map[string][]tensor.DType{"dtype": dtypes.Int32}, HostInputs: hostInputs, HostOutputs: append(hostOutputs, "value")}, op)
}
