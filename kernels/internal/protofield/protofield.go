// Package protofield reads protobuf messages field by field, without their descriptors.
package protofield

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is a field of a message. Of its values, only the one for its type is set; a group has none.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	Bytes  []byte // a part of the message, not a copy
	Varint uint64
	Fixed  uint64 // of 32 or 64 bits
}

// Is reports whether the field has a number and a type.
func (f *Field) Is(number protowire.Number, kind protowire.Type) bool {
	return f.Number == number && f.Type == kind
}

// Error is the error for a malformed message. Its text is its cause's, which users see in errors of ops.
type Error struct {
	Offset int // of the malformed field in the message, or of the malformed number in a packed field
	Cause  error
}

func (e *Error) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// All returns the fields of a message in their order. If the message is malformed, the last element is an *Error and no field.
func All(message []byte) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		for rest := message; len(rest) > 0; {
			f, n := consume(rest)
			if n < 0 {
				yield(Field{}, &Error{len(message) - len(rest), protowire.ParseError(n)})
				return
			}
			if !yield(f, nil) {
				return
			}
			rest = rest[n:]
		}
	}
}

// consume reads the first field of b. n is its length, or negative for protowire.ParseError.
func consume(b []byte) (f Field, n int) {
	var head int
	if f.Number, f.Type, head = protowire.ConsumeTag(b); head < 0 {
		return f, head
	}
	b = b[head:]
	switch f.Type {
	case protowire.VarintType:
		f.Varint, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.Bytes, n = protowire.ConsumeBytes(b)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		f.Fixed = uint64(v)
	case protowire.Fixed64Type:
		f.Fixed, n = protowire.ConsumeFixed64(b)
	default:
		n = protowire.ConsumeFieldValue(f.Number, f.Type, b)
	}
	if n < 0 {
		return f, n
	}
	return f, head + n
}

// Varints returns the numbers of a repeated field of varints: those packed into its bytes, or its only one. If the bytes are malformed, the
// last element is an *Error.
func (f *Field) Varints() iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		if f.Type != protowire.BytesType {
			yield(f.Varint, nil)
			return
		}
		for rest := f.Bytes; len(rest) > 0; {
			v, n := protowire.ConsumeVarint(rest)
			if n < 0 {
				yield(0, &Error{len(f.Bytes) - len(rest), protowire.ParseError(n)})
				return
			}
			if !yield(v, nil) {
				return
			}
			rest = rest[n:]
		}
	}
}
