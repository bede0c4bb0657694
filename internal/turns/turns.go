// Package turns divides what takes much memory or time, and can be done for a few callers at once, among clients.
package turns

import (
	"context"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
)

// Turns lets a bounded number of things be done at a time, and at most half as many for one client. Clients that wait take turns, so that one which
// has much to do does not hold up the others. Its methods may be called concurrently.
type Turns struct {
	most int

	mu      sync.Mutex // guards the rest
	busy    int
	clients map[string]*client // those for which something is being done, or that wait
	next    []*client          // those that wait, in the order of their turns
}

// client has the turns of one client.
type client struct {
	busy    int
	waiting []chan struct{} // closed when their turns come
}

// New returns Turns of which there are at most so many at a time.
func New(most int) *Turns { return &Turns{most: most, clients: map[string]*client{}} }

// Enter waits for a turn of a client until ctx ends. The caller calls leave after its turn.
func (t *Turns) Enter(ctx context.Context, who string) (leave func(), err error) {
	t.mu.Lock()
	c := t.clients[who]
	if c == nil {
		c = &client{}
		t.clients[who] = c
	}
	turn := make(chan struct{})
	if c.waiting = append(c.waiting, turn); len(c.waiting) == 1 {
		t.next = append(t.next, c)
	}
	t.grantLocked()
	t.mu.Unlock()
	select {
	case <-turn:
		return func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.endLocked(who, c)
		}, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(c.waiting, turn); i < 0 { // it has come meanwhile
		t.endLocked(who, c)
	} else {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		if len(c.waiting) == 0 {
			t.next = slices.DeleteFunc(t.next, func(other *client) bool { return other == c })
		}
		t.forgetLocked(who, c)
	}
	return nil, status.From(ctx.Err())
}

func (t *Turns) endLocked(who string, c *client) {
	t.busy--
	c.busy--
	t.grantLocked()
	t.forgetLocked(who, c)
}

func (t *Turns) forgetLocked(who string, c *client) {
	if c.busy == 0 && len(c.waiting) == 0 {
		delete(t.clients, who)
	}
}

// grantLocked begins the turns that there is room for.
func (t *Turns) grantLocked() {
	for i := 0; i < len(t.next) && t.busy < t.most; {
		c := t.next[i]
		if c.busy >= t.most/2 {
			i++
			continue
		}
		close(c.waiting[0])
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.busy++
		t.busy++
		t.next = slices.Delete(t.next, i, i+1)
		if len(c.waiting) > 0 {
			t.next = append(t.next, c)
		}
	}
}
