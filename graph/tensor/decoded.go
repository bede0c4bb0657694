package tensor

import (
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// decodedMessage is the bytes that a message takes in Go, with the pointer to it and its share of a list or map.
	decodedMessage = 256
	// decodedBytes is what a string or a list of bytes takes beside its content.
	decodedBytes = 40
	// decodedNumber is what a number takes.
	decodedNumber = 8
	// decodedDepth bounds the messages in one another that are looked into.
	decodedDepth = 100
	// cheapMessage is the bytes of a message that is decoded without a look at what it will take.
	cheapMessage = 16 << 10
)

// Unmarshal decodes a protobuf message, if the process has the memory that it takes then: two bytes on the wire may
// become hundreds. It fails with RESOURCE_EXHAUSTED, and with the decoder's error for a malformed message. What the
// message takes counts while it is decoded, and later as everything on the heap does: see Account.
func Unmarshal(b []byte, m proto.Message) error {
	if len(b) <= cheapMessage {
		return proto.Unmarshal(b, m)
	}
	size := DecodedSize(m.ProtoReflect().Descriptor(), b)
	if err := Host.Reserve(size); err != nil {
		return status.Errorf(status.ResourceExhausted, "a %s of %d bytes takes %d bytes when it is decoded: %s",
			m.ProtoReflect().Descriptor().FullName(), len(b), size, status.From(err).Message)
	}
	defer Host.Unreserve(size)
	return proto.Unmarshal(b, m)
}

// DecodedSize is about how many bytes of memory a message takes that has not been decoded yet. It allocates nothing.
func DecodedSize(m protoreflect.MessageDescriptor, b []byte) int64 {
	return decodedSize(m, b, decodedDepth)
}

func decodedSize(m protoreflect.MessageDescriptor, b []byte, depth int) int64 {
	size := int64(decodedMessage)
	fields := m.Fields()
	var f protoreflect.FieldDescriptor
	last := protowire.Number(-1) // of f: fields of a list follow each other
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return size // the decoder goes no further either
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return size
		}
		if num != last {
			f, last = fields.ByNumber(num), num
		}
		if typ != protowire.BytesType {
			size += decodedNumber
			b = b[n:]
			continue
		}
		v, _ := protowire.ConsumeBytes(b)
		size += decodedField(f, v, depth)
		b = b[n:]
	}
	return size
}

// decodedField is what a field takes that has a length.
func decodedField(f protoreflect.FieldDescriptor, v []byte, depth int) int64 {
	switch {
	case f == nil: // unknown: kept as it is
		return decodedBytes + int64(len(v))
	case f.Message() != nil && depth > 0:
		return decodedSize(f.Message(), v, depth-1)
	case f.Message() != nil:
		return decodedMessage + decodedMessage/2*int64(len(v))
	}
	switch f.Kind() { // lists of numbers are packed: of those that are varints each takes a byte or more
	case protoreflect.StringKind, protoreflect.BytesKind:
		return decodedBytes + int64(len(v))
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
		return 4 * int64(len(v))
	case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind:
		return decodedNumber * int64(len(v))
	}
	return int64(len(v))
}
