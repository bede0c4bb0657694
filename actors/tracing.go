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

// Tracer begins the spans of steps and of their parts. All methods may be called concurrently. Spans that are not recorded are nil.
type Tracer interface {
	// Run begins the span of a step; ctx is that of the step's call.
	Run(ctx context.Context, attributes ...slog.Attr) Span
	// PartialCall begins the span of a call of a partial run. run is the span of the partial run, or nil. The call's span belongs to the
	// call's trace and links to run; if the call has no trace, it is below run.
	PartialCall(ctx context.Context, run Span, attributes ...slog.Attr) Span
	// Part begins the span of this task's part of another task's step.
	Part(below TraceContext, attributes ...slog.Attr) Span
}

// TraceContext identifies a span to other processes, as the headers traceparent and tracestate do (W3C Trace Context).
type TraceContext struct{ Parent, State string }

// Span is a piece of work in a trace. All methods may be called concurrently; End is called once.
type Span interface {
	// Begin begins a span below this one.
	Begin(name string, attributes ...slog.Attr) Span
	// Add records a finished span below this one, with the error of its operation.
	Add(name string, began, ended time.Time, err error, attributes ...slog.Attr)
	// Set adds attributes.
	Set(attributes ...slog.Attr)
	// Context returns what identifies the span to other processes.
	Context() TraceContext
	// Log returns a logger whose records name the trace.
	Log(log *slog.Logger) *slog.Logger
	// End ends the span, with the error of its operation.
	End(err error)
}

// stepAttribute returns the attribute with the number of a step.
func stepAttribute(id uint64) slog.Attr { return slog.String("troupe.step", view.StepName(id)) }

// beginRun begins the span of a step. It returns nil if the span is not recorded.
func (s *Session) beginRun(ctx context.Context, more ...slog.Attr) Span {
	if s.task.Tracer == nil {
		return nil
	}
	return s.task.Tracer.Run(ctx, s.attributes(more...)...)
}

// beginPartialCall begins the span of a call of pr, which is nil if the call names no partial run. It returns nil if the span is not
// recorded.
func (s *Session) beginPartialCall(ctx context.Context, pr *partialRun) Span {
	if s.task.Tracer == nil {
		return nil
	}
	if pr == nil {
		return s.task.Tracer.PartialCall(ctx, nil, s.attributes()...)
	}
	return s.task.Tracer.PartialCall(ctx, pr.step.call.span, s.attributes(stepAttribute(pr.step.id))...)
}

// attributes returns the attributes of the spans of a session's calls.
func (s *Session) attributes(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("troupe.task", s.task.name), slog.String("troupe.session", s.name())}, more...)
}

// beginPart begins the span of another task's part of a step whose call is traced.
func (st *step) beginPart(task string) TraceContext {
	span := st.call.span.Begin("troupe.part", slog.String("troupe.peer", task))
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.spans == nil {
		st.spans = map[string]Span{}
	}
	if again := st.spans[task]; again != nil { // the task lacked the plan, and the part is sent again
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

// maxTransferSpans bounds the spans of tensors that a step receives on a task.
const maxTransferSpans = 128

// transferSpans records the tensors that a part of a traced step receives from other tasks.
type transferSpans struct {
	task  *Task
	span  Span // of the part; on the step's master, of the run
	count atomic.Int64
}

// traceTransfers records spans below the given one for the tensors that the part receives.
func (st *stepPart) traceTransfers(below Span) {
	st.transfers = &transferSpans{task: st.task, span: below}
	st.Receiver = st.transfers
}

// Received records a receive from another task, from its node's request for the tensor to the tensor's arrival.
func (s *transferSpans) Received(x kernels.Execution, t *tensor.Tensor, err error) {
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

// end records the number of transfers without spans.
func (s *transferSpans) end() {
	if n := s.count.Load() - maxTransferSpans; n > 0 {
		s.span.Set(slog.Int64("troupe.transfers_omitted", n))
	}
}
