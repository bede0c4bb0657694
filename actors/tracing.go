package actors

import (
	"context"
	"log/slog"

	"github.com/troupe-run/troupe/internal/view"
)

// Tracer records which steps, and which parts of them, take part in traces. All methods may be called concurrently.
type Tracer interface {
	// Run begins the span of a step of the call that ctx is of; nil where it is not recorded.
	Run(ctx context.Context, attributes ...slog.Attr) Span
	// Part begins the span of a part of another task's step, below the span of that Traceparent; nil where it is not recorded.
	Part(traceparent string, attributes ...slog.Attr) Span
}

// Span is a piece of work in a trace. All methods may be called concurrently; End is called once.
type Span interface {
	// Begin begins a span below this one.
	Begin(name string, attributes ...slog.Attr) Span
	// Set adds attributes.
	Set(attributes ...slog.Attr)
	// Traceparent names the span to other processes, as the header of that name (W3C Trace Context).
	Traceparent() string
	// Log is a logger whose records tell the trace.
	Log(log *slog.Logger) *slog.Logger
	// End ends the span, with the error of what it is about.
	End(err error)
}

// stepAttribute is the number of a step.
func stepAttribute(id uint64) slog.Attr { return slog.String("troupe.step", view.StepName(id)) }

// beginRun begins the span of a step; nil where it is not recorded.
func (s *Session) beginRun(ctx context.Context) Span {
	if s.task.Tracer == nil {
		return nil
	}
	return s.task.Tracer.Run(ctx, slog.String("troupe.task", s.task.name), slog.String("troupe.session", s.name()))
}

// beginPart begins the span of another task's part, of a step whose call is traced.
func (st *step) beginPart(task string) (traceparent string) {
	span := st.call.span.Begin("troupe.part", slog.String("troupe.peer", task))
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.spans == nil {
		st.spans = map[string]Span{}
	}
	if again := st.spans[task]; again != nil { // it did not have the plan
		defer again.End(nil)
	}
	st.spans[task] = span
	return span.Traceparent()
}

// endPart ends the span of another task's part.
func (st *step) endPart(task string, err error) {
	st.mu.Lock()
	span := st.spans[task]
	delete(st.spans, task)
	st.mu.Unlock()
	if span != nil {
		span.End(err)
	}
}
