package queues

import (
	"cmp"
	heaps "container/heap"
	"crypto/rand"
	"slices"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/recent"
	"github.com/troupe-run/troupe/queues/internal/wire"
)

// Terms are the terms on which a consumer leases elements.
type Terms struct {
	// Duration is how long a lease lasts, and for how much longer when it is renewed.
	Duration time.Duration
	// MaxDeliveries is the number of deliveries after which an element that is returned becomes a dead letter; 0 means no limit.
	MaxDeliveries int
	// DeadLetters is the queue that stores dead letters. While it is full, they keep their room in the queue that they come from. They are
	// dropped if it is nil, closed or deleted.
	DeadLetters *Queue
}

// newToken returns a token that cannot be guessed.
var newToken = rand.Text

// lease is elements that a consumer has received and has not acknowledged.
type lease struct {
	token    string
	number   int64 // leases are numbered in the order of delivery
	terms    *Terms
	elems    collected
	deadline time.Time
	index    int // in the heap of deadlines
}

// maxRecentLeases is the number of acknowledged leases that a queue remembers, and that of returned ones.
const maxRecentLeases = 1024

// leases are the leases of a queue.
type leases struct {
	byToken   map[string]*lease
	deadlines deadlines
	granted   int64                         // leases so far
	elems     int                           // elements that are leased, or dead letters that are not stored yet
	ended     *recent.Map[string, struct{}] // the tokens of those that were acknowledged last
	returned  *recent.Map[string, struct{}] // the tokens of those that their consumers returned last
	stored    int64                         // dead letters that another queue has stored
	dropped   int64                         // dead letters that were dropped
}

func newLeases() leases {
	return leases{byToken: map[string]*lease{}, ended: recent.NewMap[string, struct{}](maxRecentLeases), returned: recent.NewMap[string, struct{}](maxRecentLeases)}
}

// next returns the earliest deadline; any is false if there is no lease.
func (l *leases) next() (deadline time.Time, any bool) {
	if len(l.deadlines) == 0 {
		return time.Time{}, false
	}
	return l.deadlines[0].deadline, true
}

// remove ends a lease.
func (l *leases) remove(e *lease) {
	delete(l.byToken, e.token)
	heaps.Remove(&l.deadlines, e.index)
}

// lend leases what a dequeue has collected, and returns the lease's token.
func (s *state) lend(w *waiter) string {
	s.leases.granted++
	e := &lease{token: s.newToken(), number: s.leases.granted, terms: w.terms, elems: slices.Clone(w.got), deadline: s.now().Add(w.terms.Duration)}
	s.leases.byToken[e.token] = e
	heaps.Push(&s.leases.deadlines, e)
	s.leases.elems += e.elems.len()
	return e.token
}

// settle ends or renews leases, and completes the request.
func (s *state) settle(w *waiter) {
	m := w.message.(*wire.Settle)
	held := make([]bool, len(m.Leases))
	var returned []*lease
	for i, token := range m.Leases {
		e := s.leases.byToken[token]
		if held[i] = e != nil; e == nil {
			// What is repeated because its answer was lost succeeds again.
			switch m.Action {
			case wire.Settle_ACKNOWLEDGE:
				if _, held[i] = s.leases.ended.Get(token); held[i] {
					s.repeated(w)
				}
			case wire.Settle_RETURN:
				_, held[i] = s.leases.returned.Get(token)
			}
			continue
		}
		switch m.Action {
		case wire.Settle_ACKNOWLEDGE:
			s.leases.remove(e)
			s.leases.elems -= e.elems.len()
			s.removed(e.elems, w)
			e.elems.release()
			s.leases.ended.Add(token, struct{}{})
		case wire.Settle_RENEW:
			e.deadline = s.now().Add(e.terms.Duration)
			heaps.Fix(&s.leases.deadlines, e.index)
		default:
			s.leases.remove(e)
			s.leases.returned.Add(token, struct{}{})
			returned = append(returned, e)
		}
	}
	s.putFront(returned)
	s.flush()
	s.completed = append(s.completed, completion{waiter: w, held: held})
}

