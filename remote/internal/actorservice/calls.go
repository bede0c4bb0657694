package actorservice

import (
	"sync"

	"github.com/troupe-run/troupe/graph/status"
)

// Bounds of the pending calls of all clients together, and of one client: as many calls as a task may have steps, and a session. The bytes are
// those of their requests, which are kept while the calls wait.
const (
	maxCalls       = 1 << 16
	maxClientCalls = 1 << 14
	maxBytes       = 256 << 20
	maxClientBytes = 64 << 20
)

// calls counts the pending calls. Each may wait for an actor, and has a goroutine. Its methods may be called concurrently.
type calls struct {
	mu  sync.Mutex
	all load
	of  map[string]*load // by client
}

type load struct{ calls, bytes int }

func (l *load) add(calls, bytes int) {
	l.calls += calls
	l.bytes += bytes
}

// pending is one of the calls.
type pending struct {
	calls  *calls
	client string
	bytes  int
}

// enter counts a call of a client until leave is called. The error is RESOURCE_EXHAUSTED.
func (c *calls) enter(client string) (*pending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of[client]
	switch {
	case of != nil && of.calls >= maxClientCalls:
		return nil, status.Errorf(status.ResourceExhausted, "%d calls of this client wait for actors, which is the limit", maxClientCalls)
	case c.all.calls >= maxCalls:
		return nil, status.Errorf(status.ResourceExhausted, "%d calls of clients wait for actors, which is the limit", maxCalls)
	case of == nil:
		of = &load{}
		c.of[client] = of
	}
	of.add(1, 0)
	c.all.add(1, 0)
	return &pending{calls: c, client: client}, nil
}

// hold counts the bytes of the call's request. The error is RESOURCE_EXHAUSTED.
func (p *pending) hold(bytes int) error {
	c := p.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of[p.client]
	switch {
	case of.bytes+bytes > maxClientBytes:
		return status.Errorf(status.ResourceExhausted, "a request of %d bytes about an actor is refused for now: the limit for those of a client that wait is %d bytes, and %d wait", bytes, maxClientBytes, of.bytes)
	case c.all.bytes+bytes > maxBytes:
		return status.Errorf(status.ResourceExhausted, "a request of %d bytes about an actor is refused for now: the limit for those of all clients that wait is %d bytes, and %d wait", bytes, maxBytes, c.all.bytes)
	}
	p.bytes += bytes
	of.add(0, bytes)
	c.all.add(0, bytes)
	return nil
}

// leave ends the call.
func (p *pending) leave() {
	c := p.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of[p.client]
	of.add(-1, -p.bytes)
	c.all.add(-1, -p.bytes)
	if of.calls == 0 {
		delete(c.of, p.client)
	}
}
