package checkpoint

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"

	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	slicepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_slice_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/protofield"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers of tensorflow.SavedTensorSlices and its parts.
const (
	fieldMeta = 1 // of SavedTensorSlices
	fieldData = 2

	fieldMetaTensor   = 1 // of SavedTensorSliceMeta
	fieldMetaVersions = 2

	fieldName       = 1 // of SavedSliceMeta, SavedSlice
	fieldShape      = 2 // of SavedSliceMeta
	fieldType       = 3
	fieldSlices     = 4
	fieldSlice      = 2 // of SavedSlice
	fieldSliceData  = 3
	fieldHalfVal    = 13 // of TensorProto
	fieldFloatVal   = 5
	fieldDoubleVal  = 6
	fieldIntVal     = 7
	fieldStringVal  = 8
	fieldComplexVal = 9
	fieldInt64Val   = 10
	fieldBoolVal    = 11
	fieldDcomplex   = 12
)

// v1Type describes how format V1 stores a type: the field of a TensorProto, the number of bytes per element (0 for varints and strings),
// and TensorFlow's estimate of the maximum size of an element.
type v1Type struct {
	field protowire.Number
	fixed int
	bound int64
	// varint returns, for types stored as varints, a function from an element's position to its encoded number.
	varint func(t *tensor.Tensor) func(i int) uint64
}

var v1Types = map[tensor.DType]v1Type{
	tensor.Float32: {fieldFloatVal, 4, 4, nil}, tensor.Float64: {fieldDoubleVal, 8, 8, nil}, tensor.Float16: {fieldHalfVal, 0, 3, varints[uint16]},
	tensor.Int8: {fieldIntVal, 0, 10, varints[int8]}, tensor.Int16: {fieldIntVal, 0, 10, varints[int16]},
	tensor.Int32: {fieldIntVal, 0, 10, varints[int32]}, tensor.Int64: {fieldInt64Val, 0, 10, varints[int64]},
	tensor.Uint8: {fieldIntVal, 0, 2, varints[uint8]}, tensor.Uint16: {fieldIntVal, 0, 3, varints[uint16]}, tensor.Bool: {fieldBoolVal, 0, 1, varints[uint8]},
	tensor.QInt8: {fieldIntVal, 0, 10, varints[int8]}, tensor.QUint8: {fieldIntVal, 0, 2, varints[uint8]}, tensor.QInt32: {fieldIntVal, 0, 10, varints[int32]},
	tensor.Complex64: {fieldComplexVal, 4, 8, nil}, tensor.Complex128: {fieldDcomplex, 8, 16, nil}, tensor.String: {fieldStringVal, 0, 10, nil},
}

// varints returns the elements' numbers; negative ones are sign-extended to 64 bits, as in protocol buffers.
func varints[T int8 | int16 | int32 | int64 | uint8 | uint16](t *tensor.Tensor) func(int) uint64 {
	list := tensor.Of[T](t)
	return func(i int) uint64 { return uint64(int64(list[i])) }
}

// valuesSize returns the size of a TensorProto that contains only the values of a tensor, and the size of its one packed field.
func valuesSize(t *tensor.Tensor) (all, packed int64) {
	kind := v1Types[t.DType()]
	tag := int64(protowire.SizeTag(kind.field))
	switch {
	case t.Len() == 0:
		return 0, 0
	case t.DType() == tensor.String:
		for _, s := range t.Strings() {
			all += tag + int64(protowire.SizeBytes(len(s)))
		}
		return all, 0
	case kind.fixed > 0:
		packed = int64(len(t.Data()))
	default:
		value := kind.varint(t)
		for i := range t.Len() {
			packed += int64(protowire.SizeVarint(value(i)))
		}
	}
	return tag + int64(protowire.SizeVarint(uint64(packed))) + packed, packed
}

// writeValues writes the TensorProto that valuesSize measures.
func writeValues(w io.Writer, t *tensor.Tensor, packed int64) error {
	kind := v1Types[t.DType()]
	if t.Len() == 0 {
		return nil
	}
	out := bufio.NewWriterSize(w, 1<<12) // errors are reported by Flush
	var buf [2 * binary.MaxVarintLen64]byte
	if t.DType() == tensor.String {
		for _, s := range t.Strings() {
			_, _ = out.Write(protowire.AppendVarint(protowire.AppendTag(buf[:0], kind.field, protowire.BytesType), uint64(len(s))))
			_, _ = out.WriteString(s)
		}
		return out.Flush()
	}
	_, _ = out.Write(protowire.AppendVarint(protowire.AppendTag(buf[:0], kind.field, protowire.BytesType), uint64(packed)))
	if kind.fixed > 0 {
		_, _ = out.Write(t.Data())
		return out.Flush()
	}
	value := kind.varint(t)
	for i := range t.Len() {
		_, _ = out.Write(protowire.AppendVarint(buf[:0], value(i)))
	}
	return out.Flush()
}