// tick returns the elements of expired leases.
func (s *state) tick() []completion {
	var expired []*lease
	for now := s.now(); len(s.leases.deadlines) > 0 && !s.leases.deadlines[0].deadline.After(now); {
		e := s.leases.deadlines[0]
		s.leases.remove(e)
		expired = append(expired, e)
	}
	s.putFront(expired)
	s.flush()
	return s.effects()
}

// putFront puts the elements of ended leases back to the front, in the order of their delivery. Those that have been delivered too often
// become dead letters.
func (s *state) putFront(ended []*lease) {
	slices.SortFunc(ended, func(a, b *lease) int { return cmp.Compare(a.number, b.number) })
	for _, e := range ended {
		e.elems = slices.DeleteFunc(e.elems, func(r run) bool {
			dead := e.terms.MaxDeliveries > 0 && r.delivered+1 >= e.terms.MaxDeliveries
			if dead {
				s.bury(r, e.terms.DeadLetters)
			}
			return dead
		})
	}
	for _, e := range slices.Backward(ended) {
		for _, r := range slices.Backward(e.elems) {
			r.delivered++
			s.leases.elems -= r.len()
			s.order.restore(r)
		}
	}
}

// bury moves dead letters to another queue, or drops them. They count as leased until that queue has stored them.
func (s *state) bury(r run, to *Queue) {
	defer r.release()
	if to == nil {
		s.removed(collected{r}, nil)
		s.leases.elems -= r.len()
		s.leases.dropped += int64(r.len())
		return
	}
	b := &burial{to: to, many: r.many, elems: r.len(), where: r}
	if r.many {
		b.tuple, b.err = gather([]run{r}, s.Shapes, s.Pool)
	} else {
		b.tuple, b.err = r.element(s.Pool)
	}
	s.burials = append(s.burials, completion{burial: b})
}

// buried frees the room of dead letters.
func (s *state) buried(b *burial) []completion {
	s.leases.elems -= b.elems
	s.removed(collected{b.where}, nil)
	if b.err == nil {
		s.leases.stored += int64(b.elems)
	} else {
		s.leases.dropped += int64(b.elems)
	}
	s.flush()
	return s.effects()
}

// dropLeases drops the elements of all leases.
func (s *state) dropLeases() {
	for _, e := range s.leases.deadlines {
		e.elems.release()
	}
	s.leases = newLeases()
}

// burial is dead letters on their way to the queue that stores them.
type burial struct {
	from, to *Queue
	tuple    []*tensor.Tensor
	many     bool // the elements are the rows of tuple; otherwise it is one element
	elems    int
	where    run   // the elements, which have been released
	err      error // why they were dropped
}

// run puts the dead letters into their queue, and reports the outcome to the one that they come from.
func (b *burial) run() {
	done := func(err error) {
		b.err = err
		b.from.runner.send(&buried{buriedOnes, b})
	}
	to := b.to.For(Origin{}, nil, nil)
	to.moves = b.from.cell != nil && b.to.cell != nil && b.from.cell.Store() == b.to.cell.Store()
	switch {
	case b.err != nil:
		done(b.err)
	case b.many:
		to.EnqueueMany(b.tuple, done)
	default:
		to.Enqueue(b.tuple, done)
	}
}

// deadlines is a heap of leases, the earliest deadline first. Leases of one deadline are ordered by number.
type deadlines []*lease

func (d deadlines) Len() int { return len(d) }

func (d deadlines) Less(i, j int) bool {
	return cmp.Or(d[i].deadline.Compare(d[j].deadline), cmp.Compare(d[i].number, d[j].number)) < 0
}

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push is a method of heap.Interface.
func (d *deadlines) Push(x any) {
	e := x.(*lease)
	e.index = len(*d)
	*d = append(*d, e)
}

// Pop is a method of heap.Interface.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	e := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return e
}
