package processors

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"
)

// Work holds at most one slot, on any number of goroutines. The zero Work has no client and never waits. Begin must be called first. The
// other methods may be called concurrently.
type Work struct {
	client *Client
	// goroutines is the number of active goroutines in its low half, and the number of Enter calls in its high half.
	goroutines atomic.Uint64
	held       atomic.Bool // written under the scheduler's mutex

	// Guarded by the scheduler's mutex.
	began   time.Duration // of the slice; 0 if not measured yet
	ready   chan struct{}
	place   *list.Element // in the client's queue, while ready is not nil
	waiters int
}

const entry = 1<<32 + 1

// Begin assigns the work to a client; nil means none.
func (w *Work) Begin(c *Client) {
	w.client = c
	if c != nil && !c.active.Load() {
		c.active.Store(true)
	}
}

// Enter marks a goroutine as active until Leave. Calls may be nested. It does not wait. n is the number of Enter calls so far.
func (w *Work) Enter() (n uint32) { return uint32(w.goroutines.Add(entry) >> 32) }

// Leave undoes an Enter. The last one releases the slot.
func (w *Work) Leave() {
	if uint32(w.goroutines.Add(^uint64(0))) > 0 || !w.held.Load() {
		return
	}
	s := w.client.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.held.Load() && uint32(w.goroutines.Load()) == 0 {
		s.surrender(w)
		s.dispatch()
	}
}

// Due reports whether Wait may have to wait.
func (w *Work) Due() bool {
	return w.client != nil && (!w.held.Load() || w.client.scheduler.contended.Load())
}

// Wait must be called by a goroutine that has entered, before it computes for long and repeatedly while it does. It takes a slot or keeps
// it, or hands it over to other work whose turn it is and waits for the next one.
func (w *Work) Wait() { _ = w.WaitContext(context.Background()) }

// WaitContext is Wait until ctx ends; it then returns the error of ctx. The work may then finish without a slot, which should be soon.
func (w *Work) WaitContext(ctx context.Context) error {
	if !w.Due() {
		return nil
	}
	s := w.client.scheduler
	s.mu.Lock()
	if w.held.Load() && s.expired(w) {
		s.surrender(w)
		s.enqueue(w)
		s.dispatch()
	}
	if w.held.Load() {
		s.mu.Unlock()
		return nil
	}
	return s.acquire(ctx, w)
}
