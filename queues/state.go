package queues

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/queues/internal/wire"
)

// state is a queue without concurrency: submit and cancel take a request and return the resulting completions, in order. The semantics are
// those of TensorFlow's QueueBase and the queues derived from it:
//
//   - Enqueues and closes wait in one line, dequeues in another. Only the first of a line is served. It may be served in part (a batch
//     goes in as space becomes free, a batch is collected as elements arrive). What it has collected no longer counts, so a batch may
//     be larger than the queue's capacity.
//   - A gentle close waits for its turn: the enqueues before it still go in.
//   - Elements that are leased (lease.go), which TensorFlow lacks, take up room in the queue, and may come back to its front. A dequeue
//     from a closed queue therefore waits for leases to end before it fails.
//   - On a closed queue enqueues fail, and so do dequeues of more than the queue holds: what a dequeue had collected goes back to the
//     front.
//
// In TensorFlow a closed queue stays closed. Here it can be reopened once its elements have been taken. Only operations in two further
// lines reopen it or wait for that; operations of TensorFlow programs behave as they do there.
//
// There are two further differences. When a dequeue is cancelled, or gets no memory for its batch, TensorFlow loses what it had collected;
// here that goes back to the front. A DequeueUpTo of more than a closed PriorityQueue holds gets what is left; TensorFlow fails and loses
// it.
type state struct {
	Options
	order      order
	closed     bool
	reason     error // why its producer failed, or nil
	closing    view.Act
	latecomers view.Latecomers
	enqueues   line
	closes     int // closes in the line of enqueues
	dequeues   line
	opens      line // waiting until the remaining elements have been taken
	late       line // dequeues waiting until the queue is reopened
	leases     leases
	producers  producers
	kept       bool     // the queue is durable
	changes    []change // what has changed on disk
	empty      []*entry // those whose elements have all left, not at once
	numbered   int64    // elements that the queue has taken
	completed  []completion
	burials    []completion // run after completed, because their outcome may complete more
	now        func() time.Time
	newToken   func() string

	// Statistics, for listings and errors.
	enqueued, dequeued       int64 // elements; those that come back are dequeued again
	before                   int64 // value of enqueued when it was last reopened
	lastEnqueue, lastDequeue Origin
}

func newState(o Options) *state {
	return &state{Options: o, order: o.order(), leases: newLeases(), now: time.Now, newToken: newToken}
}

// submit accepts a new request. Its tuple has been checked and belongs to the queue.
func (s *state) submit(w *waiter) []completion {
	w.late = s.closed && w.want > 0
	switch w.action {
	case closeAndCancel:
		s.close(w)
		for s.enqueues.first != nil {
			s.end(s.enqueues.first, cancelled("Enqueue operation", nil))
		}
		s.flush()
		s.end(w, nil)
	case look:
		s.completed = append(s.completed, completion{waiter: w, state: &wire.State{Size: int64(s.order.len()), Closed: s.closed}})
	case settle:
		s.settle(w)
	case enqueue, closeGently:
		if w.action == closeGently {
			s.closes++
		}
		s.enqueues.add(w)
		s.flush()
	default:
		s.line(w).add(w)
		s.flush()
		if s.waitsToOpen(w) && w.openWait() <= 0 {
			return s.expire(w)
		}
	}
	return s.effects()
}

// line returns the line in which an open or a dequeue waits.
func (s *state) line(w *waiter) *line {
	switch {
	case w.action == open:
		return &s.opens
	case w.awaits && s.drained():
		return &s.late
	}
	return &s.dequeues
}

// waitsToOpen reports whether an operation waits for the queue to be reopened, or to be emptied before that.
func (s *state) waitsToOpen(w *waiter) bool { return w.list == &s.opens || w.list == &s.late }

// drained reports whether the queue is closed and empty, and nothing can come back to it.
func (s *state) drained() bool { return s.closed && s.left() == 0 }

// left returns the number of elements in the queue, including those that are leased.
func (s *state) left() int { return s.order.len() + s.leases.elems }

