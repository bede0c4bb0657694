package kernels

import (
	"sync"

	"github.com/troupe-run/troupe/graph/status"
)

// Wait runs an operation that may have to wait, as long as its step goes on. start begins it and returns the
// function that cancels it; the operation calls end when it is over, at any time from then on, also when it was
// cancelled. Only the first end counts: it calls done, and the kernel's context is no longer to be used.
func Wait(c *Cancellation, done func(error), start func(end func(error)) (cancel func(error))) {
	if err := c.Err(); err != nil {
		done(err)
		return
	}
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
