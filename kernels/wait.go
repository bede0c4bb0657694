package kernels

import (
	"sync"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
)

// Awaited is what an asynchronous kernel waits for, for those who ask why a step does not end.
type Awaited struct {
	// Resource is the resource whose state has to change; nil for none.
	Resource containers.Resource
	// Verb is what the kernel does with it: enqueue, dequeue, take, lock.
	Verb string
	// Amount is how much it asks for, such as a dequeue's elements; 0 where that says nothing.
	Amount int64
	// Source is the queue from which an operation of a reader takes the names of files; nil for none.
	Source containers.Resource
	// Text says in words what is awaited, where there is no resource or more to say.
	Text string
}

// Use is what an op does with a resource, where others may wait for that.
type Use struct {
	// Verb says what: enqueue, dequeue, close, insert, take, stage, unstage.
	Verb string
	// Input is the input that has the resource's handle; OwnName for an op that names the resource itself.
	Input int
}

// OwnName is the Use.Input of ops whose attributes name the resource.
const OwnName = -1

var uses = map[string]Use{
	"QueueEnqueue": {"enqueue", 0}, "QueueEnqueueV2": {"enqueue", 0}, "QueueEnqueueMany": {"enqueue", 0}, "QueueEnqueueManyV2": {"enqueue", 0},
	"QueueDequeue": {"dequeue", 0}, "QueueDequeueV2": {"dequeue", 0}, "QueueDequeueMany": {"dequeue", 0}, "QueueDequeueManyV2": {"dequeue", 0},
	"QueueDequeueUpTo": {"dequeue", 0}, "QueueDequeueUpToV2": {"dequeue", 0}, "QueueClose": {"close", 0}, "QueueCloseV2": {"close", 0},
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

// UseOf tells what an op does with a resource; ok is false where nobody waits for that.
func UseOf(op string) (u Use, ok bool) {
	u, ok = uses[op]
	return u, ok
}

// Caller is what runs a kernel away from its run's goroutine.
type Caller interface {
	// Awaits notes what the kernel waits for from now on.
	Awaits(a Awaited)
}

// Await notes what the kernel is about to wait for. It must be called before the kernel may have ended.
func (c *Context) Await(a Awaited) {
	if c.Caller != nil {
		c.Caller.Awaits(a)
	}
}

// Wait runs an operation that may have to wait, as long as its step goes on. start begins it and returns the
// function that cancels it; the operation calls end when it is over, at any time from then on, also when it was
// cancelled. Only the first end counts: it calls done, and the kernel's context is no longer to be used.
func Wait(ctx *Context, on Awaited, done func(error), start func(end func(error)) (cancel func(error))) {
	c := ctx.Step.Cancellation
	if err := c.Err(); err != nil {
		done(err)
		return
	}
	ctx.Await(on)
	w := &cancellable{done: done}
	w.attach(c, start(w.end))
}

// cancellable is an operation that is under way: what ends it tells the step's cancellation so,
// whichever comes first.
type cancellable struct {
	done     func(error)
	mu       sync.Mutex
	ended    bool
	withdraw func() bool
}

// attach makes c cancel the operation while it lasts.
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
	withdraw := w.withdraw
	w.mu.Unlock()
	if withdraw != nil {
		withdraw()
	}
	w.done(err)
}

// Cancelled is the error of what a cancelled step gave up waiting for.
func Cancelled(cause error) error {
	if cause == nil {
		return ErrStepCancelled
	}
	return status.Derive(status.Errorf(status.Cancelled, "Step was cancelled: %v", cause))
}
