package variant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Scalar is a variant element that holds a number or a bool. No op makes one, but constants may hold them: TensorFlow defines an encoding,
// zeros and sums for int, float, double and bool.
type Scalar[T int32 | float32 | float64 | bool] struct{ V T }

// scalar is the common interface of all Scalar types.
type scalar interface {
	zero() any
	// plus returns the sum with an element of the same type.
	plus(other any) any
	Text() string
}

// Portable returns the number in TensorFlow's form: its bytes.
func (s Scalar[T]) Portable() tensor.VariantData {
	var b []byte
	switch v := any(s.V).(type) {
	case int32:
		b = binary.LittleEndian.AppendUint32(nil, uint32(v))
	case float32:
		b = binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	case float64:
		b = binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
	case bool:
		b = []byte{0}
		if v {
			b[0] = 1
		}
	}
	return tensor.VariantData{Type: scalarName[T](), Metadata: b}
}

func (s Scalar[T]) zero() any { return Scalar[T]{} }

func (s Scalar[T]) plus(other any) any {
	switch a := any(s.V).(type) {
	case int32:
		return Scalar[int32]{a + other.(Scalar[int32]).V}
	case float32:
		return Scalar[float32]{a + other.(Scalar[float32]).V}
	case float64:
		return Scalar[float64]{a + other.(Scalar[float64]).V}
	case bool:
		return Scalar[bool]{a || other.(Scalar[bool]).V}
	}
	return nil
}

// Text formats the number as TensorFlow does, with at most six digits.
func (s Scalar[T]) Text() string {
	switch v := any(s.V).(type) {
	case bool:
		if v {
			return "1"
		}
		return "0"
	case int32:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%.6g", any(s.V))
}

// scalarName returns the C++ name of the type, which is its name in the encoded form.
func scalarName[T int32 | float32 | float64 | bool]() string {
	var v T
	switch any(v).(type) {
	case int32:
		return "int"
	case float32:
		return "float"
	case float64:
		return "double"
	}
	return "bool"
}

func registerScalar[T int32 | float32 | float64 | bool](size int, read func([]byte) T) {
	name := scalarName[T]()
	tensor.RegisterVariant(name, func(d tensor.VariantData) (any, error) {
		if len(d.Metadata) != size {
			return nil, status.InvalidArgumentf("a variant of type %q comes with %d bytes, but has %d", name, len(d.Metadata), size)
		}
		for _, t := range d.Tensors {
			t.Release()
		}
		return Scalar[T]{read(d.Metadata)}, nil
	})
}

func registerScalars() {
	registerScalar(4, func(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) })
	registerScalar(4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
	registerScalar(8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
	registerScalar(1, func(b []byte) bool { return b[0] != 0 })
}

// Name returns TensorFlow's name for the type of a variant's element.
func Name(v any) string {
	if v == nil {
		return ""
	}
	switch v := v.(type) {
	case interface{ TypeName() string }:
		return v.TypeName()
	case tensor.Portable:
		return v.Portable().Type
	}
	return fmt.Sprintf("%T", v)
}

// NoUnary returns the error for an element that does not support a unary op, such as ZEROS_LIKE.
func NoUnary(op string, v any) error {
	return status.Internalf("No unary variant unary_op function found for op %s Variant type_name: %s for device type: CPU", op, Name(v))
}
