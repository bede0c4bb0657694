package kernels

import (
	"sync"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/durable"
)

// Awaited describes what an asynchronous kernel waits for, to explain why a step does not end.
type Awaited struct {
	// Resource is the resource whose state must change, or nil.
	Resource containers.Resource
	// Verb is the kernel's operation on the resource: enqueue, dequeue, take, lock.
	Verb string
	// Amount is the amount requested, such as the number of elements to dequeue, or 0 if it does not apply.
	Amount int64
	// Source is the queue from which a reader's operation takes file names, or nil.
	Source containers.Resource
	// Text describes the wait in words, if there is no resource or more to say.
	Text string
}

// Use is an op's operation on a resource, if other kernels may wait for that operation.
type Use struct {
	// Verb is the operation: enqueue, dequeue, close, insert, take, stage, unstage.
	Verb string
	// Input is the index of the input that holds the resource's handle, or OwnName if the op names the resource itself.
	Input int
}

// OwnName is the Use.Input of ops that name the resource in their attributes.
const OwnName = -1

var uses = map[string]Use{
	"QueueEnqueue": {"enqueue", 0}, "QueueEnqueueV2": {"enqueue", 0}, "QueueEnqueueMany": {"enqueue", 0}, "QueueEnqueueManyV2": {"enqueue", 0},
	"QueueDequeue": {"dequeue", 0}, "QueueDequeueV2": {"dequeue", 0}, "QueueDequeueMany": {"dequeue", 0}, "QueueDequeueManyV2": {"dequeue", 0},
	"QueueDequeueUpTo": {"dequeue", 0}, "QueueDequeueUpToV2": {"dequeue", 0}, "QueueClose": {"close", 0}, "QueueCloseV2": {"close", 0},
	"TroupeQueueLease": {"dequeue", 0}, "TroupeQueueAcknowledge": {"dequeue", 0}, "TroupeQueueReturn": {"enqueue", 0}, "TroupeQueueEnqueueManyOnce": {"enqueue", 0},
	"ReaderRead": {"dequeue", 1}, "ReaderReadV2": {"dequeue", 1}, "ReaderReadUpTo": {"dequeue", 1}, "ReaderReadUpToV2": {"dequeue", 1},
	"BarrierInsertMany": {"insert", 0}, "BarrierTakeMany": {"take", 0}, "BarrierClose": {"close", 0},
	"AccumulatorApplyGradient": {"insert", 0}, "SparseAccumulatorApplyGradient": {"insert", 0}, "ResourceAccumulatorApplyGradient": {"insert", 0},
	"AccumulatorTakeGradient": {"take", 0}, "SparseAccumulatorTakeGradient": {"take", 0}, "ResourceAccumulatorTakeGradient": {"take", 0},
	"Stage": {"stage", OwnName}, "MapStage": {"stage", OwnName}, "OrderedMapStage": {"stage", OwnName},
	"Unstage": {"unstage", OwnName}, "MapUnstage": {"unstage", OwnName}, "OrderedMapUnstage": {"unstage", OwnName},
	"MapUnstageNoKey": {"unstage", OwnName}, "OrderedMapUnstageNoKey": {"unstage", OwnName},
	"StageClear": {"unstage", OwnName}, "MapClear": {"unstage", OwnName}, "OrderedMapClear": {"unstage", OwnName},
	"StagePeek": {"peek at", OwnName}, "MapPeek": {"peek at", OwnName}, "OrderedMapPeek": {"peek at", OwnName},
}

// UseOf returns an op's Use of a resource; ok is false if nothing waits for the op.
func UseOf(op string) (u Use, ok bool) {
	u, ok = uses[op]
	return u, ok
}

// Caller runs a kernel outside its run's goroutine.
type Caller interface {
	// Awaits records what the kernel waits for from now on.
	Awaits(a Awaited)
}

// Await records what the kernel is about to wait for. It must be called before the kernel can have ended.
func (c *Context) Await(a Awaited) {
	if c.Caller != nil {
		c.Caller.Awaits(a)
	}
}

// Wait runs an operation that may wait, until its step ends. start begins the operation and returns the function that cancels it. The
// operation calls end when it is over, at any time, including after it was cancelled. Only the first call of end counts: it calls done,
// after which the kernel's context must not be used.
//
// The step may end while start runs, before its operation can be cancelled. The resource must therefore ask ctx.Step.Cancellation at the moment
// in which it would hand something over, and treat the operation as cancelled if it has fired: what another step offers after Cancel has returned
// is otherwise lost. TestEndedStepsTakeNothing in kernels/all has a case for each caller.
func Wait(ctx *Context, on Awaited, done func(error), start func(end func(error)) (cancel func(error))) {
	c := ctx.Step.Cancellation
	if err := c.Err(); err != nil {
		done(err)
		return
	}
	ctx.Await(on)
	w := &cancellable{done: done, changes: ctx.Changes()}
	w.attach(c, start(w.end))
}

// cancellable is a pending operation. It removes its registration with the step's cancellation when it ends, even if it ends before it is
// registered.
type cancellable struct {
	done     func(error)
	changes  *durable.Tx // of the step; nil if it changes nothing durable
	mu       sync.Mutex
	ended    bool
	withdraw func() bool
	goesOn   func() // tells changes that the step waits no more
}

// attach registers cancel with c for as long as the operation is pending.
func (w *cancellable) attach(c *Cancellation, cancel func(error)) {
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	if ended {
		return
	}
	withdraw, ok := c.OnCancel(cancel)
	if !ok {
		cancel(c.Err())
		return
	}
	w.mu.Lock()
	ended = w.ended
	w.withdraw = withdraw
	if !ended && w.changes != nil {
		w.goesOn = w.changes.Waits()
	}
	w.mu.Unlock()
	if ended {
		withdraw()
	}
}

// end ends the operation; only the first call counts.
func (w *cancellable) end(err error) {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return
	}
	w.ended = true
	withdraw, goesOn := w.withdraw, w.goesOn
	w.mu.Unlock()
	if goesOn != nil {
		goesOn()
	}
	if withdraw != nil {
		withdraw()
	}
	w.done(err)
}

// Cancelled returns the error of an operation that its cancelled step abandoned.
func Cancelled(cause error) error {
	if cause == nil {
		return ErrStepCancelled
	}
	return status.Derive(status.Errorf(status.Cancelled, "Step was cancelled: %v", cause))
}
