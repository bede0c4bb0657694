package lifecycle

import (
	"container/list"
	"errors"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/recent"
	"github.com/troupe-run/troupe/kernels"
)

// Tensors may arrive before the message that starts their step, since large ones travel on a stream
// of their own. They are parked for up to ParkTime. All parked tensors take at most ParkBytes, counting arrivalBytes
// for the record of each. A step whose tensors could not be kept is refused when it starts. Tensors
// for an ended step are dropped; the last recentSteps ended steps are remembered for that.
const (
	ParkTime     = 10 * time.Second
	ParkBytes    = 256 << 20
	arrivalBytes = 256
	recentSteps  = 1 << 13
)

// Why a step does not enter its session.
var (
	ErrSessionClosed = errors.New("the session is closed")
	ErrSessionFull   = errors.New("the session has too many steps")
)

// Limits bound the steps in a table.
type Limits struct {
	Session int   // steps of a session
	Steps   int   // steps that the task is the master of, and equally steps that it runs a part of
	Full    error // of a step beyond Steps
}

// Entry is a step in a table: M is the step as its master sees it, and P the part that the task runs. An entry may have either or both.
type Entry[M, P any] struct {
	ID     uint64
	Master M
	Part   P

	session    *Session[M, P] // of the master's step; nil if it is not in the table
	prev, next *Entry[M, P]   // in the session
	live       bool           // the part is
}

// Session is the steps of a session, in the order in which they began. The zero value is an open session without steps.
type Session[M, P any] struct {
	first, last *Entry[M, P]
	n           int
	closed      bool
}

// Len returns how many steps the session has.
func (s *Session[M, P]) Len() int { return s.n }

// All returns the session's steps.
func (s *Session[M, P]) All() []M {
	all := make([]M, 0, s.n)
	for e := s.first; e != nil; e = e.next {
		all = append(all, e.Master)
	}
	return all
}

// Table has the steps of a task by their ids. Its methods must not be called concurrently.
type Table[M, P any] struct {
	task    string
	limits  Limits
	steps   map[uint64]*Entry[M, P]
	masters int // entries with a step of the task's own sessions
	parts   int // entries with a live part

	parked  map[uint64]*list.Element // of waiting
	waiting list.List                // of *parking, in the order of their ends
	bytes   int                      // of parked tensors

	ended  *recent.Map[uint64, error] // the reason that a step cannot begin; nil for a step that ran here
	closed bool
}

// Arrival is a tensor that came for a step: nil if the edge is dead.
type Arrival struct {
	Key    kernels.Key
	Tensor *tensor.Tensor
	Dead   bool
}

// Release releases the tensors of arrivals.
func Release(all []Arrival) {
	for _, a := range all {
		if a.Tensor != nil {
			a.Tensor.Release()
		}
	}
}

// size returns how much of ParkBytes an arrival takes.
func (a *Arrival) size() int {
	if a.Tensor == nil {
		return arrivalBytes
	}
	return arrivalBytes + a.Tensor.ByteSize()
}

// parking is the tensors that came before their step.
type parking struct {
	id      uint64
	until   time.Time
	arrived []Arrival
}

// NewTable returns an empty table of a task, whose name is for errors.
func NewTable[M, P any](task string, limits Limits) *Table[M, P] {
	return &Table[M, P]{task: task, limits: limits, steps: map[uint64]*Entry[M, P]{}, parked: map[uint64]*list.Element{},
		ended: recent.NewMap[uint64, error](recentSteps)}
}

// Masters returns how many steps the task is the master of.
func (t *Table[M, P]) Masters() int { return t.masters }

// Enter adds a step of one of the task's own sessions. Its error is one of those above, that of the limits, or ABORTED if the id is taken.
func (t *Table[M, P]) Enter(s *Session[M, P], e *Entry[M, P]) error {
	switch {
	case s.closed:
		return ErrSessionClosed
	case s.n >= t.limits.Session:
		return ErrSessionFull
	case t.masters >= t.limits.Steps:
		return t.limits.Full
	case t.steps[e.ID] != nil:
		return t.twice(e.ID)
	}
	e.session, e.prev, e.next = s, s.last, nil
	if s.last != nil {
		s.last.next = e
	} else {
		s.first = e
	}
	s.last = e
	s.n++
	t.masters++
	t.steps[e.ID] = e
	return nil
}

// Leave removes a step of one of the task's own sessions whose parts have all ended. gone is false if it was not there. idle reports that its
// session is closed and has no more steps.
func (t *Table[M, P]) Leave(e *Entry[M, P]) (gone, idle bool) {
	s := e.session
	if s == nil {
		return false, false
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		s.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		s.last = e.prev
	}
	s.n--
	t.masters--
	e.session, e.prev, e.next = nil, nil, nil
	t.forget(e)
	return true, s.closed && s.n == 0
}

// forget removes an entry that has neither a master's step nor a live part.
func (t *Table[M, P]) forget(e *Entry[M, P]) {
	if e.session == nil && !e.live {
		delete(t.steps, e.ID)
	}
}

// CloseSession keeps further steps from entering a session, and returns those that it has. first is false if it is closed already.
func (t *Table[M, P]) CloseSession(s *Session[M, P]) (first bool, running []M) {
	first = !s.closed
	s.closed = true
	return first, s.All()
}

