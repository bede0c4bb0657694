package op

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Queue is a queue of elements, each of one or more tensors (its components). It lives in the container of its
// device. Other sessions find it under the name of its node, or attr.SharedName. An operation that finds the
// queue full or empty waits. The operations that its methods add run on the queue's device, whatever device
// their scope asks for.
type Queue struct {
	handle Output
	types  []tensor.DType
	shapes []shape.Shape
}

// NewFIFOQueue is a queue that returns elements in the order in which they came. attr.Shapes fixes the
// components' shapes, which EnqueueMany and DequeueMany need; attr.Capacity bounds the number of elements.
func NewFIFOQueue(s *Scope, types []tensor.DType, attrs ...attr.Attr) *Queue {
	return newQueue(FIFOQueueV2(s, types, attrs...), types, attrs)
}

// NewPaddingFIFOQueue is a FIFO queue whose components' shapes, given by attr.Shapes, may have sizes of -1.
// DequeueMany pads the components of a batch with zeros to the size of the largest.
func NewPaddingFIFOQueue(s *Scope, types []tensor.DType, attrs ...attr.Attr) *Queue {
	return newQueue(PaddingFIFOQueueV2(s, types, attrs...), types, attrs)
}

// NewShuffleQueue is a queue that returns its elements in random order. Until it is closed, it keeps
// attr.MinAfterDequeue of them to choose from.
func NewShuffleQueue(s *Scope, types []tensor.DType, attrs ...attr.Attr) *Queue {
	return newQueue(RandomShuffleQueueV2(s, types, attrs...), types, attrs)
}

// NewPriorityQueue is a queue that returns the element of the lowest priority first. The priority is an int64
// scalar and the first component; types and shapes are those of the other components.
func NewPriorityQueue(s *Scope, types []tensor.DType, shapes []shape.Shape, attrs ...attr.Attr) *Queue {
	handle := PriorityQueueV2(s, shapes, slices.Concat([]attr.Attr{attr.ComponentTypes(types)}, attrs)...)
	return newQueue(handle, slices.Concat([]tensor.DType{tensor.Int64}, types),
		[]attr.Attr{attr.Shapes(slices.Concat([]shape.Shape{shape.Scalar()}, shapes))})
}

func newQueue(handle Output, types []tensor.DType, attrs []attr.Attr) *Queue {
	q := &Queue{handle: handle, types: slices.Clone(types), shapes: make([]shape.Shape, len(types))}
	for _, a := range attrs {
		if shapes, ok := a.Value.([]shape.Shape); ok && a.Name == "shapes" && len(shapes) == len(types) {
			copy(q.shapes, shapes)
		}
	}
	return q
}

// Handle is the resource, which ops on queues take.
func (q *Queue) Handle() Output { return q.handle }

// Types are the types of the components.
func (q *Queue) Types() []tensor.DType { return slices.Clone(q.types) }

// Enqueue adds an element, and waits while the queue is full.
func (q *Queue) Enqueue(s *Scope, components ...Output) *Operation {
	return QueueEnqueueV2(q.takes(s, components), q.handle, components)
}

// EnqueueMany adds an element for each row of the components, which all have the same number of rows.
func (q *Queue) EnqueueMany(s *Scope, components ...Output) *Operation {
	return QueueEnqueueManyV2(q.takes(s, components), q.handle, components)
}

// takes is the scope for an operation with elements of the queue.
func (q *Queue) takes(s *Scope, components []Output) *Scope {
	if q.handle.Op != nil && len(components) != len(q.types) {
		s.fail(status.InvalidArgumentf("Queue %s has elements of %d components, not %d", q.handle.Op.name, len(q.types), len(components)))
	}
	for i, c := range components[:min(len(components), len(q.types))] {
		if c.Op != nil && c.DType().Base() != q.types[i] {
			s.fail(status.InvalidArgumentf("Component %d of queue %s is of type %v, and %s of type %v", i, q.handle.Name(), q.types[i], c.Name(), c.DType()))
		}
	}
	return s.beside(q.handle.Op)
}

// Dequeue removes an element and returns it. It waits for one. Once the queue is closed and empty, it is
// OUT_OF_RANGE.
func (q *Queue) Dequeue(s *Scope) []Output {
	o := s.beside(q.handle.Op).add("QueueDequeueV2", need{"component_types": q.types}, nil, q.handle)
	return o.yields(q.components(nil))
}

// DequeueMany removes n elements, an int32 scalar, and returns their components in batches. It waits until
// there are n elements, and is OUT_OF_RANGE if the queue is closed with fewer.
func (q *Queue) DequeueMany(s *Scope, n Output) []Output {
	size := int64(-1)
	if v := n.value(); v != nil && v.DType() == tensor.Int32 && v.Len() == 1 {
		size = int64(tensor.Of[int32](v)[0])
	}
	o := s.beside(q.handle.Op).add("QueueDequeueManyV2", need{"component_types": q.types}, nil, q.handle, n)
	return o.yields(q.components([]int64{size}))
}

// DequeueUpTo is DequeueMany, but returns fewer elements if the queue is closed with fewer.
func (q *Queue) DequeueUpTo(s *Scope, n Output) []Output {
	o := s.beside(q.handle.Op).add("QueueDequeueUpToV2", need{"component_types": q.types}, nil, q.handle, n)
	return o.yields(q.components([]int64{-1}))
}

// components tells what is known of elements in batches.
func (q *Queue) components(batch []int64) []Param {
	out := make([]Param, len(q.types))
	for i, t := range q.types {
		out[i].DType = t
		if dims, known := q.shapes[i].Dims(); known {
			out[i].Shape = shape.Of(slices.Concat(batch, dims)...)
		}
	}
	return out
}

// Close closes the queue: no more elements come. With attr.CancelPendingEnqueues, enqueues that wait fail too.
func (q *Queue) Close(s *Scope, attrs ...attr.Attr) *Operation {
	return QueueCloseV2(s.beside(q.handle.Op), q.handle, attrs...)
}

// Size is the number of elements, an int32 scalar.
func (q *Queue) Size(s *Scope) Output { return QueueSizeV2(s.beside(q.handle.Op), q.handle) }

// Closed tells whether the queue is closed.
func (q *Queue) Closed(s *Scope) Output { return QueueIsClosedV2(s.beside(q.handle.Op), q.handle) }
