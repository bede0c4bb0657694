package disk

import (
	"container/list"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// gate runs a bounded number of functions at a time. Each goroutine runs one, and then those that wait.
type gate struct {
	maxRunning, maxWaiting int

	mu      sync.Mutex
	running int
	waiting list.List // of *waiter
}

// waiter is work that waits for its turn. It leaves the list once: for its turn, or because its step has ended.
type waiter struct {
	work     func()
	withdraw func() bool // the registration with the step; nil before there is one
	left     bool
}

func newGate(running, waiting int) *gate { return &gate{maxRunning: running, maxWaiting: waiting} }

// enter runs work when its turn has come. failed is called instead, once, where too many wait or the step ends before.
func (g *gate) enter(c *kernels.Cancellation, work func(), failed func(error)) {
	g.mu.Lock()
	switch {
	case g.startLocked(work):
		g.mu.Unlock()
		return
	case g.waiting.Len() >= g.maxWaiting:
		g.mu.Unlock()
		failed(status.Errorf(status.ResourceExhausted, "%d file operations of this server's process run and %d wait for their turn, which is the limit", g.maxRunning, g.maxWaiting))
		return
	}
	w := &waiter{work: work}
	at := g.waiting.PushBack(w)
	g.mu.Unlock()
	leave := func(err error) {
		if g.remove(at) {
			failed(kernels.Cancelled(err))
		}
	}
	withdraw, ok := c.OnCancel(leave)
	if !ok {
		leave(c.Err())
		return
	}
	g.mu.Lock()
	w.withdraw = withdraw
	left := w.left
	g.mu.Unlock()
	if left {
		withdraw()
	}
}

// queue runs work when its turn has come, however many wait.
func (g *gate) queue(work func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.startLocked(work) {
		g.waiting.PushBack(&waiter{work: work})
	}
}

// remove takes out work whose turn has not come; false where it has.
func (g *gate) remove(at *list.Element) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := at.Value.(*waiter)
	if w.left {
		return false
	}
	w.left = true
	g.waiting.Remove(at)
	return true
}

// startLocked runs work now if there is room.
func (g *gate) startLocked(work func()) bool {
	if g.running >= g.maxRunning {
		return false
	}
	g.running++
	contain.Go(nil, "The turns of file operations", func() { g.run(work) }, nil) // ends when nothing waits any more
	return true
}

func (g *gate) run(work func()) {
	for work != nil {
		call(work)
		work = g.next()
	}
}

// call contains what work has not contained itself, so that others have their turn.
func call(work func()) {
	defer contain.Recover(nil, "A file operation", nil)
	work()
}

// next takes the work out whose turn it is; nil where none waits, which ends the caller's goroutine.
func (g *gate) next() func() {
	g.mu.Lock()
	at := g.waiting.Front()
	if at == nil {
		g.running--
		g.mu.Unlock()
		return nil
	}
	w := g.waiting.Remove(at).(*waiter)
	w.left = true
	withdraw := w.withdraw
	g.mu.Unlock()
	if withdraw != nil {
		withdraw()
	}
	return w.work
}
