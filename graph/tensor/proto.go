package tensor

import (
	"math"

	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// FromTensorProto decodes a message into memory of pool. Values may be in tensor_content or in the typed lists. As in TensorFlow, a short
// list is padded with its last value, extra values of a long list are ignored, a tensor without elements has no values to read, and an
// unknown rank means a scalar. Sizes are checked before memory is allocated: a message whose content does not fit its type and shape is
// INVALID_ARGUMENT.
func FromTensorProto(p *tensorpb.TensorProto, pool *Pool) (*Tensor, error) {
	return FromTensorProtoUntil(p, pool, nil)
}

// FromTensorProtoUntil is like FromTensorProto, but fails when ended, which may be nil, returns an error: a message may hold many strings and
// variants.
func FromTensorProtoUntil(p *tensorpb.TensorProto, pool *Pool, ended func() error) (*Tensor, error) {
	at := outermost(ended)
	defer at.end()
	return fromProto(p, pool, at)
}

// fromProto is FromTensorProto for a tensor that may be nested in variants.
func fromProto(p *tensorpb.TensorProto, pool *Pool, at nest) (*Tensor, error) {
	dtype := FromProto(p.GetDtype())
	shape := dimsOf(p.GetTensorShape())
	n, err := shape.NumElements()
	if err != nil {
		return nil, err
	}
	handles := p.ResourceHandleVal
	if dtype == Resource && n > 0 && len(p.TensorContent) > 0 {
		if handles, err = unpack[handlepb.ResourceHandleProto](p.TensorContent, n, at.walk.ended); err != nil {
			return nil, err
		}
	}
	values, err := valueList(p, dtype, handles)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return New(pool, dtype, shape)
	}
	size := int64(dtype.Size())
	if size > 0 && len(p.TensorContent) > 0 {
		if n > math.MaxInt64/size || n*size != int64(len(p.TensorContent)) {
			return nil, status.InvalidArgumentf("tensor_content of %d bytes does not fit type %v and shape %v", len(p.TensorContent), dtype, shape)
		}
		t, err := New(pool, dtype, shape)
		if err != nil {
			return nil, err
		}
		Copy(t.data, p.TensorContent)
		if err := t.checkBools(); err != nil {
			t.Release()
			return nil, err
		}
		return t, nil
	}
	if dtype == String && len(p.TensorContent) > 0 {
		return unpackStrings(p.TensorContent, shape, pool, at.walk.ended)
	}
	variants := p.VariantVal
	if dtype == Variant && len(p.TensorContent) > 0 {
		if variants, err = unpack[tensorpb.VariantTensorDataProto](p.TensorContent, n, at.walk.ended); err != nil {
			return nil, err
		}
	}
	t, err := New(pool, dtype, shape)
	if err != nil {
		return nil, err
	}
	if dtype == Variant {
		if err := fillVariants(t, variants[:min(int64(len(variants)), n)], pool, at); err != nil {
			t.Release()
			return nil, err
		}
		return t, nil
	}
	if values.n == 0 {
		Clear(t.data)
		return t, nil
	}
	if dtype == String {
		if err := t.countStrings(pool, sum(p.StringVal[:min(int64(len(p.StringVal)), n)])); err != nil {
			t.Release()
			return nil, err
		}
	}
	values.fill(t)
	return t, nil
}

// checkBools returns an error if a bool tensor's memory holds bytes other than 0 and 1, which are not valid Go bools.
func (t *Tensor) checkBools() error {
	if t.dtype != Bool {
		return nil
	}
	for i, b := range t.data {
		if b > 1 {
			return status.InvalidArgumentf("tensor_content has the byte %d for element %d, but a bool is 0 or 1", b, i)
		}
	}
	return nil
}

// sum returns the total length of the strings.
func sum(list [][]byte) (n int64) {
	for _, b := range list {
		n += int64(len(b))
	}
	return n
}

// values describes the typed list of a message: its length, and a function that writes the values to a tensor. Values beyond the tensor's
// elements are dropped.
type values struct {
	n    int64
	fill func(t *Tensor)
}

func list[V any, E any](list []V, elems func(*Tensor) []E, convert func(V) E) values {
	return values{int64(len(list)), func(t *Tensor) {
		dst := elems(t)
		list := list[:min(len(list), len(dst))]
		for i, v := range list {
			dst[i] = convert(v)
		}
		splat(dst, len(list))
	}}
}

// splat fills the rest of dst with its element n-1.
func splat[E any](dst []E, n int) {
	last := dst[n-1]
	for i := n; i < len(dst); i++ {
		dst[i] = last
	}
}

// pairs is list for complex numbers, whose parts alternate in the list.
func pairs[V float32 | float64, E any](list []V, elems func(*Tensor) []E, convert func(re, im V) E) values {
	return values{int64(len(list) / 2), func(t *Tensor) {
		dst := elems(t)
		n := min(len(list)/2, len(dst))
		for i := range n {
			dst[i] = convert(list[2*i], list[2*i+1])
		}
		splat(dst, n)
	}}
}

func same[V any](v V) V         { return v }
func narrow[E, V Number](v V) E { return E(v) }
func text(b []byte) string      { return string(b) }

