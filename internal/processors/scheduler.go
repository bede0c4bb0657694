package processors

import (
	"cmp"
	"container/list"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// slice is how long work keeps its slot while other work waits.
	slice = 500 * time.Microsecond
	// lookEvery is how often the scheduler checks which clients have begun steps; lately is how long it remembers that.
	lookEvery = 10 * time.Millisecond
	lately    = 100 * time.Millisecond
	// heavyFor is how long a client counts as heavy after its work has used up a slice, or waited behind other work of the same client.
	heavyFor = 50 * time.Millisecond
)

// Scheduler manages the slots. Its methods may be called concurrently.
type Scheduler struct {
	slots int
	clock func() time.Duration // since an arbitrary moment
	// contended means that all slots are wanted.
	contended atomic.Bool

	mu     sync.Mutex
	open   map[string]*Client
	busy   []*Client // clients that hold slots or wait
	held   int       // slots held
	queued int       // Works that wait
	looked time.Duration
	// lightUntil is the time until which a light client is assumed to exist.
	lightUntil time.Duration
}

// Default is the process's scheduler.
var Default = newScheduler(runtime.GOMAXPROCS(0), sinceStart())

func newScheduler(slots int, clock func() time.Duration) *Scheduler {
	return &Scheduler{slots: slots, clock: clock, open: map[string]*Client{}}
}

func sinceStart() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Contended reports whether all slots are wanted; work should then not spread over several processors.
func (s *Scheduler) Contended() bool { return s.contended.Load() }

// Client is one of the users of the processors.
type Client struct {
	scheduler *Scheduler
	name      string
	active    atomic.Bool // has begun work since the scheduler looked

	// Guarded by the scheduler's mutex.
	users      int
	used       time.Duration // processor time used while the processors were contended
	held       int
	queue      list.List // of *Work
	heavyUntil time.Duration
}

// Open returns the client with a name. It is the same client until all callers that opened it have closed it.
func (s *Scheduler) Open(name string) *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[name]
	if c == nil {
		c = &Client{scheduler: s, name: name}
		s.open[name] = c
	}
	c.users++
	return c
}

// Close undoes an Open. Work of the client may continue.
func (c *Client) Close() {
	s := c.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(s.open, c.name)
	}
}

// acquire gives w a slot, or waits for one until ctx ends. The caller holds mu; acquire releases it.
func (s *Scheduler) acquire(ctx context.Context, w *Work) error {
	if w.ready == nil {
		if s.available(w.client) {
			s.grant(w)
			s.mu.Unlock()
			return nil
		}
		s.enqueue(w)
	}
	ready := w.ready
	w.waiters++
	s.mu.Unlock()
	var err error
	select {
	case <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.waiters--; w.waiters == 0 && w.ready == ready && !w.held.Load() {
		s.dequeue(w)
	}
	return err
}

// available reports whether a client may take a slot now, without waiting for earlier work.
func (s *Scheduler) available(c *Client) bool {
	if s.held >= s.slots || c.queue.Len() > 0 {
		return false
	}
	if s.held+s.queued+1 < s.slots {
		return true // there is no contention
	}
	return s.permitted(c, s.look())
}

// permitted reports whether a client may have one more slot: heavy clients leave one to the light ones.
func (s *Scheduler) permitted(c *Client, now time.Duration) bool {
	if s.held >= s.slots {
		return false
	}
	if now >= s.lightUntil || !c.heavy(now) {
		return true
	}
	return s.heavyHeld(now) < max(1, s.slots-1)
}

func (c *Client) heavy(now time.Duration) bool { return now < c.heavyUntil }

// heavyHeld returns the number of slots held by heavy clients.
func (s *Scheduler) heavyHeld(now time.Duration) int {
	n := 0
	for _, c := range s.busy {
		if c.heavy(now) {
			n += c.held
		}
	}
	return n
}

// look returns the time, and periodically checks whether there are light clients.
func (s *Scheduler) look() time.Duration {
	now := s.clock()
	if now-s.looked < lookEvery {
		return now
	}
	s.looked = now
	for _, c := range s.open {
		if c.active.Load() {
			c.active.Store(false)
			if !c.heavy(now) {
				s.lightUntil = now + lately
			}
		}
	}
	return now
}

// expired reports whether w must hand over its slot, and ends its slice if that is over.
func (s *Scheduler) expired(w *Work) bool {
	now := s.look()
	if w.began == 0 {
		w.began = now
		return false
	}
	if now-w.began < slice {
		return false
	}
	w.client.used += now - w.began
	w.client.heavyUntil = now + heavyFor
	w.began = now
	return s.queued > 0 || now < s.lightUntil && s.heavyHeld(now) > max(1, s.slots-1)
}

// grant gives w a slot.
func (s *Scheduler) grant(w *Work) {
	c := w.client
	s.engage(c)
	s.held++
	c.held++
	w.began = 0
	w.held.Store(true)
	if w.ready != nil {
		close(w.ready)
		w.ready = nil
	}
	s.weigh()
}

// surrender takes the slot of w away.
func (s *Scheduler) surrender(w *Work) {
	c := w.client
	if w.began > 0 {
		c.used += s.clock() - w.began
	}
	w.held.Store(false)
	s.held--
	c.held--
	s.disengage(c)
	s.weigh()
}

// enqueue makes w wait behind its client's other work.
func (s *Scheduler) enqueue(w *Work) {
	c := w.client
	s.engage(c)
	if c.held > 0 || c.queue.Len() > 0 {
		c.heavyUntil = s.clock() + heavyFor
	}
	w.place = c.queue.PushBack(w)
	s.queued++
	w.ready = make(chan struct{})
	s.weigh()
}

// dequeue ends the wait of w.
func (s *Scheduler) dequeue(w *Work) {
	c := w.client
	c.queue.Remove(w.place)
	w.ready = nil
	s.queued--
	s.disengage(c)
	s.weigh()
}

// engage records that a client holds slots or waits. A newly engaged client gets no credit for the time before, except two slices, which
// put it first.
func (s *Scheduler) engage(c *Client) {
	if slices.Contains(s.busy, c) {
		return
	}
	if len(s.busy) > 0 {
		least := slices.MinFunc(s.busy, func(a, b *Client) int { return cmp.Compare(a.used, b.used) })
		c.used = max(c.used, least.used-2*slice)
	}
	s.busy = append(s.busy, c)
}

func (s *Scheduler) disengage(c *Client) {
	if c.held == 0 && c.queue.Len() == 0 {
		s.busy = slices.DeleteFunc(s.busy, func(b *Client) bool { return b == c })
	}
}

func (s *Scheduler) weigh() { s.contended.Store(s.held+s.queued >= s.slots) }

// next returns the client whose work comes next, ignoring clients that may not have another slot, or nil.
func (s *Scheduler) next(now time.Duration) *Client {
	var first *Client
	for _, c := range s.busy {
		if c.queue.Len() > 0 && (first == nil || c.used < first.used) && s.permitted(c, now) {
			first = c
		}
	}
	return first
}

// dispatch gives free slots to waiting work.
func (s *Scheduler) dispatch() {
	if s.queued == 0 {
		return
	}
	for now := s.look(); ; {
		c := s.next(now)
		if c == nil {
			return
		}
		w := c.queue.Remove(c.queue.Front()).(*Work)
		s.queued--
		s.grant(w)
		w.began = now
	}
}
