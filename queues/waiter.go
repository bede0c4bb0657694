package queues

import (
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues/internal/wire"
	"google.golang.org/protobuf/proto"
)

type action int8

const (
	enqueue        action = iota // one element or a batch
	closeGently                  // close after the enqueues that came before
	closeAndCancel               // close at once; waiting enqueues are cancelled
	dequeue                      // one element
	dequeueMany                  // n elements or none
	dequeueUpTo                  // n elements, fewer from a closed queue
	look                         // tell the size and whether the queue is closed
)

// waiter is an operation from the moment it is asked for until its completion: a message of the queue's protocol with
// what lies beside it, and how far the queue has come with it.
type waiter struct {
	message proto.Message // as in wire/queue.proto; not changed, so that operations share those without fields
	action  action        // what the message asks for
	in      run           // what an enqueue has still to put in
	want    int           // how many elements a dequeue still lacks, from the message's count down
	got     collected     // what it has taken
	reason  error         // why a closing closes, nil where all went well
	few     [1]run        // got's memory where one run is all
	by      Origin        // who asked
	since   time.Time     // when it began to wait
	// Who asked is told through one of these, once: enqueues and closing, dequeues, looking.
	done  func(error)
	given func([]*tensor.Tensor, error)
	seen  func(*wire.State, error)
	over  atomic.Bool // told

	// Where it waits; list is nil while it does not.
	list       *line
	prev, next *waiter
}

// newWaiter is the envelope of a message.
func newWaiter(message proto.Message) *waiter {
	w := &waiter{message: message}
	switch m := message.(type) {
	case *wire.Enqueue:
		w.action = enqueue
	case *wire.Dequeue:
		w.want = int(m.Count)
		switch {
		case !m.Batch:
			w.action = dequeue
		case m.UpTo:
			w.action = dequeueUpTo
		default:
			w.action = dequeueMany
		}
	case *wire.Close:
		if w.action = closeGently; m.CancelPending {
			w.action = closeAndCancel
		}
	default:
		w.action = look
	}
	return w
}

// Messages that all operations of their kind share.
var (
	enqueueOne  = &wire.Enqueue{}
	enqueueMany = &wire.Enqueue{Many: true}
	dequeueOne  = &wire.Dequeue{Count: 1}
	getState    = &wire.GetState{}
)

// completion is the end of a request. The receiver owns the tensors.
type completion struct {
	*waiter
	tensors []*tensor.Tensor
	state   *wire.State
	err     error
}

// run tells who asked.
func (c completion) run() {
	c.over.Store(true)
	switch {
	case c.done != nil:
		c.done(c.err)
	case c.given != nil:
		c.given(c.tensors, c.err)
	default:
		c.seen(c.state, c.err)
	}
}

// refused is the end of a request that no queue has taken.
func (w *waiter) refused(err error) completion {
	if w.in.len() > 0 {
		w.in.leave()
		w.in = run{}
	}
	return completion{waiter: w, err: err}
}

// line is waiters in the order that they came.
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