// Number is the constraint for the types that narrow converts between.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// valueList returns the typed list of a message; handles are the values of a resource tensor.
func valueList(p *tensorpb.TensorProto, dtype DType, handles []*handlepb.ResourceHandleProto) (values, error) {
	switch dtype {
	case Float32:
		return list(p.FloatVal, Of[float32], same), nil
	case Float64:
		return list(p.DoubleVal, Of[float64], same), nil
	case Int32, QInt32:
		return list(p.IntVal, Of[int32], same), nil
	case Int16, QInt16:
		return list(p.IntVal, Of[int16], narrow[int16, int32]), nil
	case Uint16, QUint16:
		return list(p.IntVal, Of[uint16], narrow[uint16, int32]), nil
	case Int8, QInt8, Int4:
		return list(p.IntVal, Of[int8], narrow[int8, int32]), nil
	case Uint8, QUint8, Uint4:
		return list(p.IntVal, Of[uint8], narrow[uint8, int32]), nil
	case Float16, BFloat16:
		return list(p.HalfVal, Of[uint16], narrow[uint16, int32]), nil
	case Float8E5M2, Float8E4M3FN:
		return list(float8s(p), Of[uint8], same), nil
	case Int64:
		return list(p.Int64Val, Of[int64], same), nil
	case Uint32:
		return list(p.Uint32Val, Of[uint32], same), nil
	case Uint64:
		return list(p.Uint64Val, Of[uint64], same), nil
	case Bool:
		return list(p.BoolVal, Of[bool], same), nil
	case Complex64:
		return pairs(p.ScomplexVal, Of[complex64], func(re, im float32) complex64 { return complex(re, im) }), nil
	case Complex128:
		return pairs(p.DcomplexVal, Of[complex128], func(re, im float64) complex128 { return complex(re, im) }), nil
	case String:
		return list(p.StringVal, (*Tensor).Strings, text), nil
	case Resource:
		return list(handles, (*Tensor).Handles, HandleFromProto), nil
	case Variant:
		return values{n: int64(len(p.VariantVal))}, nil
	}
	return values{}, status.InvalidArgumentf("No tensor can have type %v", dtype)
}

// fieldFloat8 is TensorProto's float8_val, which is newer than the compiled messages.
const fieldFloat8 = 18

// float8s returns a message's float8_val bytes, which are among its unknown fields.
func float8s(p *tensorpb.TensorProto) (out []byte) {
	for b := []byte(p.ProtoReflect().GetUnknown()); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return out
		}
		b = b[n:]
		if num == fieldFloat8 && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			out = append(out, v...)
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return out
		}
		b = b[n:]
	}
	return out
}

// Proto returns the tensor as a message with its own memory. It is UNIMPLEMENTED for variants that may not leave their process.
func (t *Tensor) Proto() (*tensorpb.TensorProto, error) { return t.ProtoUntil(nil) }

// ProtoUntil is like Proto, but fails when ended returns an error: a tensor may hold many variants.
func (t *Tensor) ProtoUntil(ended func() error) (*tensorpb.TensorProto, error) {
	at := outermost(ended)
	defer at.end()
	return t.proto(at)
}

func (t *Tensor) proto(at nest) (*tensorpb.TensorProto, error) {
	p := &tensorpb.TensorProto{Dtype: t.dtype.Proto(), TensorShape: t.shape.Proto()}
	if at.depth > 0 && t.dtype != Variant { // it may be there many times
		if err := at.walk.count(int64(t.ByteSize())); err != nil {
			return nil, err
		}
	}
	switch e := t.elems.(type) {
	case nil:
		p.TensorContent = append([]byte(nil), t.Data()...)
	case []string:
		p.StringVal = make([][]byte, len(e))
		for i, s := range e {
			p.StringVal[i] = []byte(s)
		}
	case []Handle:
		p.ResourceHandleVal = make([]*handlepb.ResourceHandleProto, len(e))
		for i, h := range e {
			p.ResourceHandleVal[i] = h.Proto()
		}
	case []any:
		var err error
		if p.VariantVal, err = variantsProto(e, at); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Proto returns the handle as TensorFlow's message.
func (h Handle) Proto() *handlepb.ResourceHandleProto {
	p := &handlepb.ResourceHandleProto{Device: h.Device, Container: h.Container, Name: h.Name, MaybeTypeName: h.Type, HashCode: h.TypeHash}
	if h.DType != Invalid {
		shape := h.Shape.Proto()
		shape.UnknownRank = !h.KnownShape
		p.DtypesAndShapes = []*handlepb.ResourceHandleProto_DtypeAndShape{{Dtype: h.DType.Proto(), Shape: shape}}
	}
	return p
}

// HandleFromProto decodes a handle. Its Local field is empty.
func HandleFromProto(p *handlepb.ResourceHandleProto) Handle {
	h := Handle{Device: p.GetDevice(), Container: p.GetContainer(), Name: p.GetName(), Type: p.GetMaybeTypeName(), TypeHash: p.GetHashCode()}
	if ds := p.GetDtypesAndShapes(); len(ds) > 0 {
		h.DType = FromProto(ds[0].GetDtype())
		h.Shape, h.KnownShape = ShapeFromProto(ds[0].GetShape())
	}
	return h
}
