// Package spans makes OpenTelemetry's spans: what all of them have in common, and those of messages to programs' actors.
package spans

import (
	"context"
	"log/slog"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Name is the name of the instrumentation.
const Name = "github.com/troupe-run/troupe"

// The headers that carry a trace's context (W3C Trace Context).
const (
	ParentHeader = "traceparent"
	StateHeader  = "tracestate"
)

// Within returns a context with a trace. If traceparent is malformed, there is none. A malformed tracestate is ignored.
func Within(traceparent, tracestate string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{ParentHeader: traceparent, StateHeader: tracestate})
}

// KeyValues converts attributes to OpenTelemetry's: integers, booleans, and everything else as text.
func KeyValues(attributes []slog.Attr) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(attributes))
	for i, a := range attributes {
		switch a.Value.Kind() {
		case slog.KindInt64:
			all[i] = attribute.Int64(a.Key, a.Value.Int64())
		case slog.KindBool:
			all[i] = attribute.Bool(a.Key, a.Value.Bool())
		default:
			all[i] = attribute.String(a.Key, bounded(a.Value.String()))
		}
	}
	return all
}

// maxText bounds the bytes of a text in a span, such as an error's message or a name in a client's graph.
const maxText = 1024

// bounded returns s as a text that exporters can send: valid UTF-8, cut after maxText bytes.
func bounded(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Tell records err in a span, if it is not nil.
func Tell(s trace.Span, err error) {
	if err == nil {
		return
	}
	e := status.From(err)
	s.SetAttributes(attribute.String("error.type", e.Code.String()), attribute.Int("rpc.grpc.status_code", int(e.Code)))
	s.SetStatus(codes.Error, bounded(e.Message))
}
