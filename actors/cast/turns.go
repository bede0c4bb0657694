package cast

import (
	"context"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
)

// turns lets a bounded number of things be done at a time, and at most half as many for one client. Clients that wait take turns, so that one which
// has much to do does not hold up the others. Its methods may be called concurrently.
type turns struct {
	most int

	mu      sync.Mutex // guards the rest: calls of clients wait for their turns on their own goroutines, and a turn must be there when one ends
	busy    int
	clients map[string]*turnsOf // those for which something is being done, or that wait
	next    []*turnsOf          // those that wait, in the order of their turns
}

// turnsOf are those of one client.
type turnsOf struct {
	busy    int
	waiting []chan struct{} // closed when their turns come
}

// clientKey is the key of a context's client.
type clientKey struct{}

// ForClient returns a context for calls on behalf of a client. What takes long is done for one client after the other.
func ForClient(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

func clientOf(ctx context.Context) string {
	who, _ := ctx.Value(clientKey{}).(string) // "" is the program itself
	return who
}

// enter waits for a turn of the context's client, until ctx ends. The caller calls leave after its turn.
func (t *turns) enter(ctx context.Context) error {
	who := clientOf(ctx)
	t.mu.Lock()
	c := t.clients[who]
	if c == nil {
		if t.clients == nil {
			t.clients = map[string]*turnsOf{}
		}
		c = &turnsOf{}
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
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(c.waiting, turn); i < 0 { // it has come meanwhile
		t.endLocked(who, c)
	} else {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		if len(c.waiting) == 0 {
			t.next = slices.DeleteFunc(t.next, func(other *turnsOf) bool { return other == c })
		}
		t.forgetLocked(who, c)
	}
	return status.From(ctx.Err())
}

// leave ends a turn of the context's client.
func (t *turns) leave(ctx context.Context) {
	who := clientOf(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(who, t.clients[who])
}

func (t *turns) endLocked(who string, c *turnsOf) {
	t.busy--
	c.busy--
	t.grantLocked()
	t.forgetLocked(who, c)
}

func (t *turns) forgetLocked(who string, c *turnsOf) {
	if c.busy == 0 && len(c.waiting) == 0 {
		delete(t.clients, who)
	}
}

// grantLocked begins the turns that there is room for.
func (t *turns) grantLocked() {
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
