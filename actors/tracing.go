package actors

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
)

// Tracer records which steps, and which parts of them, take part in traces. All methods may be called concurrently. Spans that
// are not recorded are nil.
type Tracer interface {
	// Run begins the span of a step of the call that ctx is of.
	Run(ctx context.Context, attributes ...slog.Attr) Span
	// PartialCall begins the span of a call that feeds and fetches of a partial run, whose span is run, nil where it has none. The
	// span is in the call's trace, with a link to run; below run where the call is in none.
	PartialCall(ctx context.Context, run Span, attributes ...slog.Attr) Span
	// Part begins the span of a part of another task's step.
	Part(below TraceContext, attributes ...slog.Attr) Span
}

// TraceContext names a span to other processes, as the headers traceparent and tracestate do (W3C Trace Context).
type TraceContext struct{ Parent, State string }

// Span is a piece of work in a trace. All methods may be called concurrently; End is called once.
type Span interface {
	// Begin begins a span below this one.
	Begin(name string, attributes ...slog.Attr) Span
	// Add records a span below this one that has ended, with the error of what it is about.
	Add(name string, began, ended time.Time, err error, attributes ...slog.Attr)
	// Set adds attributes.
	Set(attributes ...slog.Attr)
	// Context names the span to other processes.
	Context() TraceContext
	// Log is a logger whose records tell the trace.
	Log(log *slog.Logger) *slog.Logger
	// End ends the span, with the error of what it is about.
	End(err error)
}

// stepAttribute is the number of a step.
func stepAttribute(id uint64) slog.Attr { return slog.String("troupe.step", view.StepName(id)) }

// beginRun begins the span of a step; nil where it is not recorded.
func (s *Session) beginRun(ctx context.Context, more ...slog.Attr) Span {
	if s.task.Tracer == nil {
		return nil
	}
	return s.task.Tracer.Run(ctx, s.attributes(more...)...)
}

// beginPartialCall begins the span of a call of a partial run, which is nil where the call names none; nil where it is not recorded.
func (s *Session) beginPartialCall(ctx context.Context, pr *partialRun) Span {
	if s.task.Tracer == nil {
		return nil
	}
	if pr == nil {
		return s.task.Tracer.PartialCall(ctx, nil, s.attributes()...)
	}
	return s.task.Tracer.PartialCall(ctx, pr.step.call.span, s.attributes(stepAttribute(pr.step.id))...)
}

// attributes are those of the spans of a session's calls.
func (s *Session) attributes(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("troupe.task", s.task.name), slog.String("troupe.session", s.name())}, more...)
}

// beginPart begins the span of another task's part, of a step whose call is traced.
func (st *step) beginPart(task string) TraceContext {
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
	return span.Context()
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

// maxTransferSpans is how many of the tensors that a step receives on a task have spans.
const maxTransferSpans = 128

// transferSpans records the tensors that a part of a traced step receives from other tasks.
type transferSpans struct {
	task  *Task
	span  Span // of the part; at the step's master that of the run
	count atomic.Int64
}

// traceTransfers gives the tensors that the part receives spans below that one.
func (st *taskStep) traceTransfers(below Span) {
	st.transfers = &transferSpans{task: st.task, span: below}
	st.Received = st.transfers.received
}

// received records a receive from another task, from when its node asked for the tensor until it had it.
func (s *transferSpans) received(x kernels.Execution, t *tensor.Tensor, err error) {
	from := text(x.Node, "send_device")
	if s.task.local(from) || s.count.Add(1) > maxTransferSpans {
		return
	}
	attributes := append(make([]slog.Attr, 0, 7), slog.String("troupe.edge", text(x.Node, "tensor_name")), slog.String("troupe.source", from),
		slog.String("troupe.destination", x.Device))
	if x.Tag.Frame != 0 {
		attributes = append(attributes, slog.Int64("troupe.iteration", x.Tag.Iter))
	}
	switch {
	case t != nil:
		attributes = append(attributes, slog.Int64("troupe.bytes", x.Bytes), slog.String("troupe.dtype", t.DType().String()), slog.String("troupe.shape", t.Shape().String()))
	case err == nil:
		attributes = append(attributes, slog.Bool("troupe.dead", true)) // of a branch that was not taken
	}
	s.span.Add("troupe.transfer", x.Began, x.Ended, err, attributes...)
}

// end tells how many transfers have no spans.
func (s *transferSpans) end() {
	if n := s.count.Load() - maxTransferSpans; n > 0 {
		s.span.Set(slog.Int64("troupe.transfers_omitted", n))
	}
}
