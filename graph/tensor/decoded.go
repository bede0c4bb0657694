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
	// decodedPiece is the size of the parts in which UnmarshalUntil decodes a message, which takes some milliseconds each, and decodedInto is how
	// deep it divides nested messages.
	decodedPiece = 1 << 20
	decodedInto  = 3
)

// Unmarshal decodes a protobuf message if the process has enough memory for the result: two bytes on the wire may become hundreds. It
// fails with RESOURCE_EXHAUSTED if not, and with the decoder's error for a malformed message. The message's memory counts while it is
// being decoded, and after that like everything on the heap; see Account.
func Unmarshal(b []byte, m proto.Message) error { return UnmarshalUntil(b, m, nil) }

// UnmarshalUntil is like Unmarshal, but fails with ended's error when ended returns one: gigabytes of small fields take many seconds. ended may
// be nil. It is called between the elements of lists, so one large element is decoded to its end.
func UnmarshalUntil(b []byte, m proto.Message, ended func() error) error {
	if len(b) <= cheapMessage {
		return proto.Unmarshal(b, m)
	}
	s := sizing{look: lookout{ended: ended}}
	size := s.message(m.ProtoReflect().Descriptor(), b, decodedDepth)
	if s.err != nil {
		return s.err
	}
	if err := Host.Reserve(size); err != nil {
		return status.Errorf(status.ResourceExhausted, "a %s of %d bytes takes %d bytes when it is decoded: %s",
			m.ProtoReflect().Descriptor().FullName(), len(b), size, status.From(err).Message)
	}
	defer Host.Unreserve(size)
	if ended == nil || len(b) <= decodedPiece {
		return proto.Unmarshal(b, m)
	}
	proto.Reset(m)
	if err := mergePieces(b, m.ProtoReflect(), ended, decodedInto); err != nil {
		return err
	}
	return proto.CheckInitialized(m)
}

// mergePieces decodes b into m in several parts, each of some whole fields. It divides a large field if its contents are a message that occurs
// once: as an encoded message may contain such a field several times, its parts are merged as well.
func mergePieces(b []byte, m protoreflect.Message, ended func() error, depth int) error {
	merge := func(piece []byte) error {
		if err := ended(); err != nil {
			return err
		}
		return proto.UnmarshalOptions{Merge: true, AllowPartial: true}.Unmarshal(piece, m.Interface())
	}
	fields := m.Descriptor().Fields()
	from, at := 0, 0
	for at < len(b) {
		num, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			break // the decoder reports it
		}
		size := protowire.ConsumeFieldValue(num, typ, b[at+n:])
		if size < 0 {
			break
		}
		if f := fields.ByNumber(num); size > decodedPiece && depth > 0 && typ == protowire.BytesType && dividesInto(f) {
			if err := merge(b[from:at]); err != nil {
				return err
			}
			contents, _ := protowire.ConsumeBytes(b[at+n:])
			if err := mergePieces(contents, m.Mutable(f).Message(), ended, depth-1); err != nil {
				return err
			}
			from = at + n + size
		}
		at += n + size
		if at-from >= decodedPiece {
			if err := merge(b[from:at]); err != nil {
				return err
			}
			from = at
		}
	}
	return merge(b[from:])
}

// dividesInto reports whether a field holds one message.
func dividesInto(f protoreflect.FieldDescriptor) bool {
	return f != nil && f.Kind() == protoreflect.MessageKind && f.Cardinality() != protoreflect.Repeated
}

// DecodedSize estimates how many bytes of memory an encoded message takes once decoded. It allocates nothing.
func DecodedSize(m protoreflect.MessageDescriptor, b []byte) int64 {
	var s sizing
	return s.message(m, b, decodedDepth)
}

// sizing is the state of an estimate, which stops with the error of its lookout.
type sizing struct {
	look lookout
	err  error
}

// stopped counts a field and reports whether the estimate is no longer wanted.
func (s *sizing) stopped() bool {
	if s.err == nil {
		s.err = s.look.another()
	}
	return s.err != nil
}

// message returns the decoded size of an encoded message.
func (s *sizing) message(m protoreflect.MessageDescriptor, b []byte, depth int) int64 {
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
		if s.stopped() {
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
		size += s.field(f, v, depth)
		b = b[n:]
	}
	return size
}

// field returns the decoded size of a length-delimited field.
func (s *sizing) field(f protoreflect.FieldDescriptor, v []byte, depth int) int64 {
	switch {
	case f == nil: // unknown fields are kept as they are
		return decodedBytes + int64(len(v))
	case f.Message() != nil && depth > 0:
		return s.message(f.Message(), v, depth-1)
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
