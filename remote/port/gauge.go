package port

import "sync"

// gauge counts what runs, and can refuse more and tell when the last has ended.
type gauge struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{}
}

func newGauge() *gauge { return &gauge{idle: make(chan struct{})} }

// enter counts one more, or refuses.
func (g *gauge) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.closed && g.running == 0 {
		close(g.idle)
	}
}

// close refuses from now on; the channel is closed once none runs.
func (g *gauge) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		if g.running == 0 {
			close(g.idle)
		}
	}
	return g.idle
}
