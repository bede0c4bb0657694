package spans

import (
	"context"
	"log/slog"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// messages records the spans of messages to programs' actors. They belong to the trace of a context: a client's call, or a span of the program.
type messages struct{ trace.Tracer }

var _ cast.Tracer = messages{}

// Messages returns a tracer of the provider for programs' actors, or nil if p is nil.
func Messages(p trace.TracerProvider) cast.Tracer {
	if p == nil {
		return nil
	}
	return messages{p.Tracer(Name)}
}

// recorded returns ctx with the trace that it belongs to, and whether that is recorded.
func recorded(ctx context.Context) (context.Context, bool) {
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		if parent, state := http2.TraceContextOf(ctx); parent != "" {
			c = trace.SpanContextFromContext(Within(parent, state))
			ctx = trace.ContextWithRemoteSpanContext(ctx, c)
		}
	}
	return ctx, c.IsSampled()
}

// Of returns the trace of ctx for a message.
func (messages) Of(ctx context.Context) *cast.Trace {
	ctx, ok := recorded(ctx)
	if !ok {
		return nil
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return &cast.Trace{Parent: c[ParentHeader], State: c[StateHeader]}
}

// Ask begins the span of a request to an actor.
func (m messages) Ask(ctx context.Context, attributes ...slog.Attr) (context.Context, cast.Span) {
	ctx, ok := recorded(ctx)
	if !ok {
		return ctx, nil
	}
	return m.begin(ctx, "troupe.ask", trace.SpanKindClient, attributes)
}

// Handle begins the span of an actor that handles a message.
func (m messages) Handle(ctx context.Context, t *cast.Trace, attributes ...slog.Attr) (context.Context, cast.Span) {
	c := trace.SpanContextFromContext(Within(t.Parent, t.State))
	if !c.IsSampled() {
		return ctx, nil
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, c)
	return m.begin(ctx, "troupe.handle", trace.SpanKindConsumer, attributes)
}

func (m messages) begin(ctx context.Context, name string, kind trace.SpanKind, attributes []slog.Attr) (context.Context, cast.Span) {
	ctx, s := m.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(KeyValues(attributes)...))
	return ctx, message{s}
}

// message is the span of a message.
type message struct{ span trace.Span }

// End ends the span.
func (m message) End(err error) {
	Tell(m.span, err)
	m.span.End()
}
