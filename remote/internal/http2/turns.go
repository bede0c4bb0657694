package http2

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// heavyWork is the debt of work from which a connection takes turns, and maxDebt bounds the debt. Idling pays off
	// the debt: a client that waits for each answer before its next call takes no turns, nor does one that keeps a
	// processor busy for less than half of the time.
	heavyWork = time.Millisecond
	maxDebt   = 4 * heavyWork
	// looks is the number of frames after which the clock is checked.
	looks = 8
	// turn is how long a turn may last before the connection yields to others.
	turn = 100 * time.Microsecond
	// turnLease is the time after which a turn is revoked if its connection has not ended it, because it waits for
	// something, such as a client that does not read.
	turnLease = 5 * time.Millisecond
	// handlerTurn is how long a call of a connection that takes turns may delay the calls behind it. It is also the
	// bound, within handlerEpoch, of the total delay by calls that were detached in the end.
	handlerTurn  = time.Millisecond
	handlerEpoch = 10 * time.Millisecond
)

// started is the zero of clock.
var started = time.Now()

// clock returns a monotonic time in nanoseconds.
func clock() int64 { return int64(time.Since(started)) }

// turns divides the processors among connections that keep them busy. Go's scheduler polls for readable sockets
// only when a processor is idle. A few connections that always have input would thus delay the calls of all others by
// 10 ms each. Such connections handle their input in turns, of which there are fewer at once than
// processors. Clients take turns in order, and so do the connections of a client. All other
// connections only read the clock.
type turns struct {
	mu      sync.Mutex
	places  int // maximum number of holders
	holders []*worker
	waiting int         // connections
	clients []*client   // with waiting connections, in the order of their next turns
	lease   *time.Timer // revokes long turns while connections wait; nil if none waits
}

// worker is a connection that may have to take turns.
type worker struct {
	turns *turns // nil for one that takes none
	owner *client

	// Owned by the reader.
	now    int64 // when the current work or idle time began
	frames int   // since then
	debt   int64 // work that idling has not paid off
	wasted int64 // delay since since by calls that were detached in the end
	since  int64

	// Guarded by turns.mu.
	holding bool
	began   int64
	granted chan struct{}
}

func newTurns() *turns {
	t := &turns{}
	t.adapt()
	return t
}

// adapt adjusts to the number of processors. One is left for connections that need little.
func (t *turns) adapt() {
	places := max(1, runtime.GOMAXPROCS(0)-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places = places
}

// begin is called after something was read. It waits for a turn if the connection must take one.
func (w *worker) begin() {
	if w.turns == nil {
		return
	}
	now := clock()
	w.debt = max(0, w.debt-(now-w.now))
	w.now, w.frames = now, 0
	if w.heavy() {
		w.turns.acquire(w)
		w.now = clock()
	}
}

// end is called before more is read, which may block.
func (w *worker) end() {
	if w.turns == nil {
		return
	}
	now := clock()
	work := now - w.now
	if w.heavy() {
		w.turns.release(w)
	}
	w.debt = min(w.debt+work, int64(maxDebt))
	w.now = now
}

// yield is called between frames. If work has lasted longer than turn, it ends the turn, if any, and waits for the next
// one if the connection must take turns.
func (w *worker) yield() {
	if w.frames++; w.frames%looks == 0 && w.turns != nil && clock()-w.now > int64(turn) {
		w.end()
		w.begin()
	}
}

func (w *worker) heavy() bool { return w.debt >= int64(heavyWork) }

// exempt is called by the reader of a connection that takes no more turns.
func (w *worker) exempt() {
	if w.turns != nil {
		w.turns.release(w)
		w.turns = nil
	}
}

// patience returns how long a call may delay the calls behind it.
func (w *worker) patience() time.Duration {
	if w.turns == nil || !w.heavy() {
		return 0
	}
	if now := clock(); now-w.since > int64(handlerEpoch) {
		w.since, w.wasted = now, 0
	}
	return max(0, handlerTurn-time.Duration(w.wasted))
}

// acquire waits for a turn.
func (t *turns) acquire(w *worker) {
	t.mu.Lock()
	if w.holding {
		t.mu.Unlock()
		return
	}
	if len(t.holders) < t.places {
		t.grantLocked(w)
		t.mu.Unlock()
		return
	}
	if w.granted == nil {
		w.granted = make(chan struct{}, 1)
	}
	t.waiting++
	w.owner.waiting = append(w.owner.waiting, w)
	t.queueLocked(w.owner)
	if t.lease == nil {
		t.lease = time.AfterFunc(turnLease, t.revoke)
	}
	t.mu.Unlock()
	<-w.granted // turns are short, and end with their leases
}

func (t *turns) grantLocked(w *worker) {
	w.holding, w.began = true, clock()
	t.holders = append(t.holders, w)
}

// release ends a turn, if the connection has one.
func (t *turns) release(w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.holding {
		t.endLocked(w)
		t.nextLocked()
	}
}

func (t *turns) endLocked(w *worker) {
	w.holding = false
	i := slices.Index(t.holders, w)
	t.holders = slices.Delete(t.holders, i, i+1)
	t.queueLocked(w.owner)
}

// queueLocked queues a client with waiting connections behind the others. A client that was given a turn is queued again
// when the turn has ended, so that a client with one connection, which asks again only then, has no disadvantage.
func (t *turns) queueLocked(c *client) {
	if !c.queued && len(c.waiting) > 0 {
		c.queued = true
		t.clients = append(t.clients, c)
	}
}

// nextLocked gives free turns to waiting connections.
func (t *turns) nextLocked() {
	for len(t.holders) < t.places && len(t.clients) > 0 {
		c := t.clients[0]
		t.clients[0], t.clients = nil, t.clients[1:]
		w := c.waiting[0]
		t.waiting--
		c.waiting[0], c.waiting, c.queued = nil, c.waiting[1:], false
		t.grantLocked(w)
		w.granted <- struct{}{}
		if len(t.holders) < t.places {
			t.queueLocked(c)
		}
	}
}

// revoke ends the turns that have outlasted their lease.
func (t *turns) revoke() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease = nil
	now := clock()
	for _, w := range slices.Clone(t.holders) {
		if now-w.began > int64(turnLease) {
			t.endLocked(w)
		}
	}
	if t.nextLocked(); t.waiting > 0 {
		t.lease = time.AfterFunc(turnLease, t.revoke)
	}
}
