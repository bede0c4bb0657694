package queues

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/queues/internal/wire"
	"google.golang.org/protobuf/proto"
)

// Queue is a queue of any kind. All methods may be called concurrently and none waits. Operations of one goroutine take effect in the order
// of its calls.
//
// An operation takes over the references to its tensors, even when it fails, and calls done exactly once: on the caller's goroutine before
// the method returns, or on that of another operation. done owns the tensors passed to it. It must not block, since the queue serves no
// other operation meanwhile, but it may call the queue. Each operation returns a function that cancels it if it is still waiting; its
// argument is the cause, or nil. done then receives CANCELLED, marked as derived from the cause. Cancelling later has no effect.
//
// When the queue is deleted, operations fail with ABORTED. They also do so after the queue has failed (a bug): its elements are then lost,
// and the queue does not come back empty.
type Queue struct {
	options Options
	runner  runner
	ended   atomic.Pointer[error] // why operations are refused; nil while they are not
	done    chan struct{}

	cell *durable.Cell // where the elements are on disk; nil if the queue is not durable

	mu   sync.Mutex // held while the runner changes the core; readers of the core take it
	core core       // changed only by the runner
}

// runner handles a queue's messages one at a time.
type runner interface {
	// send delivers a *waiter, a *cancellation, an *expiry, a *tick, a *buried or a *deletion. Each waiter is completed once, even if the
	// queue has ended in the meantime.
	send(message any)
	// end ends the queue, after the messages sent so far.
	end()
}

// Spawn makes a queue, as an actor of system. If system is nil, the queue runs on its callers' goroutines. The error is INVALID_ARGUMENT
// for invalid options.
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

// Origin identifies the step that operated on a queue.
type Origin = view.StepOrigin

// Step is the step of an operation.
type Step interface {
	// Err returns the error that the step has ended with, or nil if it has not ended. It is called while the queue serves operations, and must
	// not wait or call the queue.
	Err() error
}

// Notes records what operators should learn of a session. Its method is called while a queue serves operations. It must not wait or call the
// queue.
type Notes interface {
	// Missed records that the session was opened after a queue was closed, and got the queue's end and no element. It is called once for the
	// session and the queue, until that is reopened. what is the kind of the resource, and text says who closed it, when, and how it is used
	// again.
	Missed(what, name, text string)
}

// User is a queue as used by a step. The queue records the step as the origin of its operations.
type User struct {
	*Queue
	origin   Origin
	step     Step
	notes    Notes
	changes  *durable.Tx
	moves    bool // elements that are on disk already, in another queue
	openWait *time.Duration
}

// For returns the queue for use by a step, or by no step if it is nil. Operations of a step that has ended are cancelled before the queue serves
// them: they do not take elements that arrive between the step's end and their cancellation.
//
// changes are the step's changes to durable resources. What it does to a durable queue becomes a part of them, before the operation is
// completed. Without changes, an operation on a durable queue is completed when its own changes are on disk.
func (q *Queue) For(o Origin, step Step, changes *durable.Tx) User {
	return User{Queue: q, origin: o, step: step, changes: changes}
}

// Noting returns the queue for a user whose notes, if not nil, record that the user has come too late.
func (q User) Noting(notes Notes) User {
	q.notes = notes
	return q
}

// AwaitingOpen returns the queue for a caller that expects the elements of a run that has not started. If its dequeues find the queue
// closed and empty, they wait up to the given time for it to be reopened. Then they fail with the reason that the queue was closed with, or
// FAILED_PRECONDITION. The error says who closed it.
func (q User) AwaitingOpen(wait time.Duration) User {
	q.openWait = &wait
	return q
}

// Open reopens the queue if it is closed. It first waits, up to the given time, until the remaining elements have been taken. If they have
// not, it fails with FAILED_PRECONDITION, and the error says who closed the queue.
func (q User) Open(wait time.Duration, done func(error)) (cancel func(error)) {
	w := q.waiter(&wire.Open{WaitMs: wait.Milliseconds()})
	w.done = done
	return q.submit(w)
}

// Enqueue adds an element. Bad tuples are INVALID_ARGUMENT; if the queue is closed, it is CANCELLED.
func (q *Queue) Enqueue(elem []*tensor.Tensor, done func(error)) (cancel func(error)) {
	return q.For(Origin{}, nil, nil).Enqueue(elem, done)
}

// Enqueue is like [Queue.Enqueue].
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

// EnqueueMany adds the rows of dimension 0 of batch as elements, in order, as space becomes free. done is called when the last one has been
// added. After a failure, those already added stay.
func (q *Queue) EnqueueMany(batch []*tensor.Tensor, done func(error)) (cancel func(error)) {
	return q.For(Origin{}, nil, nil).EnqueueMany(batch, done)
}

// EnqueueMany is like [Queue.EnqueueMany].
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

// Dequeue removes an element and returns it. It fails with OUT_OF_RANGE when the queue is empty and closed.
func (q *Queue) Dequeue(done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.For(Origin{}, nil, nil).Dequeue(done)
}

