// Package tracing tells OpenTelemetry of steps: spans for runs, for the parts of them on other tasks, for tensors that these receive,
// and for building plans. The context of a trace comes with a client's call, in the headers traceparent and tracestate, or from the Go
// program that runs a step of a server in its process.
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

// name is that of the instrumentation.
const name = "github.com/troupe-run/troupe"

// What carries a trace's context (W3C Trace Context).
const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
)

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

// begin begins the span of what somebody else asked for.
func (t tracer) begin(parent context.Context, name string, attributes []slog.Attr, more ...trace.SpanStartOption) actors.Span {
	ctx, s := t.Start(parent, name, append(more, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(keyValues(attributes)...))...)
	if !s.IsRecording() {
		s.End()
		return nil
	}
	return &span{t, ctx, s}
}

// callOf is a context with the trace of a call alone: a span does not keep the call.
func callOf(ctx context.Context) context.Context {
	if parent, state := http2.TraceContextOf(ctx); parent != "" {
		return within(parent, state)
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return trace.ContextWithSpanContext(context.Background(), c)
	}
	return context.Background()
}

// within is a context of a trace; one without where traceparent is malformed. A malformed tracestate is left out.
func within(traceparent, tracestate string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{parentHeader: traceparent, stateHeader: tracestate})
}

// keyValues are attributes as OpenTelemetry has them: numbers, truth values, and everything else as text.
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

// maxText is the most bytes of a text of a span: an error's message, a name of a client's graph.
const maxText = 1024

// bounded is a text that exporters can send: valid UTF-8, and not too long.
func bounded(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
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

// Add records a span below this one.
func (s *span) Add(name string, began, ended time.Time, err error, attributes ...slog.Attr) {
	_, below := s.tracer.Start(s.ctx, name, trace.WithTimestamp(began), trace.WithAttributes(keyValues(attributes)...))
	tell(below, err)
	below.End(trace.WithTimestamp(ended))
}

// Set adds attributes.
func (s *span) Set(attributes ...slog.Attr) { s.span.SetAttributes(keyValues(attributes)...) }

// Context names the span to other processes.
func (s *span) Context() actors.TraceContext {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(s.ctx, c)
	return actors.TraceContext{Parent: c[parentHeader], State: c[stateHeader]}
}

// Log is a logger whose records tell the trace.
func (s *span) Log(log *slog.Logger) *slog.Logger {
	c := s.span.SpanContext()
	return log.With("trace_id", c.TraceID().String(), "span_id", c.SpanID().String())
}

// End ends the span.
func (s *span) End(err error) {
	tell(s.span, err)
	s.span.End()
}

// tell gives a span the error of what it is about, if there is one.
func tell(s trace.Span, err error) {
	if err == nil {
		return
	}
	e := status.From(err)
	s.SetAttributes(attribute.String("error.type", e.Code.String()), attribute.Int("rpc.grpc.status_code", int(e.Code)))
	s.SetStatus(codes.Error, bounded(e.Message))
}
