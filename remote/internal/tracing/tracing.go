// Package tracing tells OpenTelemetry of steps: spans for runs, for the parts of them on other tasks, and for building plans.
// The context of a trace comes with a client's call, in the header traceparent, or from the Go program that runs a step of a
// server in its process.
package tracing

import (
	"context"
	"log/slog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// name is that of the instrumentation.
const name = "github.com/troupe-run/troupe"

// header is the name of what carries a trace's context (W3C Trace Context).
const header = "traceparent"

type tracer struct{ trace.Tracer }

var _ actors.Tracer = tracer{}

// New makes a tracer of a provider's; nil of nil.
func New(p trace.TracerProvider) actors.Tracer {
	if p == nil {
		return nil
	}
	return tracer{p.Tracer(name)}
}

// Run begins the span of a step. The client's context of a trace, if there is one, decides whether it is recorded, and the
// provider's sampler otherwise.
func (t tracer) Run(ctx context.Context, attributes ...slog.Attr) actors.Span {
	parent := context.Background() // a span does not keep the call
	if p := http2.TraceparentOf(ctx); p != "" {
		parent = within(p)
	} else if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		parent = trace.ContextWithSpanContext(parent, c)
	}
	return t.begin(parent, "troupe.run", trace.SpanKindServer, attributes)
}

// Part begins the span of a part.
func (t tracer) Part(traceparent string, attributes ...slog.Attr) actors.Span {
	parent := within(traceparent)
	if !trace.SpanContextFromContext(parent).IsValid() {
		return nil
	}
	return t.begin(parent, "troupe.part", trace.SpanKindServer, attributes)
}

func (t tracer) begin(parent context.Context, name string, kind trace.SpanKind, attributes []slog.Attr) actors.Span {
	ctx, s := t.Start(parent, name, trace.WithSpanKind(kind), trace.WithAttributes(keyValues(attributes)...))
	if !s.IsRecording() {
		s.End()
		return nil
	}
	return &span{t, ctx, s}
}

// within is a context of a trace; one without where the header is malformed.
func within(traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{header: traceparent})
}

func keyValues(attributes []slog.Attr) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(attributes))
	for i, a := range attributes {
		all[i] = attribute.String(a.Key, a.Value.String())
	}
	return all
}

// span is a span that is recorded.
type span struct {
	tracer tracer
	ctx    context.Context
	span   trace.Span
}

var _ actors.Span = (*span)(nil)

// Begin begins a span below this one.
func (s *span) Begin(name string, attributes ...slog.Attr) actors.Span {
	ctx, below := s.tracer.Start(s.ctx, name, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(keyValues(attributes)...))
	return &span{s.tracer, ctx, below} // it is recorded, or costs little
}

// Set adds attributes.
func (s *span) Set(attributes ...slog.Attr) { s.span.SetAttributes(keyValues(attributes)...) }

// Traceparent names the span to other processes.
func (s *span) Traceparent() string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(s.ctx, c)
	return c[header]
}

// Log is a logger whose records tell the trace.
func (s *span) Log(log *slog.Logger) *slog.Logger {
	c := s.span.SpanContext()
	return log.With("trace_id", c.TraceID().String(), "span_id", c.SpanID().String())
}

// End ends the span.
func (s *span) End(err error) {
	if err != nil {
		e := status.From(err)
		s.span.SetAttributes(attribute.String("rpc.grpc.status_code", e.Code.String()))
		s.span.SetStatus(codes.Error, e.Message)
	}
	s.span.End()
}
