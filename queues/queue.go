package queues

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/queues/internal/wire"
	"google.golang.org/protobuf/proto"
)

// Queue is a queue of any kind. All methods may be called concurrently; none waits. The operations of one
// goroutine are done in the order of its calls.
//
// An operation takes over the references to its tensors, even when it fails, and calls done exactly once: on
// the caller's goroutine before the method returns, or on that of another operation. done owns the tensors that
// it is given. It must not block, since the queue serves nobody else meanwhile, but it may call the queue. The
// function that an operation returns cancels it, with the error that is the cause or nil, if it still waits:
// done then gets CANCELLED, marked as derived from the cause. Cancelling later has no effect.
//
// When the queue is deleted, operations fail with ABORTED. They also do when the queue has failed (a bug): its
// elements are lost then, and it does not come back empty.
type Queue struct {
	options Options
	runner  runner
	ended   atomic.Pointer[error] // why operations are refused; nil while they are not
	done    chan struct{}

	mu   sync.Mutex // held while the runner changes the core, for those who look at it
	core core       // the runner's alone
}

// runner takes a queue's messages one after the other.
type runner interface {
	// send hands over a *waiter, a *cancellation or a *deletion. Each waiter is completed once, also when the queue
	// has ended meanwhile.
	send(message any)
	// end lets the queue end, after the messages that it has taken.
	end()
}

// Spawn makes a queue, as an actor of system. Without a system (nil), the queue runs on its callers'
// goroutines. The error is INVALID_ARGUMENT for invalid options.
func Spawn(system *actor.ActorSystem, opts Options) (*Queue, error) {
	opts, err := opts.checked()
	if err != nil {
		return nil, err
	}
	q := &Queue{options: opts, done: make(chan struct{}), core: newCore(opts)}
	if system == nil {
		q.runner = &locked{q: q}
		return q, nil
	}
	if q.runner, err = start(system, q); err != nil {
		return nil, err
	}
	return q, nil
}

// Origin tells which step did something with a queue.
type Origin = view.StepOrigin

// User is a queue as a step uses it, which the queue remembers.
type User struct {
	*Queue
	origin Origin
}

// For is the queue for the use of a step.
func (q *Queue) For(o Origin) User { return User{q, o} }

// Enqueue adds an element. Bad tuples are INVALID_ARGUMENT; if the queue is closed, it is CANCELLED.
func (q *Queue) Enqueue(elem []*tensor.Tensor, done func(error)) (cancel func(error)) {
	return q.For(Origin{}).Enqueue(elem, done)
}

// Enqueue is that of the queue.
func (q User) Enqueue(elem []*tensor.Tensor, done func(error)) (cancel func(error)) {
	if err := q.options.checkOne(elem); err != nil {
		release(elem)
		done(err)
		return noCancel
	}
	w := q.waiter(enqueueOne)
	w.in, w.done = one(elem), done
	return q.submit(w)
}

// EnqueueMany adds the rows of dimension 0 of batch as elements, in order, as space becomes free. done is
// called when the last one has been added. After a failure, those that were added stay.
func (q *Queue) EnqueueMany(batch []*tensor.Tensor, done func(error)) (cancel func(error)) {
	return q.For(Origin{}).EnqueueMany(batch, done)
}

// EnqueueMany is that of the queue.
func (q User) EnqueueMany(batch []*tensor.Tensor, done func(error)) (cancel func(error)) {
	if err := q.options.checkMany(batch); err != nil || batch[0].Dim(0) == 0 {
		release(batch)
		done(err)
		return noCancel
	}
	w := q.waiter(enqueueMany)
	w.in, w.done = rows(batch), done
	return q.submit(w)
}

// Dequeue removes an element and returns it. It is OUT_OF_RANGE when the queue is empty and closed.
func (q *Queue) Dequeue(done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.For(Origin{}).Dequeue(done)
}

// Dequeue is that of the queue.
func (q User) Dequeue(done func([]*tensor.Tensor, error)) (cancel func(error)) {
	w := q.waiter(dequeueOne)
	w.given = done
	return q.submit(w)
}

// DequeueMany removes n elements and returns them as one tuple of their rows; n is not negative. It waits for
// all of them, and is OUT_OF_RANGE if they cannot come because the queue is closed. The components' shapes must
// have been specified (INVALID_ARGUMENT).
func (q *Queue) DequeueMany(n int, done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.For(Origin{}).DequeueMany(n, done)
}

// DequeueMany is that of the queue.
func (q User) DequeueMany(n int, done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.dequeueBatch(false, "DequeueManyOp", n, done)
}

// DequeueUpTo is DequeueMany, except that a closed queue returns what is left, one element or more.
func (q *Queue) DequeueUpTo(n int, done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.For(Origin{}).DequeueUpTo(n, done)
}

// DequeueUpTo is that of the queue.
func (q User) DequeueUpTo(n int, done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.dequeueBatch(true, "DequeueUpToOp", n, done)
}

