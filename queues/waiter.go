package queues

import (
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/queues/internal/wire"
	"google.golang.org/protobuf/proto"
)

type action int8

const (
	enqueue        action = iota // one element or a batch
	closeGently                  // close after earlier enqueues
	closeAndCancel               // close at once and cancel waiting enqueues
	dequeue                      // one element
	dequeueMany                  // n elements or an error
	dequeueUpTo                  // n elements, fewer from a closed queue
	open                         // reopen a closed queue once its elements have been taken
	settle                       // end leases, or renew them
	look                         // return the size and whether the queue is closed
)

// waiter is an operation from its request until its completion: a message of the queue's protocol with the values that accompany it, and
// its progress.
type waiter struct {
	message proto.Message // as in wire/queue.proto; never modified, so operations share those without fields
	action  action        // what the message requests
	in      run           // what an enqueue has not added yet
	first   int64         // its producer's number of the first of these
	want    int           // elements that a dequeue still lacks, counted down from the message's count
	late    bool          // a dequeue that arrived when the queue was closed
	awaits  bool          // waits up to openWait for the queue to be reopened or emptied
	got     collected     // elements collected so far
	terms   *Terms        // of a dequeue that leases its elements; otherwise nil
	reason  error         // why the queue is closed; nil if there was no failure
	few     [1]run        // memory for got if one run suffices
	by      Origin        // origin of the operation
	step    Step          // the operation ends with it; nil if it belongs to no step
	notes   Notes         // of its session, or nil
	missed  *missed       // what they record when it is completed, or nil
	changes *durable.Tx   // of its step, or its own, made when it changes a durable queue
	moves   bool          // of an enqueue: the elements come from another queue on the same disk
	own     bool          // changes are its own: it is completed when they are on disk
	goesOn  func()        // tells its own changes that it waits no more; nil while it does not wait
	since   time.Time     // when it began to wait
	expiry  *time.Timer   // ends its wait for the queue to be reopened
	// One of these is called, once: done for enqueues, opens and closes, given and lent for dequeues, settled for what ends or renews
	// leases, seen for looks.
	done    func(error)
	given   func([]*tensor.Tensor, error)
	lent    func(token string, elems []*tensor.Tensor, err error)
	settled func(held []bool, err error)
	seen    func(*wire.State, error)
	over    atomic.Bool // completed

	// Position in its line; list is nil if it is in none.
	list       *line
	prev, next *waiter
}

// newWaiter returns the envelope of a message.
func newWaiter(message proto.Message) *waiter {
	w := &waiter{message: message}
	switch m := message.(type) {
	case *wire.Enqueue:
		w.action, w.first = enqueue, m.First
	case *wire.Dequeue:
		w.want, w.awaits = int(m.Count), m.OpenWaitMs != nil
		switch {
		case !m.Batch:
			w.action = dequeue
		case m.UpTo:
			w.action = dequeueUpTo
		default:
			w.action = dequeueMany
		}
	case *wire.Open:
		w.action, w.awaits = open, true
	case *wire.Settle:
		w.action = settle
	case *wire.Close:
		if w.action = closeGently; m.CancelPending {
			w.action = closeAndCancel
		}
	default:
		w.action = look
	}
	return w
}

// Messages shared by all operations of their kind.
var (
	enqueueOne  = &wire.Enqueue{}
	enqueueMany = &wire.Enqueue{Many: true}
	dequeueOne  = &wire.Dequeue{Count: 1}
	getState    = &wire.GetState{}
)

// producer returns the id of an enqueue's producer, if it numbers its elements.
func (w *waiter) producer() string { return w.message.(*wire.Enqueue).Producer }

// skip drops the first n of the elements that an enqueue has not added.
func (w *waiter) skip(n int) {
	if n == 0 {
		return
	}
	stored, rest := w.in.split(n)
	stored.release()
	w.in, w.first = rest, w.first+int64(n)
}

// stepErr returns the error that the operation's step has ended with, or nil if it goes on.
func (w *waiter) stepErr() error {
	if w.step == nil {
		return nil
	}
	return w.step.Err()
}

// openWait returns how long an operation waits for the queue to be reopened, or to be emptied before that.
func (w *waiter) openWait() time.Duration {
	ms := int64(0)
	switch m := w.message.(type) {
	case *wire.Dequeue:
		ms = m.GetOpenWaitMs()
	case *wire.Open:
		ms = m.WaitMs
	}
	return time.Duration(ms) * time.Millisecond
}

// completion is the result of a request, or a burial. The receiver owns the tensors.
type completion struct {
	*waiter
	burial  *burial // dead letters to store elsewhere; there is no request then
	tensors []*tensor.Tensor
	token   string // of the lease, if they are leased
	held    []bool // for each lease of a settle, whether it had not ended before
	state   *wire.State
	err     error
}

// run calls the operation's completion function.
func (c completion) run() {
	if c.burial != nil {
		c.burial.run()
		return
	}
	c.over.Store(true)
	if c.missed != nil && c.notes != nil {
		c.notes.Missed("queue", c.missed.queue, c.missed.text)
	}
	switch {
	case c.done != nil:
		c.done(c.err)
	case c.given != nil:
		c.given(c.tensors, c.err)
	case c.lent != nil:
		c.lent(c.token, c.tensors, c.err)
	case c.settled != nil:
		c.settled(c.held, c.err)
	default:
		c.seen(c.state, c.err)
	}
}

// refused completes a request that no queue has accepted. It drops elements that were not added.
func (w *waiter) refused(err error) completion {
	if w.in.len() > 0 {
		w.in.release()
		w.in = run{}
	}
	return completion{waiter: w, err: err}
}

// line is a list of waiters in order of arrival.
type line struct {
	first, last *waiter
	len         int
}

func (l *line) add(w *waiter) {
	w.list, w.prev, w.next = l, l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.len++
}

func (l *line) remove(w *waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.list, w.prev, w.next = nil, nil, nil
	l.len--
}

// replace puts other in the place of w.
func (l *line) replace(w, other *waiter) {
	other.list, other.prev, other.next = l, w.prev, w.next
	if w.prev == nil {
		l.first = other
	} else {
		w.prev.next = other
	}
	if w.next == nil {
		l.last = other
	} else {
		w.next.prev = other
	}
	w.list, w.prev, w.next = nil, nil, nil
}
