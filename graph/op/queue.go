package op

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Queue is a queue of elements, each of one or more tensors (its components). It lives in the container of its device. Other sessions find
// it under the name of its node, or under attr.SharedName. An operation that finds the queue full or empty waits. The operations added by
// its methods run on the queue's device, whatever device their scope requests.
type Queue struct {
	handle Output
	types  []tensor.DType
	shapes []shape.Shape
}

// NewFIFOQueue returns a queue that returns elements in the order in which they were added. attr.Shapes fixes the components' shapes,
// which EnqueueMany and DequeueMany need; attr.Capacity limits the number of elements.
func NewFIFOQueue(s *Scope, types []tensor.DType, attrs ...attr.Attr) *Queue {
	return newQueue(FIFOQueueV2(s, types, attrs...), types, attrs)
}

// NewPaddingFIFOQueue returns a FIFO queue whose components' shapes, set by attr.Shapes, may have sizes of -1. DequeueMany pads the
// components of a batch with zeros to the size of the largest.
func NewPaddingFIFOQueue(s *Scope, types []tensor.DType, attrs ...attr.Attr) *Queue {
	return newQueue(PaddingFIFOQueueV2(s, types, attrs...), types, attrs)
}

// NewShuffleQueue returns a queue that returns its elements in random order. Until it is closed, it keeps at least attr.MinAfterDequeue
// elements to choose from.
func NewShuffleQueue(s *Scope, types []tensor.DType, attrs ...attr.Attr) *Queue {
	return newQueue(RandomShuffleQueueV2(s, types, attrs...), types, attrs)
}

// NewPriorityQueue returns a queue that returns the element with the lowest priority value first. The priority is an int64 scalar and the
// first component; types and shapes are those of the other components.
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

// Handle returns the queue's resource handle, for ops on queues.
func (q *Queue) Handle() Output { return q.handle }

// Types returns the types of the components.
func (q *Queue) Types() []tensor.DType { return slices.Clone(q.types) }

// Enqueue adds an element, and waits while the queue is full.
func (q *Queue) Enqueue(s *Scope, components ...Output) *Operation {
	return QueueEnqueueV2(q.checkComponents(s, components), q.handle, components)
}

// EnqueueMany adds an element for each row of the components, which all have the same number of rows.
func (q *Queue) EnqueueMany(s *Scope, components ...Output) *Operation {
	return QueueEnqueueManyV2(q.checkComponents(s, components), q.handle, components)
}

// checkComponents checks the components of an element, and returns the scope for an operation that adds it.
func (q *Queue) checkComponents(s *Scope, components []Output) *Scope {
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

// Dequeue removes an element and returns it. It waits for one if the queue is empty, and is OUT_OF_RANGE once the queue is closed and
// empty.
func (q *Queue) Dequeue(s *Scope) []Output {
	o := s.beside(q.handle.Op).add("QueueDequeueV2", need{"component_types": q.types}, nil, q.handle)
	return o.yields(q.components(nil))
}

// DequeueMany removes n elements, an int32 scalar, and returns their components in batches. It waits until there are n elements, and is
// OUT_OF_RANGE if the queue is closed with fewer.
func (q *Queue) DequeueMany(s *Scope, n Output) []Output {
	size := int64(-1)
	if v := n.value(); v != nil && v.DType() == tensor.Int32 && v.Len() == 1 {
		size = int64(tensor.Of[int32](v)[0])
	}
	o := s.beside(q.handle.Op).add("QueueDequeueManyV2", need{"component_types": q.types}, nil, q.handle, n)
	return o.yields(q.components([]int64{size}))
}

// DequeueUpTo is like DequeueMany, but returns fewer elements if the queue is closed with fewer.
func (q *Queue) DequeueUpTo(s *Scope, n Output) []Output {
	o := s.beside(q.handle.Op).add("QueueDequeueUpToV2", need{"component_types": q.types}, nil, q.handle, n)
	return o.yields(q.components([]int64{-1}))
}

// components returns what is known about batches of elements.
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

// Close closes the queue, so that no more elements can be added. With attr.CancelPendingEnqueues, waiting enqueues fail, too.
func (q *Queue) Close(s *Scope, attrs ...attr.Attr) *Operation {
	return QueueCloseV2(s.beside(q.handle.Op), q.handle, attrs...)
}

// Size returns the number of elements, an int32 scalar.
func (q *Queue) Size(s *Scope) Output { return QueueSizeV2(s.beside(q.handle.Op), q.handle) }

// Closed returns whether the queue is closed, a bool scalar.
func (q *Queue) Closed(s *Scope) Output { return QueueIsClosedV2(s.beside(q.handle.Op), q.handle) }
