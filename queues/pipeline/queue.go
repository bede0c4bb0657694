package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Session is what a pipeline needs of a session, in this process or over the network.
type Session interface {
	// Extend adds nodes to the session's graph.
	Extend(ctx context.Context, more *graphpb.GraphDef) error
	// Run runs a step; the fetched tensors are the caller's to release.
	Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error)
}

// DefaultCapacity is the capacity, in elements, of a queue whose declaration has none.
const DefaultCapacity = 1024

// Queue identifies a queue of the cluster. All programs that share it use the same values.
type Queue struct {
	// Name is the queue's shared_name; Container the container that it lies in, the default one if empty.
	Name, Container string
	// Device is the device that the queue lives on, such as /job:ps/task:0. If it is empty, the cluster finds the
	// device by the queue's name. TensorFlow's servers use their own first device instead, so they need one.
	Device string
	// Capacity is in elements, DefaultCapacity if it is 0.
	Capacity int
}

// Of is a queue of elements of type T. It may be used concurrently, by several sessions.
type Of[T any] struct {
	Queue
	codec *codec[T]
}

// Declare declares a queue whose elements have type T: a struct whose exported fields are the components, or a
// single value. Numbers, bools and strings are scalars, arrays are tensors of their shape, and slices have the
// shape in their tag:
//
//	type Example struct {
//		Image []uint8 `shape:"28,28,1"`
//		Label int64
//	}
//
// int and uint are refused, since TensorFlow distinguishes int32 and int64.
func Declare[T any](q Queue) (*Of[T], error) {
	if q.Name == "" {
		return nil, status.InvalidArgumentf("A queue that is shared needs a name")
	}
	if q.Capacity == 0 {
		q.Capacity = DefaultCapacity
	}
	if q.Capacity < 0 {
		return nil, status.InvalidArgumentf("Queue %s: a capacity of %d", q.Name, q.Capacity)
	}
	c, err := newCodec[T]()
	if err != nil {
		return nil, err
	}
	return &Of[T]{q, c}, nil
}

// nodes are the operations on a queue that one producer or consumer added to its session's graph.
type nodes struct {
	session Session
	scope   string // a prefix that no other node of the graph has
}

// open adds the queue and what add makes of it to the session's graph.
func (q *Of[T]) open(ctx context.Context, session Session, add func(s *op.Scope, queue op.Output, types []tensor.DType)) (*nodes, error) {
	n := &nodes{session, fmt.Sprintf("pipeline/%016x", rand.Uint64())}
	s := op.NewScope().SubScope(n.scope)
	if q.Device != "" {
		s = s.WithDevice(q.Device)
	}
	var types []tensor.DType
	shapes := make([]shape.Shape, len(q.codec.fields))
	for i, f := range q.codec.fields {
		types = append(types, f.dtype)
		shapes[i] = shape.Of(f.shape...)
	}
	queue := s.WithName("queue").Add(op.Spec{Op: "FIFOQueueV2", Attrs: map[string]any{"component_types": types, "shapes": shapes,
		"capacity": q.Capacity, "shared_name": q.Name, "container": q.Container}}).Output(0)
	s.WithName("size").Add(op.Spec{Op: "QueueSizeV2", Inputs: []op.Input{queue}})
	add(s, queue, types)
	def, err := s.GraphDef()
	if err != nil {
		return nil, err
	}
	return n, session.Extend(ctx, def)
}

// name is an operation's or a tensor's full name.
func (n *nodes) name(short string) string { return n.scope + "/" + short }

// Size is how many elements are in the queue now.
func (n *nodes) Size(ctx context.Context) (int, error) {
	out, err := n.session.Run(ctx, nil, []string{n.name("size:0")}, nil)
	if err != nil {
		return 0, err
	}
	defer out[0].Release()
	return int(tensor.Of[int32](out[0])[0]), nil
}
