// Package tracing reports steps to OpenTelemetry: spans for runs, for their parts on other tasks, for tensors that these receive,
// and for building plans. The context of a trace comes with a client's call, in the headers traceparent and tracestate, or from the Go
// program that runs a step on a server in its process.
package tracing

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// name is the name of the instrumentation.
const name = "github.com/troupe-run/troupe"

// The headers that carry a trace's context (W3C Trace Context).
const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
)

type tracer struct{ trace.Tracer }

var _ actors.Tracer = tracer{}

// New returns a tracer of the provider, or nil if p is nil.
func New(p trace.TracerProvider) actors.Tracer {
	if p == nil {
		return nil
	}
	return tracer{p.Tracer(name)}
}

// Run begins the span of a step. The client's trace context, if any, decides whether it is recorded; otherwise
// the provider's sampler does.
func (t tracer) Run(ctx context.Context, attributes ...slog.Attr) actors.Span {
	return t.begin(callOf(ctx), "troupe.run", attributes)
}

// PartialCall begins the span of a call of a partial run.
func (t tracer) PartialCall(ctx context.Context, run actors.Span, attributes ...slog.Attr) actors.Span {
	parent := callOf(ctx)
	of, _ := run.(*span)
	var links []trace.SpanStartOption
	switch own := trace.SpanContextFromContext(parent).IsValid(); {
	case own && of != nil:
		links = append(links, trace.WithLinks(trace.Link{SpanContext: of.span.SpanContext()}))
	case own:
	case of != nil:
		parent = of.ctx
	default:
		return nil
	}
	return t.begin(parent, "troupe.partial_run", attributes, links...)
}

// Part begins the span of a part.
func (t tracer) Part(below actors.TraceContext, attributes ...slog.Attr) actors.Span {
	parent := within(below.Parent, below.State)
	if !trace.SpanContextFromContext(parent).IsValid() {
		return nil
	}
	return t.begin(parent, "troupe.part", attributes)
}

// begin begins the span of a request from outside.
func (t tracer) begin(parent context.Context, name string, attributes []slog.Attr, more ...trace.SpanStartOption) actors.Span {
	ctx, s := t.Start(parent, name, append(more, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(keyValues(attributes)...))...)
	if !s.IsRecording() {
		s.End()
		return nil
	}
	return &span{t, ctx, s}
}

// callOf returns a context with only the trace of a call, so a span does not retain the call.
func callOf(ctx context.Context) context.Context {
	if parent, state := http2.TraceContextOf(ctx); parent != "" {
		return within(parent, state)
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return trace.ContextWithSpanContext(context.Background(), c)
	}
	return context.Background()
}

// within returns a context with a trace. If traceparent is malformed, there is none. A malformed tracestate is ignored.
func within(traceparent, tracestate string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{parentHeader: traceparent, stateHeader: tracestate})
}

// keyValues converts attributes to OpenTelemetry's: integers, booleans, and everything else as text.
func keyValues(attributes []slog.Attr) []attribute.KeyValue {
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

// span is a recorded span.
type span struct {
	tracer tracer
	ctx    context.Context
	span   trace.Span
}

var _ actors.Span = (*span)(nil)

// Begin begins a span below this one.
func (s *span) Begin(name string, attributes ...slog.Attr) actors.Span {
	ctx, below := s.tracer.Start(s.ctx, name, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(keyValues(attributes)...))
	return &span{s.tracer, ctx, below} // recorded, or cheap
}

// Add records a span below this one.
func (s *span) Add(name string, began, ended time.Time, err error, attributes ...slog.Attr) {
	_, below := s.tracer.Start(s.ctx, name, trace.WithTimestamp(began), trace.WithAttributes(keyValues(attributes)...))
	tell(below, err)
	below.End(trace.WithTimestamp(ended))
}

// Set adds attributes.
func (s *span) Set(attributes ...slog.Attr) { s.span.SetAttributes(keyValues(attributes)...) }

// Context returns the span's context for other processes.
func (s *span) Context() actors.TraceContext {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(s.ctx, c)
	return actors.TraceContext{Parent: c[parentHeader], State: c[stateHeader]}
}

// Log returns a logger whose records contain the trace and span ids.
func (s *span) Log(log *slog.Logger) *slog.Logger {
	c := s.span.SpanContext()
	return log.With("trace_id", c.TraceID().String(), "span_id", c.SpanID().String())
}

// End ends the span.
func (s *span) End(err error) {
	tell(s.span, err)
	s.span.End()
}

// tell records err in a span, if it is not nil.
func tell(s trace.Span, err error) {
	if err == nil {
		return
	}
	e := status.From(err)
	s.SetAttributes(attribute.String("error.type", e.Code.String()), attribute.Int("rpc.grpc.status_code", int(e.Code)))
	s.SetStatus(codes.Error, bounded(e.Message))
}
