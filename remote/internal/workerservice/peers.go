package workerservice

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

const (
	// maxPeers bounds the connections. One that is not in use is closed for another one. Half of them may be in use for one client. There are fewer
	// where a process may open few files, of which filesOfPeer are counted for each: clients' own connections need some.
	maxPeers    = 1 << 10
	filesOfPeer = 8
	// idleTime is how long a connection is kept that is not in use, and idleCheck how often that is checked.
	idleTime  = 5 * time.Minute
	idleCheck = time.Minute
)

// mostPeers returns how many connections there may be in a process that may open the given number of files; 0 means no limit on files.
func mostPeers(files uint64) int {
	if files == 0 {
		return maxPeers
	}
	return int(min(maxPeers, max(files/filesOfPeer, 2)))
}

// peers are the connections to other tasks, one for each address. The methods may be called concurrently.
type peers struct {
	connect Connect
	most    int

	mu     sync.Mutex
	closed bool
	of     map[string]*peer
	used   map[string]int // how many are in use for a client
	sweep  *time.Timer    // closes idle connections; nil if there are none at all
}

// peer is a task at an address.
type peer struct {
	address string
	turn    chan struct{} // held by the call that connects

	// Guarded by peers.mu.
	users  int
	by     map[string]int // the users, by client
	idle   time.Time      // when it was used last
	client *http2.Client  // nil before the first call has connected
}

var errClosed = status.Errorf(status.Unavailable, "The server is shutting down")

// enter returns the peer at an address, for a call that leaves it in the end. The client may be empty: it has no limit of its own.
func (p *peers) enter(client, address string) (*peer, error) {
	var unused *http2.Client
	defer func() { closeAll(unused) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	at := p.of[address]
	if most := max(p.most/2, 1); client != "" && (at == nil || at.by[client] == 0) && p.used[client] >= most {
		return nil, status.Errorf(status.ResourceExhausted, "%s is not connected: %s receives tensors from %d other tasks, and the limit for one client is %d", address, client, p.used[client], most)
	}
	if at == nil {
		if len(p.of) >= p.most {
			oldest := p.oldestLocked()
			if oldest == nil {
				return nil, status.Errorf(status.ResourceExhausted, "%s is not connected: tensors are being received from %d other tasks, and the limit is %d", address, len(p.of), p.most)
			}
			unused = oldest.client
			delete(p.of, oldest.address)
		}
		at = &peer{address: address, turn: make(chan struct{}, 1), by: map[string]int{}}
		p.of[address] = at
	}
	at.users++
	if at.by[client]++; at.by[client] == 1 {
		p.used[client]++
	}
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

func (p *peers) leave(client string, at *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.users--
	if at.by[client]--; at.by[client] == 0 {
		delete(at.by, client)
		if p.used[client]--; p.used[client] == 0 {
			delete(p.used, client)
		}
	}
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