// expire fails an operation that still waits for the queue to be reopened or emptied.
func (s *state) expire(w *waiter) []completion {
	if s.waitsToOpen(w) {
		s.end(w, s.notOpened(w))
	}
	return s.effects()
}

// cancel ends a request that still waits. cause is the error that caused the cancellation, or nil. A close cannot be cancelled, as in
// TensorFlow: only the wait for it ends.
func (s *state) cancel(w *waiter, cause error) []completion {
	if w.list != nil && w.action == closeGently {
		s.abandon(w, cause)
	}
	s.withdraw(w, cause)
	s.flush()
	return s.effects()
}

// withdraw ends a request that still waits and can be cancelled, and reports whether there was one.
func (s *state) withdraw(w *waiter, cause error) bool {
	switch {
	case w.list == nil || w.action == closeGently:
		return false
	case w.list == &s.enqueues:
		s.end(w, cancelled("Enqueue operation", cause))
	case w.list == &s.opens:
		s.end(w, cancelled("Opening the queue", cause))
	default:
		s.end(w, cancelled("Dequeue operation", cause))
	}
	return true
}

// abandon ends the wait for a close. In its place another one waits, which belongs to no step: the changes of the step may end before the queue
// closes.
func (s *state) abandon(w *waiter, cause error) {
	stays := &waiter{message: w.message, action: w.action, reason: w.reason, by: w.by, late: w.late, since: w.since, done: func(error) {}}
	w.list.replace(w, stays)
	s.completed = append(s.completed, w.refused(cancelled("Closing the queue", cause)))
}

// abort ends all requests with err and drops the elements.
func (s *state) abort(err error) []completion {
	for _, l := range []*line{&s.enqueues, &s.dequeues, &s.opens, &s.late} {
		for l.first != nil {
			s.end(l.first, err)
		}
	}
	for n := s.order.len(); n > 0; n = s.order.len() {
		s.order.take(n).release()
	}
	s.dropLeases()
	return s.effects()
}

func (s *state) effects() []completion {
	done := append(s.completed, s.burials...)
	s.completed, s.burials = nil, nil
	return done
}

type progress int8

const (
	stuck    progress = iota // nothing changed
	some                     // served in part
	complete                 // served, or failed
)

// flush serves the lines until nothing changes. It terminates, since each round completes a request or moves elements, and the lines hold
// finitely many of both.
func (s *state) flush() {
	for changed := true; changed; {
		changed = s.serve(&s.enqueues, s.tryEnqueue)
		changed = s.serve(&s.dequeues, s.tryDequeue) || changed
		changed = s.serve(&s.opens, s.tryOpen) || changed
		changed = s.serve(&s.late, s.tryLate) || changed
	}
}

// serve serves the first requests of a line. Those whose step has ended are cancelled instead, since their cancellation may arrive after
// elements that their step must not take.
func (s *state) serve(l *line, try func(*waiter) progress) (changed bool) {
	for l.first != nil {
		if err := l.first.stepErr(); err != nil && s.withdraw(l.first, err) {
			changed = true
			continue
		}
		p := try(l.first)
		changed = changed || p != stuck
		if p != complete {
			break
		}
	}
	return changed
}

// close closes the queue. It has no effect on a closed queue.
func (s *state) close(w *waiter) {
	if !s.closed {
		s.closed, s.reason, s.closing = true, w.reason, view.Act{By: w.by, At: s.now()}
		s.openOrClosed(w)
	}
}

func (s *state) tryOpen(w *waiter) progress {
	if s.closes > 0 || s.closed && !s.drained() {
		return stuck // elements that are left or about to come in belong to earlier dequeues
	}
	if s.closed {
		s.closed, s.reason, s.closing, s.before, s.latecomers = false, nil, view.Act{}, s.enqueued, view.Latecomers{}
		s.openOrClosed(w)
	}
	return s.end(w, nil)
}

// tryLate moves a dequeue that has waited for the queue to be reopened to the line of dequeues.
func (s *state) tryLate(w *waiter) progress {
	if s.closed {
		return stuck
	}
	s.late.remove(w)
	s.dequeues.add(w)
	return complete
}

