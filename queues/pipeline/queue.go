package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Session is the part of a session that a pipeline needs. The session may be local or remote.
type Session interface {
	// Extend adds nodes to the session's graph.
	Extend(ctx context.Context, more *graphpb.GraphDef) error
	// Run runs a step; the fetched tensors are the caller's to release.
	Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error)
}

// DefaultCapacity is the capacity, in elements, of a queue whose declaration has none.
const DefaultCapacity = 1024

// DefaultOpenWait is how long programs wait for an earlier run's queue if the declaration does not say.
const DefaultOpenWait = 10 * time.Second

// Queue identifies a queue of the cluster. All programs that share it must use the same values.
type Queue struct {
	// Name is the queue's shared_name. Container is the container that holds it, or the default one if empty.
	Name, Container string
	// Device is the device that holds the queue, such as /job:ps/task:0. If it is empty, the cluster finds the device by the queue's name.
	// TensorFlow's servers use their own first device instead, so with them it must be set.
	Device string
	// Capacity is in elements; 0 means DefaultCapacity.
	Capacity int
	// OpenWait bounds the waits at a queue that an earlier run has closed: a producer waits for the remaining elements to be taken, a
	// consumer for a producer to reopen the queue. 0 means DefaultOpenWait; if it is negative, neither waits. Programs that share the queue
	// may have different values.
	OpenWait time.Duration
}

// Of is a queue of elements of type T. Several sessions may use it concurrently.
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
// int and uint are rejected, since TensorFlow distinguishes int32 and int64.
func Declare[T any](q Queue) (*Of[T], error) {
	if q.Name == "" {
		return nil, status.InvalidArgumentf("A queue that is shared needs a name")
	}
	q = q.withDefaults()
	if q.Capacity < 0 {
		return nil, status.InvalidArgumentf("Queue %s: a capacity of %d", q.Name, q.Capacity)
	}
	c, err := newCodec[T]()
	if err != nil {
		return nil, err
	}
	return &Of[T]{q, c}, nil
}

// withDefaults returns the queue with defaults for the fields that are zero.
func (q Queue) withDefaults() Queue {
	q.Capacity = cmp.Or(q.Capacity, DefaultCapacity)
	q.OpenWait = cmp.Or(q.OpenWait, DefaultOpenWait)
	return q
}

// add adds the queue to a graph.
func (q Queue) add(s *op.Scope, types []tensor.DType, shapes []shape.Shape) op.Output {
	return s.Add(op.Spec{Op: "FIFOQueueV2", Attrs: map[string]any{"component_types": types, "shapes": shapes,
		"capacity": q.Capacity, "shared_name": q.Name, "container": q.Container}}).Output(0)
}

// nodes are the operations on a queue that one producer or consumer has added to its session's graph.
type nodes struct {
	session Session
	scope   string // a prefix that no other node of the graph has
}

// addNodes adds the queue, and the operations that add builds on it, to the session's graph. It retries that for a time.
func (q *Of[T]) addNodes(ctx context.Context, session Session, retry time.Duration, add func(s *op.Scope, queue op.Output, types []tensor.DType)) (*nodes, error) {
	n := &nodes{session, fmt.Sprintf("pipeline/%016x", rand.Uint64())}
	s := op.NewScope().SubScope(n.scope)
	if q.Device != "" {
		s = s.WithDevice(q.Device)
	}
	types, shapes := q.Signature()
	queue := q.add(s.WithName("queue"), types, shapes)
	s.WithName("size").Add(op.Spec{Op: "QueueSizeV2", Inputs: []op.Input{queue}})
	add(s, queue, types)
	def, err := s.GraphDef()
	if err != nil {
		return nil, err
	}
	_, err = retried(ctx, retry, func() (struct{}, error) { return struct{}{}, session.Extend(ctx, def) })
	return n, err
}

// openWaitMs is the attribute of operations that reopen the queue or wait for that.
func (q *Of[T]) openWaitMs() int64 { return max(q.OpenWait, 0).Milliseconds() }

// Delete deletes the queue and its elements. Operations that wait for it fail with ABORTED; the next producer or consumer makes a new
// queue. Use it to clean up after a run that was killed. A queue that was closed and emptied needs no Delete: the next producer reopens it.
func (q *Of[T]) Delete(ctx context.Context, session Session) error {
	n, err := q.addNodes(ctx, session, 0, func(s *op.Scope, queue op.Output, _ []tensor.DType) {
		s.WithName("delete").Add(op.Spec{Op: "DestroyResourceOp", Inputs: []op.Input{queue}, Attrs: map[string]any{"ignore_lookup_error": true}})
	})
	if err != nil {
		return err
	}
	_, err = session.Run(ctx, nil, nil, []string{n.name("delete")})
	return err
}

// name returns the full name of an operation or a tensor.
func (n *nodes) name(short string) string { return n.scope + "/" + short }

// Size returns the number of elements in the queue now.
func (n *nodes) Size(ctx context.Context) (int, error) {
	out, err := n.session.Run(ctx, nil, []string{n.name("size:0")}, nil)
	if err != nil {
		return 0, err
	}
	defer out[0].Release()
	return int(tensor.Of[int32](out[0])[0]), nil
}
