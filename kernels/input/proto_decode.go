package input

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// decodeProto is DecodeProtoV2 (core/kernels/decode_proto_op.cc). It reads fields of serialized messages. Each field has as many values as
// in the message with the most values; missing values are the field's default.
type decodeProto struct {
	*protoSchema
	types          []tensor.DType
	text, sanitize bool
}

func newDecodeProto(c *kernels.Construction) (any, error) {
	schema, err1 := newProtoSchema(c)
	a := c.Attrs().Reader()
	types, format, sanitize := a.TypeList("output_types"), a.Str("message_format"), a.Bool("sanitize")
	if err := args.FirstError(err1, a.Err()); err != nil {
		return nil, err
	}
	if len(types) != len(schema.names) {
		return nil, status.InvalidArgumentf("field_names and output_types attributes must have the same length")
	}
	if format != "binary" && format != "text" {
		return nil, status.InvalidArgumentf("format must be one of binary or text")
	}
	return &decodeProto{schema, types, format == "text", sanitize}, nil
}

func (k *decodeProto) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, tensor.String); err != nil {
		return err
	}
	if in.Len() == 0 {
		return status.InvalidArgumentf("Bufs argument must contain at least one value")
	}
	message, err := k.resolve(ctx, true)
	if err != nil {
		return err
	}
	for i, f := range message.fields {
		if !fits(f.Kind(), k.types[i]) {
			return status.InvalidArgumentf("Unexpected output type for %s: %s to %s", f.FullName(), cppType(f.Kind()), "DT_"+strings.ToUpper(k.types[i].String()))
		}
	}
	messages := in.Strings()
	if k.text || k.sanitize {
		if messages, err = k.serializedAgain(ctx, message, messages); err != nil {
			return err
		}
	}
	sizes, err := ctx.Allocate(0, tensor.Int32, append(slices.Clone(in.Shape()), int64(len(message.fields))))
	if err != nil {
		return err
	}
	counts, most := element.ViewOf[int32](sizes), slices.Repeat([]int{1}, len(message.fields))
	for m, serialized := range messages {
		if err := ctx.Ended(); err != nil {
			return err
		}
		of := counts[m*len(most):][:len(most)]
		clear(of)
		err := eachValue(message.fields, serialized, func(f int, _ protowire.Type, _ []byte, _ bool) error {
			if of[f] == 0 || message.fields[f].IsList() {
				of[f]++
			}
			return nil
		})
		if err != nil {
			return err
		}
		for f, n := range of {
			most[f] = max(most[f], int(n))
		}
	}
	outputs := make([]fieldValues, len(message.fields))
	for f, field := range message.fields {
		t, err := ctx.Allocate(1+f, k.types[f], append(slices.Clone(in.Shape()), int64(most[f])))
		if err != nil {
			return err
		}
		outputs[f] = newFieldValues(t, field)
	}
	for m, serialized := range messages {
		for f := range outputs {
			outputs[f].begin(m*most[f], most[f])
		}
		err := eachValue(message.fields, serialized, func(f int, wire protowire.Type, value []byte, packed bool) error {
			outputs[f].put(wire, value, packed)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// serializedAgain parses all messages and reserializes them.
func (k *decodeProto) serializedAgain(ctx *kernels.Context, of *protoMessage, messages []string) ([]string, error) {
	again := make([]string, len(messages))
	read, parse := proto.UnmarshalOptions{Resolver: of.types}, prototext.UnmarshalOptions{Resolver: of.types}
	for i, serialized := range messages {
		if err := ctx.Ended(); err != nil {
			return nil, err
		}
		m := dynamicpb.NewMessage(of.MessageDescriptor)
		if k.text {
			if err := parse.Unmarshal([]byte(serialized), m); err != nil {
				return nil, status.Errorf(status.DataLoss, "Unable to parse text protobuf: %v", err)
			}
		} else if err := read.Unmarshal([]byte(serialized), m); err != nil {
			return nil, status.Errorf(status.DataLoss, "Unable to parse binary protobuf: %v", err)
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return nil, status.Errorf(status.DataLoss, "Unable to reserialize text proto as binary: %v", err)
		}
		again[i] = string(b)
	}
	return again, nil
}

// wireType returns the wire type of a kind's unpacked values.
func wireType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.Fixed64Type
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.Fixed32Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}

// eachValue calls visit for each value of the fields, in the order of the message, with its encoding: what follows the tag, without the
// length of strings. The encoding of a group includes the tags at both ends, as in TensorFlow. If several fields have the same number, the
// first one counts.
func eachValue(fields []protoreflect.FieldDescriptor, serialized string, visit func(field int, wire protowire.Type, value []byte, packed bool) error) error {
	lost := func(text string) error { return status.Errorf(status.DataLoss, "%s", text) }
	b := []byte(serialized)
	for len(b) > 0 {
		tag, n := protowire.ConsumeVarint(b)
		number, wire := protowire.DecodeTag(uint64(uint32(tag)))
		if n < 0 || uint32(tag) == 0 || wire == protowire.EndGroupType {
			return lost("CountFields: Failed to consume entire buffer")
		}
		b = b[n:]
		field := slices.IndexFunc(fields, func(f protoreflect.FieldDescriptor) bool { return f.Number() == number })
		want := protowire.Type(-1)
		if field >= 0 {
			want = wireType(fields[field].Kind())
		}
		if n = protowire.ConsumeFieldValue(number, wire, b); n < 0 {
			switch {
			case field < 0:
				return lost("Failed skipping unrequested field")
			case wire == protowire.BytesType && want != wire:
				return lost("ReadPackedValues: Skipping packed field failed")
			case wire != want:
				return lost("CollectField: Failed skipping malformed field")
			}
			return lost("ReadValue: Failed skipping field when counting")
		}
		value := b[:n]
		b = b[n:]
		var err error
		switch {
		case field < 0:
		case wire == protowire.BytesType:
			value, _ = protowire.ConsumeBytes(value)
			if want == protowire.BytesType {
				err = visit(field, wire, value, false)
			} else {
				err = eachPacked(value, want, func(v []byte) error { return visit(field, want, v, true) })
			}
		case wire != want: // skipped
		case wire == protowire.StartGroupType:
			err = visit(field, wire, append(protowire.AppendTag(nil, number, wire), value...), false)
		default:
			err = visit(field, wire, value, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachPacked calls visit for each packed value.
func eachPacked(b []byte, wire protowire.Type, visit func(value []byte) error) error {
	for whole := len(b); len(b) > 0; {
		var n int
		switch wire {
		case protowire.VarintType:
			if _, n = protowire.ConsumeVarint(b); n < 0 {
				return status.Errorf(status.DataLoss, "Corrupt packed varint")
			}
		case protowire.Fixed32Type, protowire.Fixed64Type:
			if n = protowire.ConsumeFieldValue(1, wire, b); n < 0 {
				return status.Errorf(status.DataLoss, "Illegal data length for packed fixed-size type: %d", whole)
			}
		default:
			return status.Errorf(status.DataLoss, "TYPE_GROUP encountered as packed")
		}
		if err := visit(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// fieldValues writes the values of one field, message by message.
type fieldValues struct {
	repeated bool
	// set sets element i of the tensor to a value.
	set func(i int, wire protowire.Type, value []byte, packed bool)
	// fill sets elements from lo to hi to the field's default.
	fill     func(lo, hi int)
	next, at int
}

// begin starts the next message, whose elements start at at.
func (v *fieldValues) begin(at, most int) {
	v.fill(at, at+most)
	v.next, v.at = at, at
}

func (v *fieldValues) put(wire protowire.Type, value []byte, packed bool) {
	switch {
	case v.repeated:
		v.set(v.next, wire, value, packed)
		v.next++
	case packed: // TensorFlow counts these, and returns the default
	default:
		v.set(v.at, wire, value, packed)
	}
}

func newFieldValues(t *tensor.Tensor, field protoreflect.FieldDescriptor) fieldValues {
	kind, byDefault := field.Kind(), field.Default()
	v := fieldValues{repeated: field.IsList()}
	if t.DType() == tensor.String {
		text := ""
		switch {
		case field.IsList(): // repeated fields have none
		case kind == protoreflect.StringKind:
			text = byDefault.String()
		case kind == protoreflect.BytesKind:
			text = string(byDefault.Bytes())
		}
		out := t.Strings()
		v.fill = func(lo, hi int) {
			for i := lo; i < hi; i++ {
				out[i] = text
			}
		}
		v.set = func(i int, _ protowire.Type, value []byte, _ bool) { out[i] = string(value) }
		return v
	}
	switch t.DType() {
	case tensor.Bool:
		fillNumbers(&v, element.ViewOf[bool](t), func(d protoreflect.Value) bool { return d.Bool() }, field,
			func(bits uint64, _ bool) bool { return bits != 0 })
	case tensor.Float32:
		fillNumbers(&v, element.ViewOf[float32](t), func(d protoreflect.Value) float32 { return float32(d.Float()) }, field,
			func(bits uint64, _ bool) float32 { return math.Float32frombits(uint32(bits)) })
	case tensor.Float64:
		fillNumbers(&v, element.ViewOf[float64](t), protoreflect.Value.Float, field, func(bits uint64, _ bool) float64 {
			if kind == protoreflect.FloatKind {
				return float64(math.Float32frombits(uint32(bits)))
			}
			return math.Float64frombits(bits)
		})
	case tensor.Uint32:
		fillNumbers(&v, element.ViewOf[uint32](t), func(d protoreflect.Value) uint32 { return uint32(d.Uint()) }, field,
			func(bits uint64, _ bool) uint32 { return uint32(bits) })
	case tensor.Uint64:
		fillNumbers(&v, element.ViewOf[uint64](t), protoreflect.Value.Uint, field, func(bits uint64, _ bool) uint64 {
			if kind == protoreflect.Uint32Kind {
				return uint64(uint32(bits))
			}
			return bits
		})
	case tensor.Int32:
		fillNumbers(&v, element.ViewOf[int32](t), signedDefault[int32](kind), field, func(bits uint64, _ bool) int32 {
			if kind == protoreflect.Sint32Kind {
				return int32(protowire.DecodeZigZag(uint64(uint32(bits))))
			}
			return int32(bits)
		})
	case tensor.Int64:
		fillNumbers(&v, element.ViewOf[int64](t), signedDefault[int64](kind), field, func(bits uint64, packed bool) int64 {
			switch kind {
			case protoreflect.Int32Kind:
				if packed { // TensorFlow drops the sign
					return int64(uint32(bits))
				}
				return int64(int32(bits))
			case protoreflect.Sfixed32Kind:
				return int64(int32(bits))
			case protoreflect.Sint32Kind:
				return int64(int32(protowire.DecodeZigZag(uint64(uint32(bits)))))
			case protoreflect.Sint64Kind:
				return protowire.DecodeZigZag(bits)
			default:
				return int64(bits)
			}
		})
	}
	return v
}

// signedDefault reads the default of a signed field or an enumeration.
func signedDefault[T int32 | int64](kind protoreflect.Kind) func(protoreflect.Value) T {
	if kind == protoreflect.EnumKind {
		return func(v protoreflect.Value) T { return T(v.Enum()) }
	}
	return func(v protoreflect.Value) T { return T(v.Int()) }
}

// fillNumbers makes v write elements of out, which decode converts from the bits of a number.
func fillNumbers[T any](v *fieldValues, out []T, ofDefault func(protoreflect.Value) T, field protoreflect.FieldDescriptor, decode func(bits uint64, packed bool) T) {
	var byDefault T
	if field.IsList() {
		if e := field.Enum(); e != nil { // the first value of an enumeration need not be 0
			byDefault = ofDefault(protoreflect.ValueOfEnum(e.Values().Get(0).Number()))
		}
	} else {
		byDefault = ofDefault(field.Default())
	}
	v.fill = func(lo, hi int) {
		for i := lo; i < hi; i++ {
			out[i] = byDefault
		}
	}
	v.set = func(i int, wire protowire.Type, value []byte, packed bool) {
		var bits uint64
		switch wire {
		case protowire.Fixed32Type:
			b, _ := protowire.ConsumeFixed32(value)
			bits = uint64(b)
		case protowire.Fixed64Type:
			bits, _ = protowire.ConsumeFixed64(value)
		default:
			bits, _ = protowire.ConsumeVarint(value)
		}
		out[i] = decode(bits, packed)
	}
}
