package input

import (
	_ "embed"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/disk"
)

// protoSchema is the common part of DecodeProtoV2 and EncodeProto: a message type. It is looked up at the first run, since its description
// may be in a file.
type protoSchema struct {
	source, message string
	names           []string // of fields

	mu    sync.Mutex
	found *protoMessage
}

// protoMessage is a message type with the fields that an op uses.
type protoMessage struct {
	protoreflect.MessageDescriptor
	types  *dynamicpb.Types // of the messages and extensions it may contain
	fields []protoreflect.FieldDescriptor
}

func newProtoSchema(c *kernels.Construction) (*protoSchema, error) {
	a := c.Attrs().Reader()
	return &protoSchema{source: a.Str("descriptor_source"), message: a.Str("message_type"), names: a.StrList("field_names")}, a.Err()
}

// resolve looks up the message and its fields. Extensions, if allowed, are found by their full names.
func (s *protoSchema) resolve(ctx *kernels.Context, extensions bool) (*protoMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found != nil {
		return s.found, nil
	}
	pool, err := s.pool(ctx)
	if err != nil {
		return nil, err
	}
	d, err := pool.FindDescriptorByName(protoreflect.FullName(s.message))
	message, ok := d.(protoreflect.MessageDescriptor)
	if err != nil || !ok {
		return nil, status.InvalidArgumentf("No descriptor found for message type %s", s.message)
	}
	found := &protoMessage{MessageDescriptor: message, types: dynamicpb.NewTypes(pool)}
	for _, name := range s.names {
		field := message.Fields().ByName(protoreflect.Name(name))
		if field == nil && extensions {
			if d, err := pool.FindDescriptorByName(protoreflect.FullName(name)); err == nil {
				if x, ok := d.(protoreflect.ExtensionDescriptor); ok && x.IsExtension() && x.ContainingMessage().FullName() == message.FullName() {
					field = x
				}
			}
		}
		if field == nil {
			return nil, status.InvalidArgumentf("Unknown field: %s in message type %s", name, s.message)
		}
		found.fields = append(found.fields, field)
	}
	s.found = found
	return found, nil
}

//go:embed example.txtpb
var exampleFiles []byte

// ownFiles are the messages that "local://" stands for: TensorFlow's examples, and those of the program. If both declare a message, the
// first declaration counts: a program may well contain the examples too.
var ownFiles = sync.OnceValues(func() (*protoregistry.Files, error) {
	set := new(descriptorpb.FileDescriptorSet)
	if err := prototext.Unmarshal(exampleFiles, set); err != nil {
		return nil, err
	}
	own, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		_ = own.RegisterFile(f) // fails for the second one
		return true
	})
	return own, nil
})

// pool returns the messages of descriptor_source: those of the program, or of a FileDescriptorSet in a file or in the attribute itself.
func (s *protoSchema) pool(ctx *kernels.Context) (*protoregistry.Files, error) {
	if s.source == "" || s.source == "local://" {
		return ownFiles()
	}
	serialized, given := strings.CutPrefix(s.source, "bytes://")
	if !given {
		var err error
		if serialized, err = files.Read(disk.Files(ctx), s.source); status.CodeOf(err) == status.NotFound {
			return nil, s.unrepresented()
		} else if err != nil {
			return nil, err
		}
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal([]byte(serialized), set); err != nil {
		if given {
			return nil, s.unrepresented()
		}
		return nil, status.InvalidArgumentf("descriptor_source contains invalid FileDescriptorSet: %s", s.source)
	}
	pool, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, status.InvalidArgumentf("Failed to load FileDescriptorProto: %v", err)
	}
	return pool, nil
}

// unrepresented returns the error for a source that is neither messages nor a file.
func (s *protoSchema) unrepresented() error {
	return status.InvalidArgumentf("Source does not represent serialized file descriptor set proto. "+
		"This may be due to a missing dependency on the file containing REGISTER_DESCRIPTOR_POOL(%q, ...);", s.source)
}

// fits reports whether elements of dtype can represent values of a field.
func fits(kind protoreflect.Kind, dtype tensor.DType) bool {
	switch kind {
	case protoreflect.DoubleKind:
		return dtype == tensor.Float64
	case protoreflect.FloatKind:
		return dtype == tensor.Float32 || dtype == tensor.Float64
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind, protoreflect.Sint64Kind:
		return dtype == tensor.Int64
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return dtype == tensor.Uint64
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind, protoreflect.Sint32Kind:
		return dtype == tensor.Int32 || dtype == tensor.Int64
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return dtype == tensor.Uint32 || dtype == tensor.Uint64
	case protoreflect.BoolKind:
		return dtype == tensor.Bool
	case protoreflect.EnumKind:
		return dtype == tensor.Int32
	default:
		return dtype == tensor.String
	}
}

// cppType returns the C++ protobuf name of the type of a field's values.
func cppType(kind protoreflect.Kind) string {
	switch kind {
	case protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return "int32"
	case protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return "int64"
	case protoreflect.Fixed32Kind:
		return "uint32"
	case protoreflect.Fixed64Kind:
		return "uint64"
	case protoreflect.BytesKind:
		return "string"
	case protoreflect.GroupKind:
		return "message"
	default:
		return kind.String()
	}
}