// Dequeue is like [Queue.Dequeue].
func (q User) Dequeue(done func([]*tensor.Tensor, error)) (cancel func(error)) {
	message := dequeueOne
	if q.openWait != nil {
		message = &wire.Dequeue{Count: 1, OpenWaitMs: q.openWaitMs()}
	}
	w := q.waiter(message)
	w.given = done
	return q.submit(w)
}

// openWaitMs returns how long a dequeue waits for the queue to be reopened, or nil if it does not wait.
func (q User) openWaitMs() *int64 {
	if q.openWait == nil {
		return nil
	}
	return proto.Int64(q.openWait.Milliseconds())
}

// DequeueMany removes n elements and returns them as one tuple of their rows; n is not negative. It waits for all of them, and fails with
// OUT_OF_RANGE if the queue closes before they arrive. It fails with INVALID_ARGUMENT if the components' shapes are not specified.
func (q *Queue) DequeueMany(n int, done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.For(Origin{}, nil, nil).DequeueMany(n, done)
}

// DequeueMany is like [Queue.DequeueMany].
func (q User) DequeueMany(n int, done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.dequeueBatch(false, "DequeueManyOp", n, done)
}

// DequeueUpTo is like DequeueMany, except that a closed queue returns what is left, one element or more.
func (q *Queue) DequeueUpTo(n int, done func([]*tensor.Tensor, error)) (cancel func(error)) {
	return q.For(Origin{}, nil, nil).DequeueUpTo(n, done)
}

// DequeueUpTo is like [Queue.DequeueUpTo].
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
		w := q.waiter(&wire.Dequeue{Count: int64(n), Batch: true, UpTo: upTo, OpenWaitMs: q.openWaitMs()})
		w.given = done
		return q.submit(w)
	}
	return noCancel
}

// EnqueueManyOnce is like EnqueueMany, for a producer that numbers its elements: the elements of batch have the numbers first, first+1 and so
// on. Elements with numbers below that of one that this producer has added before are skipped, so a put that is repeated because its outcome
// is unknown is stored once. A producer has one put in flight at a time. The queue remembers the 1,024 producers that were active last. The
// id has at most 256 bytes.
func (q User) EnqueueManyOnce(producer string, first int64, batch []*tensor.Tensor, done func(error)) (cancel func(error)) {
	err := q.options.checkMany(batch)
	switch {
	case producer == "" || len(producer) > maxProducerID:
		err = status.InvalidArgumentf("The id of a producer of queue '%s' has %d bytes, and must have from 1 to %d", q.options.Name, len(producer), maxProducerID)
	case first < 0 || first > maxFirst:
		err = status.InvalidArgumentf("Producer '%s' of queue '%s' numbers its elements from %d, and numbers are from 0 to %d", producer, q.options.Name, first, int64(maxFirst))
	}
	if err != nil || batch[0].Dim(0) == 0 {
		release(batch)
		done(err)
		return noCancel
	}
	w := q.waiter(&wire.Enqueue{Many: true, Producer: producer, First: first})
	w.in, w.done = rows(batch), done
	return q.submit(w)
}

const (
	maxProducerID = 256
	maxFirst      = 1 << 62 // far from where adding the length of a batch overflows
)

// Lease is like DequeueUpTo, except that the elements are leased. They take up room in the queue until the lease is acknowledged. If it is
// returned or expires, they go back to the front of the queue, in their order. n is positive. The token that is passed to done identifies
// the lease and cannot be guessed.
func (q User) Lease(n int, terms Terms, done func(token string, elems []*tensor.Tensor, err error)) (cancel func(error)) {
	err := q.options.checkTerms(n, terms)
	if err == nil && terms.DeadLetters != nil {
		err = q.checkDeadLetters(terms.DeadLetters)
	}
	if err != nil {
		done("", nil, err)
		return noCancel
	}
	w := q.waiter(&wire.Dequeue{Count: int64(n), Batch: true, UpTo: true, OpenWaitMs: q.openWaitMs(),
		Lease: &wire.Lease{DurationMs: terms.Duration.Milliseconds(), MaxDeliveries: int64(terms.MaxDeliveries)}})
	w.terms, w.lent = &terms, done
	return q.submit(w)
}

// checkDeadLetters checks the queue that stores dead letters.
func (q *Queue) checkDeadLetters(dead *Queue) error {
	from, to := &q.options, &dead.options
	switch {
	case dead == q:
		return status.InvalidArgumentf("Queue '%s' cannot store its own dead letters", from.Name)
	case !slices.Equal(from.DTypes, to.DTypes) || len(to.Shapes) > 0 && !slices.EqualFunc(from.Shapes, to.Shapes, tensor.Shape.Equal):
		return status.InvalidArgumentf("Queue '%s' cannot store the dead letters of queue '%s': its elements have the types %s and shapes %s, those the types %s and shapes %s",
			to.Name, from.Name, typeList(to.DTypes), shapeList(to.Shapes), typeList(from.DTypes), shapeList(from.Shapes))
	}
	return nil
}

