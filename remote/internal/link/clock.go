package link

import (
	"sync"
	"time"
)

// clock ticks for all live pipes of a task, on one goroutine, which runs while there are any.
type clock struct {
	links *Links

	mu      sync.Mutex
	running bool
	live    map[ticker]struct{}
}

// ticker is called with each beat. It must not block.
type ticker interface{ tick(now time.Time) }

func (c *clock) add(t ticker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		c.live = map[ticker]struct{}{}
	}
	c.live[t] = struct{}{}
	if !c.running {
		c.running = c.links.start(c.run)
	}
}

func (c *clock) remove(t ticker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, t)
}

func (c *clock) run() {
	beat := time.NewTicker(c.links.timing.Beat)
	defer beat.Stop()
	var due []ticker
	for {
		select {
		case now := <-beat.C:
			c.mu.Lock()
			if len(c.live) == 0 {
				c.running = false
				c.mu.Unlock()
				return
			}
			due = due[:0]
			for t := range c.live {
				due = append(due, t)
			}
			c.mu.Unlock()
			for _, t := range due {
				t.tick(now)
			}
		case <-c.links.ctx.Done():
			return // running stays set: the links are closed
		}
	}
}
