// Package events writes TensorFlow's event files: record files of tensorflow.Event messages, which
// TensorBoard reads.
package events

import (
	"math"
	"time"
	"unicode/utf8"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The fields of tensorflow.Event (tensorflow/core/util/event.proto) that are written or looked into.
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

// Summary is the event of a serialized tensorflow.Summary at a step.
func Summary(at time.Time, step int64, summary []byte) []byte {
	return field(begin(at, step), fieldSummary, summary)
}

// Graph is the event of a serialized tensorflow.GraphDef at a step.
func Graph(at time.Time, step int64, graph []byte) []byte {
	return field(begin(at, step), fieldGraphDef, graph)
}

// Message is the event of a log message.
func Message(at time.Time, text string) []byte {
	return field(begin(at, 0), fieldLogMessage, field(nil, fieldText, []byte(text)))
}

// version is the event that every file begins with. Its time has whole seconds, as the file's name has.
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

// Valid tells whether b is a serialized tensorflow.Event.
func Valid(b []byte) bool {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return false
		}
		if kind == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			if number == fieldSummary && proto.Unmarshal(v, &summarypb.Summary{}) != nil ||
				number == fieldFileVersion && !utf8.Valid(v) || number == fieldSourceMetadata && !Valid(v) {
				return false
			}
		}
		b = b[n:]
	}
	return true
}
