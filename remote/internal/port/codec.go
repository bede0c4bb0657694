package port

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one stands before
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// WireMarshaler is a message that writes itself, without a copy of the large things that it
// holds. The pieces must stay unchanged until the transport has freed them.
type WireMarshaler interface {
	MarshalWire() (mem.BufferSlice, error)
}

// WireUnmarshaler is a message that reads itself. The data is valid during the call only,
// unless it is referenced with Ref.
type WireUnmarshaler interface {
	UnmarshalWire(data mem.BufferSlice) error
}

// Codec is what both ends of every connection speak: protobuf, except for messages that read
// or write themselves. It is named proto because that is the content type on the wire.
type Codec struct{}

var protobuf = encoding.GetCodecV2("proto")

// Name is proto.
func (Codec) Name() string { return "proto" }

// Marshal writes v.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(WireMarshaler); ok {
		return m.MarshalWire()
	}
	return protobuf.Marshal(v)
}

// Unmarshal reads v.
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
