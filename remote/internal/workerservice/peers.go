package workerservice

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

const (
	// maxPeers bounds the connections. One that is not in use is closed for another one.
	maxPeers = 1 << 10
	// idleTime is how long a connection is kept that is not in use, and idleCheck how often that is checked.
	idleTime  = 5 * time.Minute
	idleCheck = time.Minute
)

// peers are the connections to other tasks, one for each address. The methods may be called concurrently.
type peers struct {
	connect Connect
	most    int

	mu     sync.Mutex
	closed bool
	of     map[string]*peer
	sweep  *time.Timer // closes idle connections; nil if there are none at all
}

// peer is a task at an address.
type peer struct {
	address string
	turn    chan struct{} // held by the call that connects

	// Guarded by peers.mu.
	users  int
	idle   time.Time     // when it was used last
	client *http2.Client // nil before the first call has connected
}

var errClosed = status.Errorf(status.Unavailable, "The server is shutting down")

// enter returns the peer at an address, for a call that leaves it in the end.
func (p *peers) enter(address string) (*peer, error) {
	var unused *http2.Client
	defer func() { closeAll(unused) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	at := p.of[address]
	if at == nil {
		if len(p.of) >= p.most {
			oldest := p.oldestLocked()
			if oldest == nil {
				return nil, status.Errorf(status.ResourceExhausted, "%s is not connected: tensors are being received from %d other tasks, and the limit is %d", address, len(p.of), p.most)
			}
			unused = oldest.client
			delete(p.of, oldest.address)
		}
		at = &peer{address: address, turn: make(chan struct{}, 1)}
		p.of[address] = at
	}
	at.users++
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleCheck, p.closeIdle)
	}
	return at, nil
}

// oldestLocked returns the peer that was not in use for the longest time, or nil if all are.
func (p *peers) oldestLocked() (oldest *peer) {
	for _, at := range p.of {
		if at.users == 0 && (oldest == nil || at.idle.Before(oldest.idle)) {
			oldest = at
		}
	}
	return oldest
}

func (p *peers) leave(at *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.users--
	at.idle = time.Now()
}

// connected returns a connection other than broken, and whether it was there before. ctx bounds the time that it takes to connect.
func (p *peers) connected(ctx context.Context, at *peer, broken *http2.Client) (c *http2.Client, kept bool, err error) {
	select {
	case at.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, status.From(ctx.Err())
	}
	defer func() { <-at.turn }()
	p.mu.Lock()
	old, closed := at.client, p.closed
	p.mu.Unlock()
	switch {
	case closed:
		return nil, false, errClosed
	case old != nil && old != broken && old.Ready():
		return old, true, nil
	}
	if c, err = p.connect(ctx, at.address); err != nil {
		return nil, false, err
	}
	p.mu.Lock()
	if closed = p.closed; !closed {
		at.client = c
	}
	p.mu.Unlock()
	if closed {
		closeAll(c)
		return nil, false, errClosed
	}
	if old != nil {
		old.Retire() // other calls may still wait for their answers
	}
	return c, false, nil
}

// closeIdle closes the connections that have not been in use for idleTime, and runs again while any are left.
func (p *peers) closeIdle() {
	var idle []*http2.Client
	p.mu.Lock()
	for address, at := range p.of {
		if at.users == 0 && time.Since(at.idle) >= idleTime {
			idle = append(idle, at.client)
			delete(p.of, address)
		}
	}
	p.sweep = nil
	if len(p.of) > 0 && !p.closed {
		p.sweep = time.AfterFunc(idleCheck, p.closeIdle)
	}
	p.mu.Unlock()
	closeAll(idle...)
}

// close closes all connections, and makes later calls fail.
func (p *peers) close() {
	var all []*http2.Client
	p.mu.Lock()
	p.closed = true
	for _, at := range p.of {
		all = append(all, at.client)
	}
	clear(p.of)
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	closeAll(all...)
}

// closeAll closes connections; nil is none.
func closeAll(clients ...*http2.Client) {
	for _, c := range clients {
		if c != nil {
			_ = c.Close() // always nil
		}
	}
}
