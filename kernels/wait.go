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
	// Text says in words what is awaited, where there is no resource or more to say.
	Text string
}

// verbs are what ops do with the resource that their first input names, where others may wait for it.
var verbs = map[string]string{
	"QueueEnqueue": "enqueue", "QueueEnqueueV2": "enqueue", "QueueEnqueueMany": "enqueue", "QueueEnqueueManyV2": "enqueue",
	"QueueDequeue": "dequeue", "QueueDequeueV2": "dequeue", "QueueDequeueMany": "dequeue", "QueueDequeueManyV2": "dequeue",
	"QueueDequeueUpTo": "dequeue", "QueueDequeueUpToV2": "dequeue", "QueueClose": "close", "QueueCloseV2": "close",
	"BarrierInsertMany": "insert", "BarrierTakeMany": "take", "BarrierClose": "close",
	"AccumulatorApplyGradient": "insert", "SparseAccumulatorApplyGradient": "insert", "ResourceAccumulatorApplyGradient": "insert",
	"AccumulatorTakeGradient": "take", "SparseAccumulatorTakeGradient": "take", "ResourceAccumulatorTakeGradient": "take",
}

// VerbOf tells what an op does with the resource that its first input names; empty where nobody waits for that.
func VerbOf(op string) string { return verbs[op] }

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
