package input

import (
	"cmp"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// encodeProto is EncodeProto (core/kernels/encode_proto_op.cc): it serializes messages from fields. Input 0 says how many values each
// message has.
type encodeProto struct{ *protoSchema }

func newEncodeProto(c *kernels.Construction) (any, error) {
	schema, err := newProtoSchema(c)
	if err != nil {
		return nil, err
	}
	return &encodeProto{schema}, nil
}

func (k *encodeProto) Compute(ctx *kernels.Context) error {
	if err := args.CheckType(ctx, 0, tensor.Int32); err != nil {
		return err
	}
	message, err := k.resolve(ctx, false)
	if err != nil {
		return err
	}
	if len(message.fields) != len(ctx.Inputs)-1 {
		return status.InvalidArgumentf("Length of inputs list must match field_names")
	}
	prefix, err := k.check(ctx, message)
	if err != nil {
		return err
	}
	sizes := element.ViewOf[int32](ctx.Input(0))
	fields := len(message.fields)
	for i := range message.fields {
		most := last(ctx.Input(1 + i).Shape())
		for m := 0; m < len(sizes)/max(1, fields); m++ {
			if n := int64(sizes[m*fields+i]); n > most {
				return status.InvalidArgumentf("Size to write must not be larger than value tensor; but saw: %d > %d at message %d field %d", n, most, m, i)
			}
		}
	}
	order := make([]int, fields)
	writers := make([]func(b []byte, i int) []byte, fields)
	for i, f := range message.fields {
		order[i], writers[i] = i, valueWriter(ctx.Input(1+i), f.Kind())
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(message.fields[a].Number(), message.fields[b].Number()) })
	out, err := ctx.Allocate(0, tensor.String, prefix)
	if err != nil {
		return err
	}
	var b []byte
	for m := range out.Strings() {
		if err := ctx.Ended(); err != nil {
			return err
		}
		b = b[:0]
		for _, i := range order {
			at := m * int(last(ctx.Input(1+i).Shape()))
			b = appendField(b, message.fields[i], writers[i], at, int(sizes[m*fields+i]))
		}
		out.Strings()[m] = string(b)
	}
	return nil
}

// check checks the types and shapes of the inputs, and returns the shape of the messages.
func (k *encodeProto) check(ctx *kernels.Context, message *protoMessage) (prefix tensor.Shape, err error) {
	for i, f := range message.fields {
		v := ctx.Input(1 + i)
		switch {
		case !fits(f.Kind(), v.DType()):
			return nil, status.InvalidArgumentf("Incompatible type for field %s.  Saw dtype: %v but field type is: %v", k.names[i], v.DType(), f.Kind())
		case v.Rank() < 2:
			return nil, status.InvalidArgumentf("Invalid shape for field %s.  Saw shape %v but it should be at least a matrix.", k.names[i], v.Shape())
		case i == 0:
			prefix = slices.Clone(v.Shape()[:v.Rank()-1])
		case !prefix.Equal(v.Shape()[:v.Rank()-1]):
			return nil, status.InvalidArgumentf("Values must match up to the last dimension")
		}
	}
	want := append(slices.Clone(prefix), int64(len(message.fields)))
	if sizes := ctx.Input(0).Shape(); !sizes.Equal(want) {
		return nil, status.InvalidArgumentf("sizes should be batch_size + [len(field_names)].  Saw: %v but expected: %v", sizes, want)
	}
	return prefix, nil
}

func last(s tensor.Shape) int64 { return s[len(s)-1] }

// appendField writes n values of a field, starting at at; none if n is negative.
func appendField(b []byte, field protoreflect.FieldDescriptor, write func(b []byte, i int) []byte, at, n int) []byte {
	number, wire := field.Number(), wireType(field.Kind())
	if n == 0 {
		return b
	}
	if field.IsPacked() {
		b = protowire.AppendTag(b, number, protowire.BytesType)
		var values []byte
		for i := range n {
			values = write(values, at+i)
		}
		return protowire.AppendBytes(b, values)
	}
	for i := range n {
		b = write(protowire.AppendTag(b, number, wire), at+i)
		if wire == protowire.StartGroupType {
			b = protowire.AppendTag(b, number, protowire.EndGroupType)
		}
	}
	return b
}

// valueWriter returns the function that appends element i of a tensor as a value of a kind, which must fit. Integers that are too large are
// truncated, as in TensorFlow.
func valueWriter(t *tensor.Tensor, kind protoreflect.Kind) func(b []byte, i int) []byte {
	switch t.DType() {
	case tensor.String:
		v := t.Strings()
		if kind == protoreflect.GroupKind {
			return func(b []byte, i int) []byte { return append(b, v[i]...) }
		}
		return func(b []byte, i int) []byte { return protowire.AppendString(b, v[i]) }
	case tensor.Bool:
		v := element.ViewOf[bool](t)
		return func(b []byte, i int) []byte { return protowire.AppendVarint(b, protowire.EncodeBool(v[i])) }
	case tensor.Float32:
		return floatWriter(element.ViewOf[float32](t), kind)
	case tensor.Float64:
		return floatWriter(element.ViewOf[float64](t), kind)
	case tensor.Int32:
		return intWriter(element.ViewOf[int32](t), kind)
	case tensor.Int64:
		return intWriter(element.ViewOf[int64](t), kind)
	case tensor.Uint32:
		return intWriter(element.ViewOf[uint32](t), kind)
	default:
		return intWriter(element.ViewOf[uint64](t), kind)
	}
}

func floatWriter[T float32 | float64](v []T, kind protoreflect.Kind) func(b []byte, i int) []byte {
	if kind == protoreflect.FloatKind {
		return func(b []byte, i int) []byte { return protowire.AppendFixed32(b, math.Float32bits(float32(v[i]))) }
	}
	return func(b []byte, i int) []byte { return protowire.AppendFixed64(b, math.Float64bits(float64(v[i]))) }
}

func intWriter[T int32 | int64 | uint32 | uint64](v []T, kind protoreflect.Kind) func(b []byte, i int) []byte {
	varint := func(bits func(T) uint64) func(b []byte, i int) []byte {
		return func(b []byte, i int) []byte { return protowire.AppendVarint(b, bits(v[i])) }
	}
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return func(b []byte, i int) []byte { return protowire.AppendFixed32(b, uint32(v[i])) }
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return func(b []byte, i int) []byte { return protowire.AppendFixed64(b, uint64(v[i])) }
	case protoreflect.Sint32Kind:
		return varint(func(x T) uint64 { return uint64(uint32(protowire.EncodeZigZag(int64(int32(x))))) })
	case protoreflect.Sint64Kind:
		return varint(func(x T) uint64 { return protowire.EncodeZigZag(int64(x)) })
	case protoreflect.Int32Kind, protoreflect.EnumKind:
		return varint(func(x T) uint64 { return uint64(int64(int32(x))) })
	case protoreflect.Uint32Kind:
		return varint(func(x T) uint64 { return uint64(uint32(x)) })
	default:
		return varint(func(x T) uint64 { return uint64(x) })
	}
}
