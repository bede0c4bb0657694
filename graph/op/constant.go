package op

import "github.com/troupe-run/troupe/graph/tensor"

// Constant is the constraint for the Go values that Const accepts: elements of tensors (those of tensor.From), slices of them up to four
// levels deep, and whole tensors. Go's int is not among them: int32(2) and int64(2) are tensors of different types.
type Constant interface {
	tensor.Value |
		[]bool | []int8 | []int16 | []int32 | []int64 | []uint8 | []uint16 | []uint32 | []uint64 |
		[]float32 | []float64 | []tensor.F16 | []tensor.BF16 | []complex64 | []complex128 | []string |
		[][]bool | [][]int8 | [][]int16 | [][]int32 | [][]int64 | [][]uint8 | [][]uint16 | [][]uint32 | [][]uint64 |
		[][]float32 | [][]float64 | [][]tensor.F16 | [][]tensor.BF16 | [][]complex64 | [][]complex128 | [][]string |
		[][][]bool | [][][]int8 | [][][]int16 | [][][]int32 | [][][]int64 | [][][]uint8 | [][][]uint16 | [][][]uint32 | [][][]uint64 |
		[][][]float32 | [][][]float64 | [][][]tensor.F16 | [][][]tensor.BF16 | [][][]complex64 | [][][]complex128 | [][][]string |
		[][][][]bool | [][][][]int8 | [][][][]int16 | [][][][]int32 | [][][][]int64 | [][][][]uint8 | [][][][]uint16 | [][][][]uint32 | [][][][]uint64 |
		[][][][]float32 | [][][][]float64 | [][][][]tensor.F16 | [][][][]tensor.BF16 | [][][][]complex64 | [][][][]complex128 | [][][][]string |
		*tensor.Tensor
}

// Const adds a constant. The value is copied into the graph:
//
//	op.Const(s, float32(0.5))
//	op.Const(s, [][]int32{{1, 2}, {3, 4}})
//
// A ragged value is an error.
func Const[T Constant](s *Scope, value T) Output {
	t, ok := any(value).(*tensor.Tensor)
	if !ok {
		made, err := tensor.From(value)
		if err != nil {
			s.fail(err)
			return Output{}
		}
		defer made.Release()
		t = made
	}
	return s.Add(Spec{Op: "Const", Attrs: map[string]any{"dtype": t.DType(), "value": t}}).Output(0)
}

// Group adds an operation that does nothing but wait for all of ops. As a target of a step, it makes the step run them.
func Group(s *Scope, ops ...*Operation) *Operation {
	return NoOp(s.WithControlDependencies(ops...))
}
