// Package tracing reports steps to OpenTelemetry: spans for runs, for their parts on other tasks, for tensors that these receive,
// and for building plans. The context of a trace comes with a client's call, in the headers traceparent and tracestate, or from the Go
// program that runs a step on a server in its process.
package tracing

import (
	"context"
	"log/slog"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/spans"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

type tracer struct{ trace.Tracer }

var _ actors.Tracer = tracer{}

// New returns a tracer of the provider, or nil if p is nil.
func New(p trace.TracerProvider) actors.Tracer {
	if p == nil {
		return nil
	}
	return tracer{p.Tracer(spans.Name)}
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
	parent := spans.Within(below.Parent, below.State)
	if !trace.SpanContextFromContext(parent).IsValid() {
		return nil
	}
	return t.begin(parent, "troupe.part", attributes)
}

// begin begins the span of a request from outside.
func (t tracer) begin(parent context.Context, name string, attributes []slog.Attr, more ...trace.SpanStartOption) actors.Span {
	ctx, s := t.Start(parent, name, append(more, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(spans.KeyValues(attributes)...))...)
	if !s.IsRecording() {
		s.End()
		return nil
	}
	return &span{t, ctx, s}
}

// callOf returns a context with only the trace of a call, so a span does not retain the call.
func callOf(ctx context.Context) context.Context {
	if parent, state := http2.TraceContextOf(ctx); parent != "" {
		return spans.Within(parent, state)
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return trace.ContextWithSpanContext(context.Background(), c)
	}
	return context.Background()
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
	ctx, below := s.tracer.Start(s.ctx, name, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(spans.KeyValues(attributes)...))
	return &span{s.tracer, ctx, below} // recorded, or cheap
}

// Add records a span below this one.
func (s *span) Add(name string, began, ended time.Time, err error, attributes ...slog.Attr) {
	_, below := s.tracer.Start(s.ctx, name, trace.WithTimestamp(began), trace.WithAttributes(spans.KeyValues(attributes)...))
	spans.Tell(below, err)
	below.End(trace.WithTimestamp(ended))
}

// Set adds attributes.
func (s *span) Set(attributes ...slog.Attr) { s.span.SetAttributes(spans.KeyValues(attributes)...) }

// Context returns the span's context for other processes.
func (s *span) Context() actors.TraceContext {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(s.ctx, c)
	return actors.TraceContext{Parent: c[spans.ParentHeader], State: c[spans.StateHeader]}
}

// Log returns a logger whose records contain the trace and span ids.
func (s *span) Log(log *slog.Logger) *slog.Logger {
	c := s.span.SpanContext()
	return log.With("trace_id", c.TraceID().String(), "span_id", c.SpanID().String())
}

// End ends the span.
func (s *span) End(err error) {
	spans.Tell(s.span, err)
	s.span.End()
}