// Acknowledge ends leases whose elements have been used. held reports for each whether it had not been returned, by its consumer or because
// it had expired. Repeating an acknowledgement does no harm: the queue remembers the last 1,024.
func (q *Queue) Acknowledge(tokens []string, done func(held []bool, err error)) {
	q.settle(wire.Settle_ACKNOWLEDGE, tokens, done)
}

// Return ends leases, and puts their elements back to the front of the queue. held reports for each whether it had been neither acknowledged nor expired.
// Repeating a return does no harm: the queue remembers the last 1,024.
func (q *Queue) Return(tokens []string, done func(held []bool, err error)) {
	q.settle(wire.Settle_RETURN, tokens, done)
}

// Renew lets leases last for their duration from now on. held reports for each whether it had not ended before.
func (q *Queue) Renew(tokens []string, done func(held []bool, err error)) {
	q.settle(wire.Settle_RENEW, tokens, done)
}

func (q *Queue) settle(action wire.Settle_Action, tokens []string, done func([]bool, error)) {
	w := newWaiter(&wire.Settle{Action: action, Leases: tokens})
	w.settled = done
	q.submit(w)
}

// CloseQueue closes the queue to further elements. Pending enqueues still complete and closing waits for them, unless cancelPending cancels
// them. Later enqueues fail with CANCELLED, and so does a second close unless it cancels pending ones.
//
// A reason says why the producer failed. Dequeues that lack elements then fail with it, instead of the OUT_OF_RANGE that means that
// everything was delivered.
//
// A close that is cancelled while it waits is no longer waited for; the queue still closes, as a change of its own.
func (q *Queue) CloseQueue(cancelPending bool, reason error, done func(error)) (cancel func(error)) {
	return q.For(Origin{}, nil, nil).CloseQueue(cancelPending, reason, done)
}

// CloseQueue is like [Queue.CloseQueue].
func (q User) CloseQueue(cancelPending bool, reason error, done func(error)) (cancel func(error)) {
	w := q.waiter(&wire.Close{CancelPending: cancelPending})
	w.reason, w.done = reason, done
	return q.submit(w)
}

// Size returns the number of elements in the queue, excluding those that are leased and those that a pending DequeueMany has collected.
func (q *Queue) Size(done func(int, error)) {
	w := newWaiter(getState)
	w.seen = func(s *wire.State, err error) { done(int(s.GetSize()), err) }
	q.submit(w)
}

// IsClosed reports whether the queue is closed. A queue that waits for pending enqueues before it closes is not closed yet.
func (q *Queue) IsClosed(done func(bool, error)) {
	w := newWaiter(getState)
	w.seen = func(s *wire.State, err error) { done(s.GetClosed(), err) }
	q.submit(w)
}

// Matches returns INVALID_ARGUMENT if the queue cannot serve a node of the given op that asks for opts under the same name.
func (q *Queue) Matches(op string, opts Options) error { return q.options.matches(op, opts) }

// DTypes returns the types of an element's components. The caller must not change them.
func (q *Queue) DTypes() []tensor.DType { return q.options.DTypes }

// Close deletes the queue: pending operations fail with ABORTED, the elements are dropped, the actor stops. It does not wait for this; Done
// does.
func (q *Queue) Close() {
	if q.refuse(status.Errorf(status.Aborted, "%v '%s' was deleted.", q.options.Kind, q.options.Name)) {
		q.runner.end()
	}
}

// Deleted reports whether operations are refused because the queue was deleted or has failed.
func (q *Queue) Deleted() bool { return q.ended.Load() != nil }

// Done returns a channel that is closed when the queue has ended and holds no elements.
func (q *Queue) Done() <-chan struct{} { return q.done }

// waiter wraps one of the user's messages in an envelope.
func (q User) waiter(message proto.Message) *waiter {
	w := newWaiter(message)
	w.by, w.step, w.notes, w.changes, w.moves = q.origin, q.step, q.notes, q.changes, q.moves
	return w
}

// Describe describes the queue for listings.
func (q *Queue) Describe() string {
	capacity := "no limit"
	if q.options.Capacity < unbounded {
		capacity = fmt.Sprintf("capacity %d", q.options.Capacity)
	}
	q.mu.Lock()
	elements, leased, closed := q.core.state.order.len(), q.core.state.leases.elems, q.core.state.closed
	q.mu.Unlock()
	state := "open"
	if closed {
		state = "closed"
	}
	if leased > 0 {
		state += fmt.Sprintf(", %d leased", leased)
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

// refuse makes operations fail with err from now on. It returns false if they already fail.
func (q *Queue) refuse(err error) bool { return q.ended.CompareAndSwap(nil, &err) }

// none returns a batch of no elements. Unknown sizes are zero in it.
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
