package durable

import (
	"sync"
	"time"
)

// compactionCategory is pebble's name for files that are made of others.
const compactionCategory = "pebble-compaction"

// pauseLeast is the shortest time for which a pace holds up a write. Shorter ones add up.
const pauseLeast = 10 * time.Millisecond

// pace bounds how fast compactions write, so that they leave the disk to commits.
type pace struct {
	rate int64 // bytes a second; 0 is without a bound

	mu     sync.Mutex
	until  time.Time     // when what was written may have been written
	lifted chan struct{} // closed while there is no bound
	lifts  int
}

func newPace(rate int64) *pace { return &pace{rate: rate, lifted: make(chan struct{})} }

// took waits as long as it takes to write n bytes at the rate.
func (p *pace) took(n int) {
	if p.rate == 0 {
		return
	}
	p.mu.Lock()
	now := time.Now()
	if p.until.Before(now) {
		p.until = now
	}
	p.until = p.until.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	wait, lifted := p.until.Sub(now), p.lifted
	if p.lifts > 0 {
		p.until, wait = now, 0
	}
	p.mu.Unlock()
	if wait < pauseLeast {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-lifted:
	}
}

// lift takes the bound away until lower is called.
func (p *pace) lift() (lower func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lifts++; p.lifts == 1 {
		close(p.lifted)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lifts--; p.lifts == 0 {
			p.lifted = make(chan struct{})
		}
	}
}
