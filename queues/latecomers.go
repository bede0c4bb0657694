package queues

import (
	"fmt"

	"github.com/troupe-run/troupe/internal/view"
)

// missed is what a session's notes record of a queue of which the session got the end and no element.
type missed struct{ queue, text string }

// isLate reports whether the session of an operation was opened after the queue was closed.
func (s *state) isLate(w *waiter) bool { return s.closed && s.closing.Precedes(w.by) }

// takesLate records that a dequeue has taken elements. Its session has not missed everything.
func (s *state) takesLate(w *waiter) {
	if s.isLate(w) {
		s.latecomers.Add(w.by.Session)
	}
}

// misses records that a dequeue gets the end of the empty queue. If the queue's producer failed, the error says so, and no program takes it
// for the end of its elements.
func (s *state) misses(w *waiter) {
	if s.reason != nil || !s.isLate(w) || !s.latecomers.Miss(view.Act{By: w.by, At: s.now()}) {
		return
	}
	w.missed = &missed{s.Name, fmt.Sprintf("session %s of %s has got the end of %v '%s' and no element, because it was opened after the queue was closed. The queue was %s%s",
		w.by.Session, w.by.Master, s.Kind, s.Name, s.closedAfter(), s.usedAgain())}
}
