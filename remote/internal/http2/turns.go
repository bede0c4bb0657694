package http2

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// heavyWork is how much work a connection may cause before it takes turns, and maxDebt how much of it is held against
	// it. It makes up for work by idling as long: a client that waits for each answer before it calls again
	// takes no turns, nor does one that keeps a processor busy for less than half of the time.
	heavyWork = time.Millisecond
	maxDebt   = 4 * heavyWork
	// looks is after how many frames the time is told.
	looks = 8
	// turn is how long a turn may be where others wait for one.
	turn = 100 * time.Microsecond
	// turnLease is when a turn is over whose connection has not ended it: it waits for something, such as a client
	// that does not read.
	turnLease = 5 * time.Millisecond
	// handlerTurn is how long a call of a connection that takes turns may hold up the calls behind it, and how long
	// calls may do so in vain within handlerEpoch.
	handlerTurn  = time.Millisecond
	handlerEpoch = 10 * time.Millisecond
)

// started is when the clock began.
var started = time.Now()

// clock gives the time in nanoseconds.
func clock() int64 { return int64(time.Since(started)) }

// turns shares out the processors among connections that keep them busy. Go's scheduler looks for sockets that
// can be read when a processor has nothing else to do. A few connections that always have something to read would
// thus keep all others waiting for 10 ms a call. Such connections handle what they read in turns, fewer at once than
// there are processors. Clients have turns one after another, and so have the connections of a client. All other
// connections only look at the clock.
type turns struct {
	mu      sync.Mutex
	places  int // turns at once
	holders []*worker
	waiting int         // connections
	clients []*client   // with such connections, in the order of their next turns
	lease   *time.Timer // ends turns that last too long while others wait; nil: none does
}

// worker is a connection that may have to take turns.
type worker struct {
	turns *turns // nil for one that takes none
	owner *client

	// Of the reader.
	now    int64 // when the work, or the idling, began
	frames int   // since then
	debt   int64 // work that is not made up for by idling
	wasted int64 // for how long calls held up others in vain, since wastedAt
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

// adapt follows the number of processors, of which one is left to connections that need little.
func (t *turns) adapt() {
	places := max(1, runtime.GOMAXPROCS(0)-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places = places
}

// begin is called when something was read. It waits for a turn where the connection has to take one.
func (w *worker) begin() {
	if w.turns == nil {
		return
	}
	now := clock()
	w.debt = max(0, w.debt-(now-w.now))
	w.now, w.frames = now, 0
	if w.heavy() {
		w.turns.take(w)
		w.now = clock()
	}
}

// end is called before more is read, which may take any time.
func (w *worker) end() {
	if w.turns == nil {
		return
	}
	now := clock()
	work := now - w.now
	if w.heavy() {
		w.turns.leave(w)
	}
	w.debt = min(w.debt+work, int64(maxDebt))
	w.now = now
}

// yield ends a turn that was long enough, or the work of a connection that takes turns from now on, and waits for the next
// turn. It is called between frames.
func (w *worker) yield() {
	if w.frames++; w.frames%looks == 0 && w.turns != nil && clock()-w.now > int64(turn) {
		w.end()
		w.begin()
	}
}

func (w *worker) heavy() bool { return w.debt >= int64(heavyWork) }

// exempt is called by the reader of a connection that takes no turns from now on.
func (w *worker) exempt() {
	if w.turns != nil {
		w.turns.leave(w)
		w.turns = nil
	}
}

// patience is how long the calls behind one may wait for it; 0 for not at all.
func (w *worker) patience() time.Duration {
	if w.turns == nil || !w.heavy() {
		return 0
	}
	if now := clock(); now-w.since > int64(handlerEpoch) {
		w.since, w.wasted = now, 0
	}
	return max(0, handlerTurn-time.Duration(w.wasted))
}

// take waits for a turn.
func (t *turns) take(w *worker) {
	t.mu.Lock()
	if w.holding {
		t.mu.Unlock()
		return
	}
	if len(t.holders) < t.places {
		t.giveLocked(w)
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

func (t *turns) giveLocked(w *worker) {
	w.holding, w.began = true, clock()
	t.holders = append(t.holders, w)
}

// leave ends a turn, if the connection has one.
func (t *turns) leave(w *worker) {
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

// queueLocked puts a client with connections that wait behind the others. One that was given a turn comes back when
// that has ended, so that a client with one connection, which asks again only then, is not behind.
func (t *turns) queueLocked(c *client) {
	if !c.queued && len(c.waiting) > 0 {
		c.queued = true
		t.clients = append(t.clients, c)
	}
}

// nextLocked gives turns to those that have waited.
func (t *turns) nextLocked() {
	for len(t.holders) < t.places && len(t.clients) > 0 {
		c := t.clients[0]
		t.clients[0], t.clients = nil, t.clients[1:]
		w := c.waiting[0]
		t.waiting--
		c.waiting[0], c.waiting, c.queued = nil, c.waiting[1:], false
		t.giveLocked(w)
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
