package tensor

import (
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// decodedMessage is the size in bytes of a decoded message in Go, with the pointer to it and its part of a list or map.
	decodedMessage = 256
	// decodedBytes is the overhead of a string or byte slice beyond its content.
	decodedBytes = 40
	// decodedNumber is the size of a number.
	decodedNumber = 8
	// decodedDepth is how deep nested messages are inspected.
	decodedDepth = 100
	// cheapMessage is the size up to which a message is decoded without estimating its decoded size.
	cheapMessage = 16 << 10
)

// Unmarshal decodes a protobuf message if the process has enough memory for the result: two bytes on the wire may become hundreds. It
// fails with RESOURCE_EXHAUSTED if not, and with the decoder's error for a malformed message. The message's memory counts while it is
// being decoded, and after that like everything on the heap; see Account.
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

// DecodedSize estimates how many bytes of memory an encoded message takes once decoded. It allocates nothing.
func DecodedSize(m protoreflect.MessageDescriptor, b []byte) int64 {
	return decodedSize(m, b, decodedDepth)
}

func decodedSize(m protoreflect.MessageDescriptor, b []byte, depth int) int64 {
	size := int64(decodedMessage)
	fields := m.Fields()
	var f protoreflect.FieldDescriptor
	last := protowire.Number(-1) // the number of f; the elements of a list are adjacent
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return size // the decoder stops here, too
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

// decodedField returns the decoded size of a length-delimited field.
func decodedField(f protoreflect.FieldDescriptor, v []byte, depth int) int64 {
	switch {
	case f == nil: // unknown fields are kept as they are
		return decodedBytes + int64(len(v))
	case f.Message() != nil && depth > 0:
		return decodedSize(f.Message(), v, depth-1)
	case f.Message() != nil:
		return decodedMessage + decodedMessage/2*int64(len(v))
	}
	switch f.Kind() { // lists of numbers are packed; each varint takes at least one byte
	case protoreflect.StringKind, protoreflect.BytesKind:
		return decodedBytes + int64(len(v))
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
		return 4 * int64(len(v))
	case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind:
		return decodedNumber * int64(len(v))
	}
	return int64(len(v))
}
