package metamorphic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Value is an immutable matrix, scalar or integer.
type Value struct {
	Type Type
	F    []float32
	I    int32
}

func matrixOf(f []float32) Value { return Value{Type: Matrix, F: f} }

func scalarOf(f float32) Value { return Value{Type: Scalar, F: []float32{f}} }

func intOf(i int32) Value { return Value{Type: Int, I: i} }

// plainValue returns a value of small integers that depends on a number.
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

// missing returns the value that replaces a missing one.
func missing(t Type) Value { return plainValue(t, 0) }

// Equal compares two values. The zeros of both signs are equal.
func (v Value) Equal(o Value) bool {
	return v.Type == o.Type && v.I == o.I && slices.Equal(v.F, o.F)
}

// String formats a value, a matrix row by row.
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

// Tensor returns the value as a tensor, which the caller owns.
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

// valueOf reads a tensor, which must have the type.
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
