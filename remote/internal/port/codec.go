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
// unless it is retained with Ref. UnmarshalWire fails soon after ended, which may be nil, returns an error.
type WireUnmarshaler interface {
	UnmarshalWire(data mem.BufferSlice, ended func() error) error
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
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error { return c.UnmarshalUntil(data, v, nil) }

// UnmarshalUntil decodes v, and fails soon after ended, which may be nil, returns an error: nobody waits for the message any more.
func (Codec) UnmarshalUntil(data mem.BufferSlice, v any, ended func() error) error {
	if m, ok := v.(WireUnmarshaler); ok {
		return m.UnmarshalWire(data, ended)
	}
	m, ok := v.(proto.Message)
	if !ok {
		return protobuf.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return tensor.UnmarshalUntil(b.ReadOnlyData(), m, ended)
}