// readValues fills t from such a TensorProto; ok is false if the message is malformed or has a different number of values.
func readValues(b []byte, t *tensor.Tensor) (ok bool) {
	kind := v1Types[t.DType()]
	n := 0
	whole := eachField(b, func(f protofield.Field) bool {
		if f.Number != kind.field {
			return true
		}
		switch {
		case t.DType() == tensor.String:
			if f.Type != protowire.BytesType || n == t.Len() {
				return false
			}
			t.Strings()[n] = string(f.Bytes)
			n++
			return true
		case kind.fixed > 0:
			v := f.Bytes
			switch f.Type {
			case protowire.Fixed32Type:
				v = binary.LittleEndian.AppendUint32(nil, uint32(f.Fixed))
			case protowire.Fixed64Type:
				v = binary.LittleEndian.AppendUint64(nil, f.Fixed)
			}
			if len(v)%kind.fixed != 0 || len(v) > len(t.Data())-n {
				return false
			}
			n += copy(t.Data()[n:], v)
			return true
		case f.Type != protowire.VarintType && f.Type != protowire.BytesType:
			return true
		}
		for x, err := range f.Varints() {
			if err != nil || !putVarint(t, &n, x) {
				return false
			}
		}
		return true
	})
	if kind.fixed > 0 {
		return whole && n == len(t.Data())
	}
	return whole && n == t.Len()
}

func putVarint(t *tensor.Tensor, n *int, x uint64) bool {
	if *n == t.Len() {
		return false
	}
	if t.DType() == tensor.Bool && x != 0 {
		x = 1
	}
	size := t.DType().Size()
	var buf [8]byte
	binary.LittleEndian.PutUint64(buf[:], x)
	copy(t.Data()[*n*size:], buf[:size])
	*n++
	return true
}

// eachField calls visit with each field of a message. It returns false if visit does, or if the message is malformed.
func eachField(b []byte, visit func(f protofield.Field) bool) bool {
	for f, err := range protofield.All(b) {
		if err != nil || !visit(f) {
			return false
		}
	}
	return true
}

// field returns the last field with the number want, a message.
func field(b []byte, want protowire.Number) (found []byte, ok bool) {
	ok = eachField(b, func(f protofield.Field) bool {
		if f.Is(want, protowire.BytesType) {
			found = f.Bytes
		}
		return true
	})
	return found, ok
}

// v1Tensor is a SavedSliceMeta: a tensor and its slices in a file.
type v1Tensor struct {
	name   string
	dtype  tensor.DType
	shape  tensor.Shape
	slices []Slice
}

func (m *v1Tensor) append(b []byte) ([]byte, error) {
	own := protowire.AppendString(protowire.AppendTag(nil, fieldName, protowire.BytesType), m.name)
	own, err := appendMessage(own, fieldShape, m.shape.Proto())
	if err != nil {
		return nil, err
	}
	own = protowire.AppendVarint(protowire.AppendTag(own, fieldType, protowire.VarintType), uint64(m.dtype))
	for _, s := range m.slices {
		if own, err = appendMessage(own, fieldSlices, s.proto()); err != nil {
			return nil, err
		}
	}
	return protowire.AppendBytes(protowire.AppendTag(b, fieldMetaTensor, protowire.BytesType), own), nil
}

func appendMessage(b []byte, num protowire.Number, m proto.Message) ([]byte, error) {
	v, err := proto.Marshal(m)
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v), err
}

// readMeta reads the first record of a file; ok is false if it is malformed.
func readMeta(b []byte) (list []v1Tensor, versions *versionspb.VersionDef, ok bool, err error) {
	meta, ok := field(b, fieldMeta)
	versions = &versionspb.VersionDef{}
	ok = ok && eachField(meta, func(f protofield.Field) bool {
		switch {
		case f.Is(fieldMetaVersions, protowire.BytesType):
			return tensor.Unmarshal(f.Bytes, versions) == nil
		case f.Is(fieldMetaTensor, protowire.BytesType):
			m, ok, problem := readTensorMeta(f.Bytes)
			list = append(list, m)
			if err == nil {
				err = problem
			}
			return ok
		}
		return true
	})
	return list, versions, ok, err
}

func readTensorMeta(b []byte) (m v1Tensor, ok bool, err error) {
	ok = eachField(b, func(f protofield.Field) bool {
		switch {
		case f.Is(fieldName, protowire.BytesType):
			m.name = string(f.Bytes)
		case f.Is(fieldType, protowire.VarintType) && f.Varint <= math.MaxInt32:
			m.dtype = tensor.DType(f.Varint)
		case f.Is(fieldShape, protowire.BytesType):
			p := &shapepb.TensorShapeProto{}
			if tensor.Unmarshal(f.Bytes, p) != nil {
				return false
			}
			m.shape, _ = tensor.ShapeFromProto(p)
		case f.Is(fieldSlices, protowire.BytesType):
			p := &slicepb.TensorSliceProto{}
			if tensor.Unmarshal(f.Bytes, p) != nil {
				return false
			}
			s, problem := sliceFromProto(p)
			if err == nil {
				err = problem
			}
			m.slices = append(m.slices, s)
		}
		return true
	})
	if _, problem := m.shape.NumElements(); err == nil {
		err = problem
	}
	return m, ok, err
}
