// Package events writes TensorFlow's event files: record files of tensorflow.Event messages, which
// TensorBoard reads.
package events

import (
	"math"
	"time"
	"unicode/utf8"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/kernels/internal/protofield"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The fields of tensorflow.Event (tensorflow/core/util/event.proto) that are written or inspected.
const (
	fieldWallTime       = 1
	fieldStep           = 2
	fieldFileVersion    = 3
	fieldGraphDef       = 4
	fieldSummary        = 5
	fieldLogMessage     = 6
	fieldSourceMetadata = 10

	fieldWriter = 1 // of tensorflow.SourceMetadata
	fieldText   = 2 // of tensorflow.LogMessage
)

// Summary returns the event of a serialized tensorflow.Summary at a step.
func Summary(at time.Time, step int64, summary []byte) []byte {
	return field(begin(at, step), fieldSummary, summary)
}

// Graph returns the event of a serialized tensorflow.GraphDef at a step.
func Graph(at time.Time, step int64, graph []byte) []byte {
	return field(begin(at, step), fieldGraphDef, graph)
}

// Message returns the event of a log message.
func Message(at time.Time, text string) []byte {
	return field(begin(at, 0), fieldLogMessage, field(nil, fieldText, []byte(text)))
}

// version returns the event that every file begins with. Its time is in whole seconds, like the one in the file's name.
func version(at time.Time) []byte {
	b := begin(time.Unix(at.Unix(), 0), 0)
	b = field(b, fieldFileVersion, []byte("brain.Event:2"))
	return field(b, fieldSourceMetadata, field(nil, fieldWriter, []byte("tensorflow.core.util.events_writer")))
}

func begin(at time.Time, step int64) []byte {
	b := protowire.AppendTag(nil, fieldWallTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(at.UnixMicro())/1e6))
	if step != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldStep, protowire.VarintType), uint64(step))
	}
	return b
}

func field(b []byte, number protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

// Valid reports whether b is a serialized tensorflow.Event.
func Valid(b []byte) bool {
	return validFields(b, func(number protowire.Number, v []byte) bool {
		switch number {
		case fieldSummary:
			return proto.Unmarshal(v, &summarypb.Summary{}) == nil
		case fieldFileVersion:
			return utf8.Valid(v)
		case fieldSourceMetadata:
			return validMetadata(v)
		}
		return true
	})
}

// validMetadata reports whether b is a SourceMetadata, whose only field is the writer's name.
func validMetadata(b []byte) bool {
	const fieldWriter = 1
	return validFields(b, func(number protowire.Number, v []byte) bool { return number != fieldWriter || utf8.Valid(v) })
}

// validFields reports whether b is a message whose byte fields are all valid.
func validFields(b []byte, valid func(number protowire.Number, v []byte) bool) bool {
	for f, err := range protofield.All(b) {
		if err != nil || f.Type == protowire.BytesType && !valid(f.Number, f.Bytes) {
			return false
		}
	}
	return true
}
