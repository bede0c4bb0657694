package disk

import (
	"container/list"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// gate runs at most maxRunning functions at once. Each goroutine runs one function, then those that wait.
type gate struct {
	maxRunning, maxWaiting int

	mu      sync.Mutex
	running int
	waiting list.List // of *waiter
}

// waiter is work that waits to run. It leaves the list once: to run, or because its step has ended.
type waiter struct {
	work     func()
	withdraw func() bool // the registration with the step; nil before there is one
	left     bool
}

func newGate(running, waiting int) *gate { return &gate{maxRunning: running, maxWaiting: waiting} }

// enter runs work when a slot is free. If too many wait, or the step ends first, it calls failed instead, once.
func (g *gate) enter(c *kernels.Cancellation, work func(), failed func(error)) {
	g.mu.Lock()
	switch {
	case g.startLocked(work):
		g.mu.Unlock()
		return
	case g.waiting.Len() >= g.maxWaiting:
		g.mu.Unlock()
		failed(status.Errorf(status.ResourceExhausted, "%d file operations of this server's process are running and %d are waiting, which is the limit", g.maxRunning, g.maxWaiting))
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

// queue runs work when a slot is free. It has no limit on how many may wait.
func (g *gate) queue(work func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.startLocked(work) {
		g.waiting.PushBack(&waiter{work: work})
	}
}

// remove removes work that has not started; it returns false if the work has started.
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

// startLocked runs work now if a slot is free.
func (g *gate) startLocked(work func()) bool {
	if g.running >= g.maxRunning {
		return false
	}
	g.running++
	contain.Go(nil, "The turns of file operations", func() { g.run(work) }, nil) // ends when nothing waits
	return true
}

func (g *gate) run(work func()) {
	for work != nil {
		call(work)
		work = g.next()
	}
}

// call runs work and recovers a panic that work has not recovered itself, so the goroutine can run what waits.
func call(work func()) {
	defer contain.Recover(nil, "A file operation", nil)
	work()
}

// next removes and returns the first waiting work. It returns nil if none waits; the caller's goroutine then ends.
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
