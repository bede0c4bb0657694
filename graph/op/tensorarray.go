package op

import (
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
)

// TensorArray is an array of tensors of one type that lives as long as a step. It is written and read by index, usually by the iterations
// of a loop. Methods that change it return the TensorArray to use from then on. The flow, a scalar that is passed from operation to
// operation, determines their order. The flow is also what a loop passes on:
//
//	a := op.NewTensorArray(s, tensor.Float32, n)
//	out := op.While(s, []op.Output{i, a.Flow()}, cond,
//		func(s *op.Scope, v []op.Output) []op.Output {
//			b := a.WithFlow(v[1]).Write(s, v[0], x)
//			return []op.Output{op.AddV2(s, v[0], one), b.Flow()}
//		})
//	all := a.WithFlow(out[1]).Stack(s)
type TensorArray struct {
	handle, flow Output
	dtype        tensor.DType
}

// NewTensorArray returns an array of size tensors; size is an int32 scalar. attr.DynamicSize allows it to grow; attr.ElementShape fixes
// the shape of its tensors.
func NewTensorArray(s *Scope, dtype tensor.DType, size Output, attrs ...attr.Attr) TensorArray {
	handle, flow := TensorArrayV3(s, size, dtype, attrs...)
	return TensorArray{handle, flow, dtype}
}

// Handle returns the array's resource handle, for ops on arrays.
func (a TensorArray) Handle() Output { return a.handle }

// Flow returns the state of the array that this value stands for.
func (a TensorArray) Flow() Output { return a.flow }

// WithFlow returns the array in another state.
func (a TensorArray) WithFlow(flow Output) TensorArray { return TensorArray{a.handle, flow, a.dtype} }

// Size returns the number of tensors, an int32 scalar.
func (a TensorArray) Size(s *Scope) Output {
	return TensorArraySizeV3(s.beside(a.handle.Op), a.handle, a.flow)
}

// Write sets the tensor at an index. Each index may be written once.
func (a TensorArray) Write(s *Scope, index, value Output) TensorArray {
	return a.WithFlow(TensorArrayWriteV3(s.beside(a.handle.Op), a.handle, index, value, a.flow))
}

// Read returns the tensor at an index.
func (a TensorArray) Read(s *Scope, index Output) Output {
	return TensorArrayReadV3(s.beside(a.handle.Op), a.handle, index, a.flow, a.dtype)
}

// Scatter sets the tensors at indices to the rows of value.
func (a TensorArray) Scatter(s *Scope, indices, value Output) TensorArray {
	return a.WithFlow(TensorArrayScatterV3(s.beside(a.handle.Op), a.handle, indices, value, a.flow))
}

// Gather returns the tensors at indices, which have the same shape, as the rows of one tensor.
func (a TensorArray) Gather(s *Scope, indices Output, attrs ...attr.Attr) Output {
	return TensorArrayGatherV3(s.beside(a.handle.Op), a.handle, indices, a.flow, a.dtype, attrs...)
}

// Unstack sets the tensors from index 0 on to the rows of value.
func (a TensorArray) Unstack(s *Scope, value Output) TensorArray {
	rows := StridedSlice(s, Shape(s, value), Const(s, []int32{0}), Const(s, []int32{1}), Const(s, []int32{1}), attr.ShrinkAxisMask(1))
	return a.Scatter(s, a.upTo(s, rows), value)
}

// Stack returns all tensors as the rows of one tensor.
func (a TensorArray) Stack(s *Scope, attrs ...attr.Attr) Output {
	return a.Gather(s, a.upTo(s, a.Size(s)), attrs...)
}

// upTo returns the indices below n.
func (a TensorArray) upTo(s *Scope, n Output) Output {
	return Range(s, Const(s, int32(0)), n, Const(s, int32(1)))
}

// Concat returns all tensors concatenated, and the number of rows of each.
func (a TensorArray) Concat(s *Scope, attrs ...attr.Attr) (value, lengths Output) {
	return TensorArrayConcatV3(s.beside(a.handle.Op), a.handle, a.flow, a.dtype, attrs...)
}

// Split sets the tensors to parts of value with the given numbers of rows.
func (a TensorArray) Split(s *Scope, value, lengths Output) TensorArray {
	return a.WithFlow(TensorArraySplitV3(s.beside(a.handle.Op), a.handle, value, lengths, a.flow))
}
