package queues

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues/internal/wire"
)

// state is a queue without concurrency: submit and cancel take a request and return the
// completions that it brought about, in order. The semantics are those of TensorFlow's
// QueueBase and the queues made from it:
//
//   - Enqueues and closings wait in one line, dequeues in another. Only the first of a line is
//     served; it may be served in part (a batch goes in as space comes, a batch is collected as
//     elements come), and what it collected counts as gone, so that a batch may be larger than
//     the queue's capacity.
//   - A gentle close waits for its turn: the enqueues that came before it still go in.
//   - On a closed queue enqueues fail, and dequeues of more than there is: what a dequeue had
//     collected goes back to the front.
//
// It differs in two points. Where TensorFlow loses what a dequeue had collected when that dequeue
// is cancelled (or gets no memory for its batch), it goes back to the front too. And a DequeueUpTo
// of more than a closed PriorityQueue has gets what is left, which TensorFlow loses with an error.
type state struct {
	Options
	order     order
	closed    bool
	reason    error // why its producer gave up, if it did
	enqueues  line
	dequeues  line
	completed []completion

	// For those who look at the queue.
	enqueued, dequeued       int64 // elements
	lastEnqueue, lastDequeue Origin
}

func newState(o Options) *state {
	return &state{Options: o, order: o.order()}
}

// submit takes a new request. Its tuple has been checked, and belongs to the queue.
func (s *state) submit(w *waiter) []completion {
	switch w.action {
	case closeAndCancel:
		s.close(w)
		for s.enqueues.first != nil {
			s.end(s.enqueues.first, enqueueCancelled(nil))
		}
		s.flush()
		s.end(w, nil)
	case look:
		s.completed = append(s.completed, completion{waiter: w, state: &wire.State{Size: int64(s.order.len()), Closed: s.closed}})
	case enqueue, closeGently:
		s.enqueues.add(w)
		s.flush()
	default:
		s.dequeues.add(w)
		s.flush()
	}
	return s.effects()
}

// cancel ends a request that still waits; cause, if any, is the error that it is cancelled for.
// A closing is not cancelled, as in TensorFlow.
func (s *state) cancel(w *waiter, cause error) []completion {
	switch w.list {
	case &s.enqueues:
		if w.action == enqueue {
			s.end(w, enqueueCancelled(cause))
		}
	case &s.dequeues:
		s.end(w, dequeueCancelled(cause))
	}
	s.flush()
	return s.effects()
}

// abort ends all requests with err and drops the elements.
func (s *state) abort(err error) []completion {
	for s.enqueues.first != nil {
		s.end(s.enqueues.first, err)
	}
	for s.dequeues.first != nil {
		s.end(s.dequeues.first, err)
	}
	for n := s.order.len(); n > 0; n = s.order.len() {
		s.order.take(n).leave()
	}
	return s.effects()
}

func (s *state) effects() []completion {
	done := s.completed
	s.completed = nil
	return done
}

type progress int8

const (
	stuck    progress = iota // nothing changed
	some                     // served in part
	complete                 // served, or failed
)

// flush serves both lines until nothing changes any more. Each round either completes a request
// or moves elements, of which there are finitely many in the lines, so it ends.
func (s *state) flush() {
	for changed := true; changed; {
		changed = serve(&s.enqueues, s.tryEnqueue)
		changed = serve(&s.dequeues, s.tryDequeue) || changed
	}
}

func serve(l *line, try func(*waiter) progress) (changed bool) {
	for l.first != nil {
		p := try(l.first)
		changed = changed || p != stuck
		if p != complete {
			break
		}
	}
	return changed
}

// close closes the queue; a second closing changes nothing.
func (s *state) close(w *waiter) {
	if !s.closed {
		s.closed, s.reason = true, w.reason
	}
}

func (s *state) tryEnqueue(w *waiter) progress {
	if w.action == closeGently {
		var err error
		if s.closed {
			err = status.Errorf(status.Cancelled, "Queue '%s' is already closed.", s.Name)
		}
		s.close(w)
		return s.end(w, err)
	}
	if s.closed {
		return s.end(w, status.Errorf(status.Cancelled, "%s '%s' is closed.", s.Kind.says(w.action), s.Name))
	}
	room := s.Capacity - s.order.len()
	if room <= 0 {
		return stuck
	}
	enter, rest := w.in.split(min(room, w.in.len()))
	if s.Kind.scatters() && w.in.many {
		if err := s.pushApart(enter); err != nil {
			return s.end(w, err)
		}
	} else {
		s.order.push(enter)
	}
	w.in = rest
	s.enqueued, s.lastEnqueue = s.enqueued+int64(enter.len()), w.by
	if rest.len() > 0 {
		return some
	}
	return s.end(w, nil)
}

// pushApart puts in a copy of each element of a batch. Elements that leave one by one must not keep the
// memory of the whole batch.
func (s *state) pushApart(r run) error {
	var apart []run
	for i := r.from; i < r.to; i++ {
		tuple, err := run{r.batch, i, i + 1}.copied(s.Pool)
		if err != nil {
			collected(apart).leave()
			return err
		}
		apart = append(apart, one(tuple))
	}
	for _, e := range apart {
		s.order.push(e)
	}
	r.leave()
	return nil
}

// ready is how many elements may leave now.
func (s *state) ready() int {
	if s.closed {
		return s.order.len()
	}
	return s.order.len() - s.MinAfterDequeue
}

func (s *state) tryDequeue(w *waiter) progress {
	if s.closed && s.order.len() < w.want {
		short := status.Errorf(status.OutOfRange, "%s '%s' is closed and has insufficient elements (requested %d, current size %d)",
			s.Kind.says(w.action), s.Name, w.want, s.order.len())
		if s.reason != nil {
			short = status.Errorf(status.CodeOf(s.reason), "%s '%s' was closed by its producer: %v", s.Kind.says(w.action), s.Name, s.reason)
		}
		s.putBack(w)
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

// deliver completes a dequeue that has got all it wants.
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
	w.got.leave()
	w.got = nil
	return s.finish(w, tuple, nil)
}

// end completes a request that takes nothing out.
func (s *state) end(w *waiter, err error) progress { return s.finish(w, nil, err) }

// finish takes a request out of its line and completes it. Elements that it brought and that
// have not gone in are dropped, those that it collected are put back.
func (s *state) finish(w *waiter, tuple []*tensor.Tensor, err error) progress {
	if w.list != nil {
		w.list.remove(w)
	}
	s.putBack(w)
	c := w.refused(err)
	c.tensors = tuple
	s.completed = append(s.completed, c)
	return complete
}

func (s *state) putBack(w *waiter) {
	for i := len(w.got) - 1; i >= 0; i-- {
		s.order.restore(w.got[i])
	}
	w.got = nil
}

func enqueueCancelled(cause error) error {
	return &status.Error{Code: status.Cancelled, Message: "Enqueue operation was cancelled", Derived: cause != nil}
}

func dequeueCancelled(cause error) error {
	return &status.Error{Code: status.Cancelled, Message: "Dequeue operation was cancelled", Derived: cause != nil}
}
