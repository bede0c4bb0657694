package pipeline

import (
	"context"
	"iter"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Dataset adds a dataset of the queue's elements to a graph: what producers put into the queue goes through the
// stages that package graph/op makes of it, such as a shuffle and batches. It ends when the queue is closed and
// empty, or with the reason of a producer that failed. It takes an element out of the queue when the next stage
// asks for one, so that several datasets, or other consumers, share the elements out.
//
// The dataset is made on the queue's device, and so must the stages and the iterator that follow: their tensors may be
// used anywhere. In Python it is tf.data.Dataset.from_tensors(0).repeat().map(lambda _: queue.dequeue()).
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
	asked := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, int64(1)), op.Const(s, int64(1)), ticks, none)
	asked = op.RepeatDataset(s, asked, op.Const(s, int64(-1)), ticks, none)
	dequeue := op.NewFunction(s, "dequeue", []op.Param{{DType: tensor.Int64, Shape: shape.Scalar()}}, func(s *op.Scope, _ []op.Output) []op.Output {
		return op.QueueDequeueV2(s, queue, types)
	})
	if dequeue == nil {
		return op.Output{}
	}
	return op.MapDataset(s, asked, dequeue.Captures(), dequeue.Func(), types, shapes)
}

// Signature is what the ops of datasets and iterators are told of the queue's elements: the type and the shape of each
// component.
func (q *Of[T]) Signature() (types []tensor.DType, shapes []shape.Shape) {
	for _, f := range q.codec.fields {
		types = append(types, f.dtype)
		shapes = append(shapes, shape.Of(f.shape...))
	}
	return types, shapes
}

// Elements yields what a step gives again and again, as values of T, until it says OUT_OF_RANGE: the elements of a
// dataset whose iterator gives components, a tensor for each of T's fields (see Declare). Its error is the last thing
// that it yields: the step's, why ctx ended, or INVALID_ARGUMENT for a T that has no components, or others than the
// element.
//
// With a Producer, a Go function is a stage between two datasets, wherever these are:
//
//	producer.Range(ctx, pipeline.Map(pipeline.Elements[In](ctx, session, next...), f))
func Elements[T any](ctx context.Context, session Session, components ...op.Output) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
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
			if status.CodeOf(err) == status.OutOfRange && ctx.Err() == nil {
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// element reads an element of one step.
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

// Map gives what f makes of each element. An error of the elements or of f is the last thing that it yields.
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