func (s *state) tryEnqueue(w *waiter) progress {
	if w.action == closeGently {
		var err error
		if s.closed {
			err = status.Errorf(status.Cancelled, "Queue '%s' is already closed.%s", s.Name, s.closedBy(w))
			s.repeated(w)
		}
		s.close(w)
		return s.end(w, err)
	}
	if n := s.producers.stored(w.producer(), w.first, w.in.len()); n > 0 {
		w.skip(n)
		s.repeated(w)
	}
	if w.in.len() == 0 {
		return s.end(w, nil)
	}
	if s.closed {
		return s.end(w, status.Errorf(status.Cancelled, "%s '%s' is closed.%s", s.Kind.says(w.action), s.Name, s.closedBy(w)))
	}
	room := s.Capacity - s.left()
	if room <= 0 {
		return stuck
	}
	enter, rest := w.in.split(min(room, w.in.len()))
	if s.Kind.scatters() && w.in.many {
		if err := s.pushApart(enter, w); err != nil {
			return s.end(w, err)
		}
	} else {
		s.push(enter, w)
	}
	w.in = rest
	if id := w.producer(); id != "" {
		w.first += int64(enter.len())
		s.producers.advance(id, w.first)
		s.advanced(id, w)
	}
	s.enqueued, s.lastEnqueue = s.enqueued+int64(enter.len()), w.by
	if rest.len() > 0 {
		return some
	}
	return s.end(w, nil)
}

// pushApart adds a copy of each element of a batch. Elements that leave one by one must not keep the memory of the whole batch alive.
func (s *state) pushApart(r run, w *waiter) error {
	var apart []run
	for i := r.from; i < r.to; i++ {
		tuple, err := run{batch: r.batch, from: i, to: i + 1}.copied(s.Pool)
		if err != nil {
			collected(apart).release()
			return err
		}
		apart = append(apart, one(tuple))
	}
	for _, e := range apart {
		s.push(e, w)
	}
	r.release()
	return nil
}

// push adds the elements of a request, which get the next numbers.
func (s *state) push(r run, w *waiter) {
	r.number = s.numbered
	s.numbered += int64(r.len())
	r.entry = s.entered(r, w)
	s.order.push(r)
}

// ready returns the number of elements that may leave now.
func (s *state) ready() int {
	if s.closed {
		return s.order.len()
	}
	return s.order.len() - s.MinAfterDequeue
}

func (s *state) tryDequeue(w *waiter) progress {
	if s.closed && s.order.len() < w.want && !s.awaitsLeases(w) {
		short := status.Errorf(status.OutOfRange, "%s '%s' is closed and has insufficient elements (requested %d, current size %d).%s",
			s.Kind.says(w.action), s.Name, w.want, s.order.len(), s.closedBy(w))
		if s.reason != nil {
			short = status.Errorf(status.CodeOf(s.reason), "%s '%s' was closed by its producer: %v.%s", s.Kind.says(w.action), s.Name, s.reason, s.closedBy(w))
		}
		s.putBack(w)
		if s.order.len() == 0 {
			s.misses(w)
		}
		if w.action != dequeueUpTo || s.order.len() == 0 {
			return s.end(w, short)
		}
		w.want = s.order.len()
	}
	if w.got == nil {
		w.got = w.few[:0]
	}
	p := stuck
	ready := s.ready()
	if s.Kind == Priority && ready < w.want {
		return stuck
	}
	for w.want > 0 && ready > 0 {
		r := s.order.take(min(w.want, ready))
		w.want -= r.len()
		ready -= r.len()
		w.got = w.got.add(r)
		p = some
	}
	if w.want > 0 {
		return p
	}
	return s.deliver(w)
}

// awaitsLeases reports whether a dequeue for which a closed queue has too few elements waits for those that are leased.
func (s *state) awaitsLeases(w *waiter) bool {
	if w.action == dequeueUpTo {
		return s.leases.elems > 0 && s.order.len()+w.got.len() == 0
	}
	return s.left() >= w.want
}

