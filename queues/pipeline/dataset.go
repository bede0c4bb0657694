package pipeline

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Dataset adds a dataset of the queue's elements to a graph. The elements pass through the stages that package graph/op builds on it, such
// as a shuffle and batches. The dataset ends when the queue is closed and empty, or with a failed producer's reason. It takes an element
// from the queue only when the next stage asks for one, so several datasets and other consumers can share the elements. If an earlier run
// has closed the queue, the first element waits and fails as in Consumer.Batches.
//
// The dataset is on the queue's device, and so must be the stages and the iterator that follow. Their tensors may be used anywhere. The
// equivalent in Python is tf.data.Dataset.from_tensors(0).repeat().map(lambda _: queue.dequeue()).
func (q *Of[T]) Dataset(s *op.Scope) op.Output {
	if q.Device != "" {
		s = s.WithDevice(q.Device)
	}
	types, shapes := q.Signature()
	attrs := []attr.Attr{attr.Shapes(shapes), attr.Capacity(int64(q.Capacity)), attr.SharedName(q.Name)}
	if q.Container != "" {
		attrs = append(attrs, attr.Container(q.Container))
	}
	queue := op.FIFOQueueV2(s, types, attrs...)
	ticks := []tensor.DType{tensor.Int64}
	none := []shape.Shape{shape.Scalar()}
	once := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, int64(1)), op.Const(s, int64(1)), ticks, none)
	dequeues := func(asked op.Output, attrs map[string]any) op.Output {
		attrs["component_types"] = types
		// The scopes of a session's graph do not share functions, so functions of the same name must be identical.
		is := fnv.New64a()
		fmt.Fprint(is, q.Device, attrs)
		dequeue := op.NewFunction(s, fmt.Sprintf("dequeue_%016x", is.Sum64()), []op.Param{{DType: tensor.Int64, Shape: shape.Scalar()}}, func(s *op.Scope, _ []op.Output) (out []op.Output) {
			taken := s.Add(op.Spec{Op: "QueueDequeueV2", Inputs: []op.Input{queue}, Attrs: attrs})
			for i := range types {
				out = append(out, taken.Output(i))
			}
			return out
		})
		if dequeue == nil {
			return op.Output{}
		}
		return op.MapDataset(s, asked, dequeue.Captures(), dequeue.Func(), types, shapes)
	}
	first := dequeues(once, map[string]any{graph.OpenWaitAttr: q.openWaitMs()})
	others := dequeues(op.RepeatDataset(s, once, op.Const(s, int64(-1)), ticks, none), map[string]any{})
	return op.ConcatenateDataset(s, first, others, types, shapes)
}

// Signature returns the type and the shape of each component, as the ops of datasets and iterators require them.
func (q *Of[T]) Signature() (types []tensor.DType, shapes []shape.Shape) {
	for _, f := range q.codec.fields {
		types = append(types, f.dtype)
		shapes = append(shapes, shape.Of(f.shape...))
	}
	return types, shapes
}

// Elements runs a step repeatedly and yields its results as values of T until the step fails with OUT_OF_RANGE: the elements of a dataset
// whose iterator returns components, a tensor for each of T's fields (see Declare). An error is the last thing that it yields: the step's
// error, the cause of ctx, or INVALID_ARGUMENT if T has no components or does not match the element. It is also an error if an earlier run
// has left the iterator or the queue at its end; the OUT_OF_RANGE says whose run it was.
//
// With a Producer, a Go function can be a stage between two datasets, wherever they are:
//
//	producer.Range(ctx, pipeline.Map(pipeline.Elements[In](ctx, session, next...), f))
func Elements[T any](ctx context.Context, session Session, components ...op.Output) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		begun := false
		codec, err := newCodec[T]()
		if err != nil {
			yield(none, err)
			return
		}
		fetches := make([]string, len(components))
		for i, c := range components {
			if c.Op == nil {
				yield(none, status.InvalidArgumentf("Component %d is an output of an operation that could not be added: its scope's Err says why", i))
				return
			}
			fetches[i] = c.Name()
		}
		for {
			row, err := codec.element(session.Run(ctx, nil, fetches, nil))
			if status.CodeOf(err) == status.OutOfRange && ctx.Err() == nil && (begun || !status.From(err).AfterEnd()) {
				return
			}
			begun = true
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// element returns the element that one step fetched.
func (c *codec[T]) element(from []*tensor.Tensor, err error) (row T, _ error) {
	if err != nil {
		return row, err
	}
	defer release(from)
	if len(from) != len(c.fields) {
		return row, status.InvalidArgumentf("The element has %d components, and %T has %d", len(from), row, len(c.fields))
	}
	for i, f := range c.fields {
		if t := from[i]; t.DType() != f.dtype || !t.Shape().Equal(f.shape) {
			return row, status.InvalidArgumentf("Component %d has the type %v and the shape %v, that of a %T %v and %v", i, t.DType(), t.Shape(), row, f.dtype, f.shape)
		}
	}
	c.decode(from, 0, &row)
	return row, nil
}

// Map applies f to each element and yields the results. An error of the elements or of f is the last thing that it yields.
func Map[In, Out any](elements iter.Seq2[In, error], f func(In) (Out, error)) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		for in, err := range elements {
			var out Out
			if err == nil {
				out, err = f(in)
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}
