package processors

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// slice is how long work keeps its slot while others wait.
	slice = 500 * time.Microsecond
	// lookEvery is how often the scheduler looks at which clients have begun steps, and lately how long it remembers that.
	lookEvery = 10 * time.Millisecond
	lately    = 100 * time.Millisecond
	// heavyFor is how long a client counts as heavy after its work has used up a slice, or waited behind other work of its own.
	heavyFor = 50 * time.Millisecond
)

// Scheduler has the slots. Its methods may be called concurrently.
type Scheduler struct {
	slots int
	clock func() time.Duration // since some moment
	// contended tells that all slots are wanted.
	contended atomic.Bool

	mu     sync.Mutex
	open   map[string]*Client
	busy   []*Client // those that hold slots or wait
	held   int       // slots
	queued int       // Works that wait
	looked time.Duration
	// lightUntil is until when a client is believed to be there that is not heavy.
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

// Contended tells that all slots are wanted: work should not spread over several processors.
func (s *Scheduler) Contended() bool { return s.contended.Load() }

// Client is one of those who share the processors.
type Client struct {
	scheduler *Scheduler
	name      string
	active    atomic.Bool // has begun work since the scheduler looked

	// Guarded by the scheduler's mutex.
	users      int
	used       time.Duration // of processors, while they were contended
	held       int
	queue      []*Work
	heavyUntil time.Duration
}

// Open gives the client of a name, which is the same one until all that opened it have closed it.
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

// Close undoes an Open. Work of the client may go on.
func (c *Client) Close() {
	s := c.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(s.open, c.name)
	}
}

// acquire gives w a slot, or waits for one until ctx ends. The caller holds mu, which acquire releases.
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

// available tells whether a client may take a slot now, without waiting for those before it.
func (s *Scheduler) available(c *Client) bool {
	if s.held >= s.slots || len(c.queue) > 0 {
		return false
	}
	if s.held+s.queued+1 < s.slots {
		return true // nothing is contended
	}
	return s.permitted(c, s.look())
}

// permitted tells whether a client may have one slot more: heavy ones leave one to the light ones.
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

// heavyHeld counts the slots of heavy clients.
func (s *Scheduler) heavyHeld(now time.Duration) int {
	n := 0
	for _, c := range s.busy {
		if c.heavy(now) {
			n += c.held
		}
	}
	return n
}

// look tells the time, and finds out now and then whether there are light clients.
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

// expired tells whether w has to hand its slot over, and ends its slice if that is over.
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

// enqueue lets w wait behind its client's other work.
func (s *Scheduler) enqueue(w *Work) {
	c := w.client
	s.engage(c)
	if c.held > 0 || len(c.queue) > 0 {
		c.heavyUntil = s.clock() + heavyFor
	}
	c.queue = append(c.queue, w)
	s.queued++
	w.ready = make(chan struct{})
	s.weigh()
}

// dequeue ends the wait of w.
func (s *Scheduler) dequeue(w *Work) {
	c := w.client
	c.queue = slices.DeleteFunc(c.queue, func(o *Work) bool { return o == w })
	w.ready = nil
	s.queued--
	s.disengage(c)
	s.weigh()
}

// engage notes that a client holds slots or waits. One that did not before has no credit from that time, but for a
// little, with which it comes first.
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
	if c.held == 0 && len(c.queue) == 0 {
		s.busy = slices.DeleteFunc(s.busy, func(b *Client) bool { return b == c })
	}
}

func (s *Scheduler) weigh() { s.contended.Store(s.held+s.queued >= s.slots) }

// next is the client whose work comes next, except for one that may have no further slot; nil for none.
func (s *Scheduler) next(now time.Duration) *Client {
	var first *Client
	for _, c := range s.busy {
		if len(c.queue) > 0 && (first == nil || c.used < first.used) && s.permitted(c, now) {
			first = c
		}
	}
	return first
}

// dispatch gives free slots to those who wait.
func (s *Scheduler) dispatch() {
	if s.queued == 0 {
		return
	}
	for now := s.look(); ; {
		c := s.next(now)
		if c == nil {
			return
		}
		w := c.queue[0]
		c.queue = slices.Delete(c.queue, 0, 1)
		s.queued--
		s.grant(w)
		w.began = now
	}
}
