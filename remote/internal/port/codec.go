package port

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// WireMarshaler is a message that encodes itself without copying its large contents.
// The pieces must not change until the transport has freed them.
type WireMarshaler interface {
	MarshalWire() (mem.BufferSlice, error)
}

// WireUnmarshaler is a message that decodes itself. The data is valid only during the call,
// unless it is retained with Ref.
type WireUnmarshaler interface {
	UnmarshalWire(data mem.BufferSlice) error
}

// Codec is the codec of both ends of every connection: protobuf, except for messages that decode
// or encode themselves. It is named proto because that is the content type on the wire.
type Codec struct{}

var protobuf = encoding.GetCodecV2("proto")

// Name returns proto.
func (Codec) Name() string { return "proto" }

// Marshal encodes v.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(WireMarshaler); ok {
		return m.MarshalWire()
	}
	return protobuf.Marshal(v)
}

// Unmarshal decodes v.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(WireUnmarshaler); ok {
		return m.UnmarshalWire(data)
	}
	m, ok := v.(proto.Message)
	if !ok {
		return protobuf.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return tensor.Unmarshal(b.ReadOnlyData(), m)
}
