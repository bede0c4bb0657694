package port

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of grpc.health.v1 encode themselves: the package that has them brings all of gRPC along.

// healthStatus is a HealthCheckResponse.ServingStatus.
type healthStatus uint64

const (
	healthUnknown healthStatus = iota
	healthServing
	healthNotServing
	healthUnknownService
)

var errNotUTF8 = errors.New("the name of a service is not UTF-8")

const (
	fieldService  = 1 // of HealthCheckRequest
	fieldStatus   = 1 // of HealthCheckResponse
	fieldStatuses = 1 // of HealthListResponse: a map
	fieldKey      = 1 // of an entry of a map
	fieldValue    = 2
)

// healthRequest is a HealthCheckRequest.
type healthRequest struct{ service string }

var _ WireUnmarshaler = (*healthRequest)(nil)

// UnmarshalWire decodes the request. Fields that are not known are skipped, as protobuf does.
func (q *healthRequest) UnmarshalWire(data mem.BufferSlice, _ func() error) error {
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	for b := buffer.ReadOnlyData(); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if number == fieldService && kind == protowire.BytesType {
			if q.service, n = protowire.ConsumeString(b); n >= 0 && !utf8.ValidString(q.service) {
				return errNotUTF8
			}
		} else {
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	return nil
}

// healthResponse is a HealthCheckResponse.
type healthResponse healthStatus

var _ WireMarshaler = healthResponse(0)

// MarshalWire encodes the answer.
func (r healthResponse) MarshalWire() (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(r.append(nil))}, nil
}

func (r healthResponse) append(b []byte) []byte {
	if r == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, fieldStatus, protowire.VarintType), uint64(r))
}

// healthListResponse is a HealthListResponse of services that all have the same status.
type healthListResponse struct {
	services []string
	status   healthStatus
}

var _ WireMarshaler = healthListResponse{}

// MarshalWire encodes the answer.
func (r healthListResponse) MarshalWire() (mem.BufferSlice, error) {
	value := healthResponse(r.status).append(nil)
	var b []byte
	for _, name := range r.services {
		entry := protowire.AppendString(protowire.AppendTag(nil, fieldKey, protowire.BytesType), name)
		entry = protowire.AppendBytes(protowire.AppendTag(entry, fieldValue, protowire.BytesType), value)
		b = protowire.AppendBytes(protowire.AppendTag(b, fieldStatuses, protowire.BytesType), entry)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}