// Master returns a step of the task's own sessions.
func (t *Table[M, P]) Master(id uint64) (m M, ok bool) {
	if e := t.steps[id]; e != nil && e.session != nil {
		return e.Master, true
	}
	return m, false
}

// MasterSteps returns the steps of the task's own sessions, in no order, those of closed sessions that have not ended included.
func (t *Table[M, P]) MasterSteps() []M {
	all := make([]M, 0, t.masters)
	for _, e := range t.steps {
		if e.session != nil {
			all = append(all, e.Master)
		}
	}
	return all
}

// Parts returns the live parts, in no order.
func (t *Table[M, P]) Parts() []P {
	all := make([]P, 0, t.parts)
	for _, e := range t.steps {
		if e.live {
			all = append(all, e.Part)
		}
	}
	return all
}

// Begin makes the part of an entry a live one, and returns the tensors that were parked for it. It refuses a part that is live or has ended,
// and every part after Close. The arrivals must be released if there is an error.
func (t *Table[M, P]) Begin(e *Entry[M, P]) ([]Arrival, error) {
	refused, over := t.ended.Get(e.ID)
	known := t.steps[e.ID]
	switch {
	case refused != nil:
		return nil, refused
	case t.closed:
		return nil, status.Errorf(status.Unavailable, "The server of %s is shutting down", t.task)
	case over, known != nil && (known.live || known != e):
		return nil, t.twice(e.ID)
	case t.parts >= t.limits.Steps:
		_, _, arrived := t.Refuse(e.ID, t.limits.Full)
		return arrived, t.limits.Full
	}
	e.live = true
	t.parts++
	t.steps[e.ID] = e
	return t.unpark(e.ID), nil
}

func (t *Table[M, P]) twice(id uint64) error {
	return status.Errorf(status.Aborted, "Step %d was started twice on %s", id, t.task)
}

// End removes a live part. idle reports that it was the last one after Close.
func (t *Table[M, P]) End(e *Entry[M, P]) (idle bool) {
	e.live = false
	t.parts--
	t.forget(e)
	t.ended.Add(e.ID, nil)
	return t.closed && t.parts == 0
}

// Deposit is called with an arrived tensor. If the part is live, it gets the tensor. Otherwise the table parks it, or returns it to be released.
// From when on it parks any, Tick must be called after ParkTime.
func (t *Table[M, P]) Deposit(now time.Time, id uint64, a Arrival) (part P, live bool, release []Arrival) {
	if e := t.steps[id]; e != nil && e.live {
		return e.Part, true, nil
	}
	if _, over := t.ended.Get(id); over || t.closed {
		return part, false, []Arrival{a}
	}
	if t.bytes+a.size() > ParkBytes {
		_, _, release = t.Refuse(id, status.Errorf(status.ResourceExhausted,
			"Tensors that came before their steps take more than %d bytes: those of step %d were dropped", ParkBytes, id))
		return part, false, append(release, a)
	}
	at := t.parked[id]
	if at == nil {
		at = t.waiting.PushBack(&parking{id: id, until: now.Add(ParkTime)})
		t.parked[id] = at
	}
	p := at.Value.(*parking)
	p.arrived = append(p.arrived, a)
	t.bytes += a.size()
	return part, false, nil
}

// Parked returns how many steps tensors are parked for.
func (t *Table[M, P]) Parked() int { return len(t.parked) }

// unpark removes what is parked for a step, and returns it.
func (t *Table[M, P]) unpark(id uint64) []Arrival {
	at := t.parked[id]
	if at == nil {
		return nil
	}
	delete(t.parked, id)
	p := t.waiting.Remove(at).(*parking)
	for i := range p.arrived {
		t.bytes -= p.arrived[i].size()
	}
	return p.arrived
}

// Tick drops tensors whose steps did not begin in time. next is when to call it again; it is zero if nothing is parked.
func (t *Table[M, P]) Tick(now time.Time) (release []Arrival, next time.Time) {
	for first := t.waiting.Front(); first != nil; first = t.waiting.Front() {
		p := first.Value.(*parking)
		if p.until.After(now) {
			return release, p.until
		}
		release = append(release, t.unpark(p.id)...)
		t.ended.Add(p.id, status.Errorf(status.Aborted, "The tensors for step %d came more than %v before it and were dropped", p.id, ParkTime))
	}
	return release, next
}

// Refuse is called with the reason that a part must not continue, or why its tensors cannot be kept. If the part is live, it must fail.
// Otherwise it is refused when it begins.
func (t *Table[M, P]) Refuse(id uint64, err error) (part P, live bool, release []Arrival) {
	if e := t.steps[id]; e != nil && e.live {
		return e.Part, true, nil
	}
	if _, over := t.ended.Get(id); !over {
		release = t.unpark(id)
		t.ended.Add(id, err)
	}
	return part, false, release
}

// Close refuses all parts from now on. idle reports that none is live.
func (t *Table[M, P]) Close() (release []Arrival, idle bool) {
	t.closed = true
	for first := t.waiting.Front(); first != nil; first = t.waiting.Front() {
		release = append(release, t.unpark(first.Value.(*parking).id)...)
	}
	return release, t.parts == 0
}
