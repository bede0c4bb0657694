package processors

import (
	"context"
	"sync/atomic"
	"time"
)

// Work is what holds at most one slot, on however many goroutines it runs. The zero Work belongs to nobody, and never waits.
// Begin is called before anything else. The other methods may be called concurrently.
type Work struct {
	client *Client
	// goroutines has the number of those that are at work in its low half, and how often one entered in the other.
	goroutines atomic.Uint64
	held       atomic.Bool // written under the scheduler's mutex

	// Guarded by the scheduler's mutex.
	began   time.Duration // of the slice; 0 where it is not measured yet
	ready   chan struct{}
	waiters int
}

const entry = 1<<32 + 1

// Begin makes it work of a client; nil for nobody's.
func (w *Work) Begin(c *Client) {
	w.client = c
	if c != nil && !c.active.Load() {
		c.active.Store(true)
	}
}

// Enter tells that a goroutine is at work from now on, until Leave. Calls may be nested. It does not wait; n is how often
// a goroutine has entered.
func (w *Work) Enter() (n uint32) { return uint32(w.goroutines.Add(entry) >> 32) }

// Leave undoes an Enter. The last one gives the slot back.
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

// Due tells whether Wait may have to wait.
func (w *Work) Due() bool {
	return w.client != nil && (!w.held.Load() || w.client.scheduler.contended.Load())
}

// Wait is called by a goroutine that has entered, before it computes for long and again and again while it does. It
// takes a slot, or keeps it, or hands it over to others whose turn it is and waits for the next one.
func (w *Work) Wait() { _ = w.WaitContext(context.Background()) }

// WaitContext is Wait until ctx ends, whose error it gives. Then the work goes on without a slot to its end, which
// should be soon.
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
