package tensor

import (
	"fmt"

	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

// DType is the type of a tensor's elements, with the numbers of tensorflow.DataType. The reference forms (number + 100) mean that an edge
// carries a reference to a variable; no tensor has such a type.
type DType int32

// The element types of tensorflow/core/framework/types.proto.
const (
	Invalid      DType = 0
	Float32      DType = 1
	Float64      DType = 2
	Int32        DType = 3
	Uint8        DType = 4
	Int16        DType = 5
	Int8         DType = 6
	String       DType = 7
	Complex64    DType = 8
	Int64        DType = 9
	Bool         DType = 10
	QInt8        DType = 11
	QUint8       DType = 12
	QInt32       DType = 13
	BFloat16     DType = 14
	QInt16       DType = 15
	QUint16      DType = 16
	Uint16       DType = 17
	Complex128   DType = 18
	Float16      DType = 19
	Resource     DType = 20
	Variant      DType = 21
	Uint32       DType = 22
	Uint64       DType = 23
	Float8E5M2   DType = 24
	Float8E4M3FN DType = 25
	Int4         DType = 29
	Uint4        DType = 30

	refOffset DType = 100
)

type dtypeInfo struct {
	name string
	size int // bytes per element; 0 for elements that are Go values
}

var dtypes = map[DType]dtypeInfo{
	Float32: {"float", 4}, Float64: {"double", 8}, Int32: {"int32", 4}, Uint8: {"uint8", 1}, Int16: {"int16", 2},
	Int8: {"int8", 1}, String: {"string", 0}, Complex64: {"complex64", 8}, Int64: {"int64", 8}, Bool: {"bool", 1},
	QInt8: {"qint8", 1}, QUint8: {"quint8", 1}, QInt32: {"qint32", 4}, BFloat16: {"bfloat16", 2}, QInt16: {"qint16", 2},
	QUint16: {"quint16", 2}, Uint16: {"uint16", 2}, Complex128: {"complex128", 16}, Float16: {"half", 2},
	Resource: {"resource", 0}, Variant: {"variant", 0}, Uint32: {"uint32", 4}, Uint64: {"uint64", 8},
	Float8E5M2: {"float8_e5m2", 1}, Float8E4M3FN: {"float8_e4m3fn", 1}, Int4: {"int4", 1}, Uint4: {"uint4", 1},
}

// sizes holds the sizes of dtypes in an array, since Size is called for every tensor.
var sizes = func() (s [refOffset]uint8) {
	for d, i := range dtypes {
		s[d] = uint8(i.size)
	}
	return s
}()

// FromProto returns the DType with the number of d.
func FromProto(d typespb.DataType) DType { return DType(d) }

// Proto returns the tensorflow.DataType with the number of d.
func (d DType) Proto() typespb.DataType { return typespb.DataType(d) }

// Valid reports whether d is a known type, reference or not.
func (d DType) Valid() bool { _, ok := dtypes[d.Base()]; return ok }

// IsRef reports whether d is the reference form of a type.
func (d DType) IsRef() bool { return d > refOffset }

// Base returns the value type if d is a reference form, otherwise d.
func (d DType) Base() DType {
	if d > refOffset {
		return d - refOffset
	}
	return d
}

// Ref returns the reference form of d.
func (d DType) Ref() DType {
	if d > refOffset {
		return d
	}
	return d + refOffset
}

// Size returns the number of bytes that one element takes in a tensor's data: 0 for strings, resource handles and variants, whose elements
// are Go values.
func (d DType) Size() int {
	if d < 0 || d >= refOffset {
		return 0
	}
	return int(sizes[d])
}

// String returns the name that TensorFlow's messages use, such as float, double, half, float_ref.
func (d DType) String() string {
	name := fmt.Sprintf("unknown dtype enum (%d)", int32(d))
	if i, ok := dtypes[d.Base()]; ok {
		name = i.name
	}
	if d.IsRef() {
		name += "_ref"
	}
	return name
}

// IsFloating reports whether d is a real floating-point type.
func (d DType) IsFloating() bool {
	switch d {
	case Float32, Float64, Float16, BFloat16, Float8E5M2, Float8E4M3FN:
		return true
	}
	return false
}

// IsInteger reports whether d is a plain (not quantized) integer type.
func (d DType) IsInteger() bool {
	switch d {
	case Int4, Uint4, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64:
		return true
	}
	return false
}

// IsComplex reports whether d is a complex type.
func (d DType) IsComplex() bool { return d == Complex64 || d == Complex128 }
