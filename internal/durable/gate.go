package durable

import (
	"sync"
	"time"
)

// Gate lets somebody look at many resources between steps: a step enters before its first change and leaves when it ends. While the gate is
// closed nobody is inside, and those that come wait.
type Gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	opened chan struct{} // closed when the gate is opened; nil while it is open
	left   chan struct{} // closed when the last one leaves; nil if nobody waits for that
}

// Enter waits while the gate is closed, which is for a bounded time. The caller must not hold what others need to leave.
func (g *Gate) Enter() {
	g.mu.Lock()
	for g.closed {
		opened := g.opened
		g.mu.Unlock()
		<-opened
		g.mu.Lock()
	}
	g.inside++
	g.mu.Unlock()
}

// Leave ends what Enter began.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.left != nil {
		close(g.left)
		g.left = nil
	}
}

// Close closes the gate when all have left. If they have not within the given time, it stays open and ok is false. It must not be called
// while the gate is closed. Nobody enters meanwhile.
func (g *Gate) Close(wait time.Duration) (open func(), ok bool) {
	g.mu.Lock()
	g.closed, g.opened = true, make(chan struct{})
	if g.inside == 0 {
		g.mu.Unlock()
		return g.open, true
	}
	left := make(chan struct{})
	g.left = left
	g.mu.Unlock()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-left:
		return g.open, true
	case <-limit.C:
	}
	g.mu.Lock()
	ok = g.inside == 0
	g.left = nil
	g.mu.Unlock()
	if ok {
		return g.open, true
	}
	g.open()
	return nil, false
}

func (g *Gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	close(g.opened)
	g.opened = nil
}

// Gate returns the gate of the store's steps.
func (s *Store) Gate() *Gate { return &s.gate }

// Enter has the step enter the store's gate, unless it is inside. It leaves when it waits, or ends.
func (t *Tx) Enter() {
	if t.inside.Load() {
		return
	}
	t.store.gate.Enter()
	if t.inside.Swap(true) { // another kernel of the step was faster
		t.store.gate.Leave()
	}
}

// leave has the step leave the store's gate if it is inside.
func (t *Tx) leave() {
	if t.inside.Swap(false) {
		t.store.gate.Leave()
	}
}
