package port

import (
	"testing"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// TestHealthMessages compares our messages with gRPC's own.
func TestHealthMessages(t *testing.T) {
	for _, data := range []string{
		"", "\x0a\x00", "\x0a\x03abc", "\x0a\x01a\x0a\x02bc", "\x0a\x02\xc3\xa9", // names
		"\x12\x01x\x0a\x01a", "\x0a\x01a\x18\x05", "\x1b\x20\x01\x1c\x0a\x01a", "\x08\x07\x0a\x01a", // unknown fields, a group, and another type
		"\x0a", "\x0a\x05ab", "\x0a\x01\xff", "\x1b\x0a\x01a", "\x1c", "\xff", "\x00\x00", "\x08", // malformed ones
	} {
		var want healthpb.HealthCheckRequest
		wrong := proto.Unmarshal([]byte(data), &want)
		var got healthRequest
		err := got.UnmarshalWire(mem.BufferSlice{mem.SliceBuffer(data)}, nil)
		if (err == nil) != (wrong == nil) || err == nil && got.service != want.Service {
			t.Errorf("%q: %q, %v; gRPC's: %q, %v", data, got.service, err, want.Service, wrong)
		}
	}
	for st := range healthpb.HealthCheckResponse_ServingStatus_name {
		one, all := &healthpb.HealthCheckResponse{}, &healthpb.HealthListResponse{}
		sent := map[proto.Message]WireMarshaler{one: healthResponse(st), all: healthListResponse{[]string{"", "a.Service"}, healthStatus(st)}}
		for into, m := range sent {
			data, err := m.MarshalWire()
			if err == nil {
				err = proto.Unmarshal(data.Materialize(), into)
			}
			if err != nil {
				t.Error(err)
			}
		}
		want := healthpb.HealthCheckResponse_ServingStatus(st)
		if one.Status != want || len(one.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("a response of %v is read as %v", want, one)
		}
		if len(all.Statuses) != 2 || all.Statuses[""].GetStatus() != want || all.Statuses["a.Service"].GetStatus() != want {
			t.Errorf("a list of %v is read as %v", want, all)
		}
	}
}
