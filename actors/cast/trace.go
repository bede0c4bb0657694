package cast

import (
	"cmp"
	"context"
	"log/slog"
)

// Trace is the context of a trace, as W3C Trace Context writes it.
type Trace struct{ Parent, State string }

// Tracer records spans of requests, and of what actors do with messages, within the traces of those that send them: what has no trace begins none.
// Its methods are safe for concurrent use.
type Tracer interface {
	// Of returns the trace of ctx for a message; nil if there is none that is recorded.
	Of(ctx context.Context) *Trace
	// Ask begins the span of a request within the trace of ctx. It returns a context with the span; or ctx and nil if there is none.
	Ask(ctx context.Context, attributes ...slog.Attr) (context.Context, Span)
	// Handle begins the span of an actor that handles a message, within the trace of the message. It returns a context with the span, within ctx; or ctx
	// and nil if the trace is malformed or not recorded.
	Handle(ctx context.Context, t *Trace, attributes ...slog.Attr) (context.Context, Span)
}

// Span is a span that has begun.
type Span interface {
	// End ends the span, with an error if err is not nil. Further calls do nothing.
	End(err error)
}

// bytes returns the memory that the trace takes in bytes; 0 if t is nil.
func (t *Trace) bytes() int {
	if t == nil {
		return 0
	}
	return 32 + len(t.Parent) + len(t.State)
}

// known returns the trace of a message that has arrived, if the task records traces.
func (s *Cast) known(t *Trace) *Trace {
	if s.config.Tracer == nil {
		return nil
	}
	return t
}

// traced is the span of an actor that handles a message.
type traced struct {
	ctx  context.Context
	of   *Trace // of the message
	span Span
}

// end ends the span, with an error if err is not nil; t may be nil.
func (t *traced) end(err error) {
	if t != nil {
		t.span.End(err)
	}
}

// traceOf returns the trace of ctx for a message; nil if there is none that is recorded.
func (s *Cast) traceOf(ctx context.Context) *Trace {
	if s.config.Tracer == nil {
		return nil
	}
	return s.config.Tracer.Of(ctx)
}

// beginAsk begins the span of a request, whose message has the type that kind returns. end ends the span; a second call does nothing.
func (s *Cast) beginAsk(ctx context.Context, to Ref, kind func() string) (_ context.Context, end func(error)) {
	if s.config.Tracer != nil {
		within, span := s.config.Tracer.Ask(ctx, slog.String("troupe.peer", cmp.Or(to.Task, s.config.Self)), slog.String("troupe.actor", to.Name), slog.String("troupe.message", kind()))
		if span != nil {
			return within, span.End
		}
	}
	return ctx, untraced
}

func untraced(error) {}

// beginHandling begins the span of handling a message; nil if the message belongs to no trace.
func (p *performer) beginHandling(message any, of *Trace) *traced {
	if of == nil || p.cast.config.Tracer == nil {
		return nil
	}
	ctx, span := p.cast.config.Tracer.Handle(p.life.ctx(), of, slog.String("troupe.task", p.cast.config.Self), slog.String("troupe.actor", p.name),
		slog.String("troupe.kind", p.kind.name), slog.String("troupe.message", nameOf(message)))
	if span == nil {
		return nil
	}
	return &traced{ctx, of, span}
}