// deliver completes a dequeue that has collected all its elements.
func (s *state) deliver(w *waiter) progress {
	var tuple []*tensor.Tensor
	var err error
	if w.action == dequeue {
		tuple, err = w.got[0].element(s.Pool)
	} else {
		tuple, err = gather(w.got, s.Shapes, s.Pool)
	}
	if err != nil {
		return s.end(w, err)
	}
	s.dequeued, s.lastDequeue = s.dequeued+int64(w.got.len()), w.by
	s.takesLate(w)
	token := ""
	if w.terms != nil {
		token = s.lend(w) // leased elements stay on disk until they are acknowledged
	} else {
		s.removed(w.got, w)
		w.got.release()
	}
	w.got = nil
	return s.finish(w, tuple, token, nil)
}

// end completes a request without returning elements.
func (s *state) end(w *waiter, err error) progress { return s.finish(w, nil, "", err) }

// finish removes a request from its line and completes it. Elements that it has not yet added are dropped; elements that it collected are
// put back.
func (s *state) finish(w *waiter, tuple []*tensor.Tensor, token string, err error) progress {
	if w.list != nil {
		w.list.remove(w)
	}
	if w.action == closeGently {
		s.closes--
	}
	s.putBack(w)
	c := w.refused(err)
	c.tensors, c.token = tuple, token
	s.completed = append(s.completed, c)
	return complete
}

func (s *state) putBack(w *waiter) {
	for i := len(w.got) - 1; i >= 0; i-- {
		s.order.restore(w.got[i])
	}
	w.got = nil
}

// closedBy returns the text that follows TensorFlow's words in an error: who closed the queue, and how to use its name again.
func (s *state) closedBy(w *waiter) string {
	text := " It was " + s.closedAfter()
	if w.late {
		text += s.closing.Before(w.by)
	}
	return text + s.usedAgain()
}

// usedAgain returns the text that says how the queue's name can be used again.
func (s *state) usedAgain() string {
	if strings.HasPrefix(s.Name, "_") {
		return "" // it ends with its session
	}
	return ", and stays closed: a pipeline.Producer of a Go or Python program opens it anew, tf.raw_ops.DestroyResourceOp(resource=queue.queue_ref) " +
		"or a reset of its container deletes it"
}

// closedAfter says after how many elements the queue was closed, when, and by whom.
func (s *state) closedAfter() string {
	return fmt.Sprintf("closed after %s, %s", view.Count(s.enqueued-s.before, "element"), s.closing.When(s.now()))
}

// notOpened returns the error of an operation whose wait for the queue to be reopened or emptied has timed out.
func (s *state) notOpened(w *waiter) error {
	name, wait := fmt.Sprintf("%v '%s'", s.Kind, s.Name), w.openWait()
	switch {
	case w.action != open:
		text := fmt.Sprintf("%s is closed and empty. It was %s", name, s.closedAfter())
		code := status.FailedPrecondition
		if s.reason != nil {
			text += fmt.Sprintf(", by its producer: %v", s.reason)
			code = status.CodeOf(s.reason)
		}
		return status.Errorf(code, "%s. No producer has opened it anew within %v: start one, which opens it, or wait longer (OpenWait; open_wait in Python)", text, wait)
	case s.closed:
		return status.Errorf(status.FailedPrecondition, "%s cannot be opened anew: it was %s, and %d of them have not been taken within %v. "+
			"Let a consumer take them, delete the queue (Delete), or wait longer (OpenWait; open_wait in Python)", name, s.closedAfter(), s.left(), wait)
	}
	return status.Errorf(status.FailedPrecondition, "%s cannot be opened anew: it is about to be closed, after the enqueues before, and its %d elements have not been taken "+
		"within %v. Let a consumer take them, delete the queue (Delete), or wait longer (OpenWait; open_wait in Python)", name, s.left(), wait)
}

// cancelled is the error of a request that was cancelled. cause is the error that caused it, or nil.
func cancelled(what string, cause error) error {
	return &status.Error{Code: status.Cancelled, Message: what + " was cancelled", Derived: cause != nil}
}
