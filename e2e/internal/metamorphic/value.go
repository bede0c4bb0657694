package metamorphic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Value is a matrix, scalar or integer. It does not change.
type Value struct {
	Type Type
	F    []float32
	I    int32
}

func matrixOf(f []float32) Value { return Value{Type: Matrix, F: f} }

func scalarOf(f float32) Value { return Value{Type: Scalar, F: []float32{f}} }

func intOf(i int32) Value { return Value{Type: Int, I: i} }

// plainValue is a value that depends on a number: small integers.
func plainValue(t Type, num int) Value {
	r := scramble(uint64(num), 3)
	switch t {
	case Scalar:
		return scalarOf(float32(r.IntN(9) - 4))
	case Int:
		return intOf(int32(r.IntN(9) - 4))
	default:
		f := make([]float32, Side*Side)
		for i := range f {
			f[i] = float32(r.IntN(9) - 4)
		}
		return matrixOf(f)
	}
}

// missing stands for a value that is not there.
func missing(t Type) Value { return plainValue(t, 0) }

// Equal compares two values. The zeros of both signs are equal.
func (v Value) Equal(o Value) bool {
	return v.Type == o.Type && v.I == o.I && slices.Equal(v.F, o.F)
}

// String shows a value, a matrix row by row.
func (v Value) String() string {
	if v.Type == Int {
		return strconv.Itoa(int(v.I))
	}
	var parts []string
	for i, f := range v.F {
		if i > 0 && i%Side == 0 {
			parts = append(parts, "|")
		}
		parts = append(parts, strconv.FormatFloat(float64(f), 'g', -1, 32))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// Tensor is the value as a tensor, which is the caller's.
func (v Value) Tensor() (*tensor.Tensor, error) {
	switch v.Type {
	case Int:
		return tensor.FromSlice(tensor.Int32, tensor.Shape{}, []int32{v.I})
	case Scalar:
		return tensor.FromSlice(tensor.Float32, tensor.Shape{}, slices.Clone(v.F))
	default:
		return tensor.FromSlice(tensor.Float32, tensor.Shape{Side, Side}, slices.Clone(v.F))
	}
}

// valueOf reads a tensor that has to be of a type.
func valueOf(t *tensor.Tensor, want Type) (Value, error) {
	dtype, shape := tensor.Float32, tensor.Shape{Side, Side}
	if want != Matrix {
		shape = tensor.Shape{}
	}
	if want == Int {
		dtype = tensor.Int32
	}
	if t.DType() != dtype || !t.Shape().Equal(shape) {
		return Value{}, fmt.Errorf("a tensor of type %v and shape %v, not %v and %v", t.DType(), t.Shape(), dtype, shape)
	}
	if want == Int {
		return intOf(tensor.Of[int32](t)[0]), nil
	}
	return Value{Type: want, F: slices.Clone(tensor.Of[float32](t))}, nil
}