func (q User) dequeueBatch(upTo bool, op string, n int, done func([]*tensor.Tensor, error)) (cancel func(error)) {
	switch {
	case n < 0:
		done(nil, status.InvalidArgumentf("%s requested %d < 0 elements", op, n))
	case len(q.options.Shapes) == 0 && q.options.Kind == Priority:
		done(nil, status.InvalidArgumentf("PriorityQueue's DequeueMany requires the components to have specified shapes."))
	case len(q.options.Shapes) == 0:
		done(nil, status.InvalidArgumentf("%v's DequeueMany and DequeueUpTo require the components to have specified shapes.", q.options.Kind))
	case n == 0:
		done(q.options.none())
	default:
		w := q.waiter(&wire.Dequeue{Count: int64(n), Batch: true, UpTo: upTo})
		w.given = done
		return q.submit(w)
	}
	return noCancel
}

// CloseQueue closes the queue: no more elements come. Pending enqueues are still done, and closing waits for
// them, unless cancelPending cancels them. Later enqueues are CANCELLED, and so is a second closing unless it
// cancels pending ones.
//
// A reason says why the producer failed. Dequeues that lack elements then fail with it, instead of the
// OUT_OF_RANGE that says that everything was delivered.
func (q *Queue) CloseQueue(cancelPending bool, reason error, done func(error)) {
	w := newWaiter(&wire.Close{CancelPending: cancelPending})
	w.reason, w.done = reason, done
	q.submit(w)
}

// Size returns the number of elements in the queue, without those that a DequeueMany has collected so far.
func (q *Queue) Size(done func(int, error)) {
	w := newWaiter(getState)
	w.seen = func(s *wire.State, err error) { done(int(s.GetSize()), err) }
	q.submit(w)
}

// IsClosed tells whether the queue is closed. A queue that waits for pending enqueues before it closes is not
// closed yet.
func (q *Queue) IsClosed(done func(bool, error)) {
	w := newWaiter(getState)
	w.seen = func(s *wire.State, err error) { done(s.GetClosed(), err) }
	q.submit(w)
}

// Matches returns INVALID_ARGUMENT if the queue cannot serve a node of that op that asks for opts under the
// same name.
func (q *Queue) Matches(op string, opts Options) error { return q.options.matches(op, opts) }

// DTypes are the types of an element's components; the caller must not change them.
func (q *Queue) DTypes() []tensor.DType { return q.options.DTypes }

// Close deletes the queue: pending operations fail with ABORTED, the elements are dropped, the actor stops. It
// does not wait for that; Done does.
func (q *Queue) Close() {
	if q.refuse(status.Errorf(status.Aborted, "%v '%s' was deleted.", q.options.Kind, q.options.Name)) {
		q.runner.end()
	}
}

// Deleted tells whether operations are refused because the queue was deleted or has failed.
func (q *Queue) Deleted() bool { return q.ended.Load() != nil }

// Done is closed when the queue has ended and holds nothing any more.
func (q *Queue) Done() <-chan struct{} { return q.done }

// waiter is the envelope of a message of the user's.
func (q User) waiter(message proto.Message) *waiter {
	w := newWaiter(message)
	w.by = q.origin
	return w
}

// Describe is the queue for listings.
func (q *Queue) Describe() string {
	capacity := "no limit"
	if q.options.Capacity < unbounded {
		capacity = fmt.Sprintf("capacity %d", q.options.Capacity)
	}
	q.mu.Lock()
	elements, closed := q.core.state.order.len(), q.core.state.closed
	q.mu.Unlock()
	state := "open"
	if closed {
		state = "closed"
	}
	return fmt.Sprintf("%v of (%s), %d elements, %s, %s", q.options.Kind, typeList(q.options.DTypes), elements, capacity, state)
}

func noCancel(error) {}

// submit hands a checked operation to the runner.
func (q *Queue) submit(w *waiter) (cancel func(error)) {
	if err := q.ended.Load(); err != nil {
		w.refused(*err).run()
		return noCancel
	}
	q.runner.send(w)
	if w.over.Load() {
		return noCancel
	}
	return func(cause error) {
		if !w.over.Load() {
			q.runner.send(&cancellation{message: cancelOne, waiter: w, cause: cause})
		}
	}
}

// refuse makes operations fail with err from now on. It is false when they do already.
func (q *Queue) refuse(err error) bool { return q.ended.CompareAndSwap(nil, &err) }

// none is a batch of no elements. A size that is not known is zero then.
func (o *Options) none() ([]*tensor.Tensor, error) {
	tuple := make([]*tensor.Tensor, 0, len(o.DTypes))
	for i, d := range o.DTypes {
		t, err := tensor.New(o.Pool, d, rowsOf(zeroUnknown(o.Shapes[i]), 0))
		if err != nil {
			release(tuple)
			return nil, err
		}
		tuple = append(tuple, t)
	}
	return tuple, nil
}
