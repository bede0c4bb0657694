// Package waiting is the shell of resources whose operations may wait: a lock around a state, and the requests that wait for the state to
// change. They wait as callbacks and hold no goroutine.
//
// The resource itself is a plain state. The attempt of a request reads and changes it under the lock; other code does not run there.
package waiting

import (
	"container/list"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// Room holds the lock of a state and the lines of waiting requests. All methods may be called concurrently. The zero value is a room
// without lines.
type Room struct {
	mu    sync.Mutex
	lines []*Line
	gone  error
}

// Line is a list of waiting requests in order of arrival.
type Line struct {
	room     *Room
	strict   bool
	requests list.List
}

// Attempt tries to serve a request. It runs under the room's lock: at once, and again after each change, until it reports that the request
// is over, with the request's error, if any.
type Attempt func() (over bool, err error)

// Step is the step of a request.
type Step interface {
	// Err returns the error that the step has ended with, or nil if it has not ended. It is called under the room's lock, and must not wait or
	// use the room.
	Err() error
}

type request struct {
	step    Step
	attempt Attempt
	text    string // of the error of a cancelled request
	done    func(error)
	err     error
	at      *list.Element // nil when it is over
}

// NewLine adds a line to the room, before the room is shared. In a strict line a request is tried only when all earlier ones are over. The
// lines are served in the order in which they were added.
func (r *Room) NewLine(strict bool) *Line {
	l := &Line{room: r, strict: strict}
	r.lines = append(r.lines, l)
	return l
}

// Ask adds a step's request to the line. done is called once, without the lock: before Ask returns, or later by the caller whose change
// completed the request. It must not block, but may use the room. Ask returns a function that ends the request, if it still waits, with
// CANCELLED and the text, marked as derived if it has a cause. A request whose step has ended is no longer tried, and ends in the same way.
func (l *Line) Ask(step Step, attempt Attempt, text string, done func(error)) (cancel func(cause error)) {
	r, q := l.room, &request{step: step, attempt: attempt, text: text, done: done}
	r.mu.Lock()
	if err := r.gone; err != nil {
		r.mu.Unlock()
		done(err)
		return func(error) {}
	}
	q.at = l.requests.PushBack(q)
	r.serveAndUnlock(nil)
	return func(cause error) {
		r.mu.Lock()
		if q.at == nil {
			r.mu.Unlock()
			return
		}
		l.end(q, q.cancelled(cause))
		r.serveAndUnlock([]*request{q})
	}
}

// Do runs a change, which must not wait, under the lock, and then serves the waiting requests. It returns the change's error. In a closed
// room it does not run the change, and returns the error of Close.
func (r *Room) Do(change func() error) error {
	r.mu.Lock()
	err := r.gone
	if err == nil {
		err = r.guarded(change)
	}
	r.serveAndUnlock(nil)
	return err
}

// Look runs a function that changes nothing under the lock.
func (r *Room) Look(look func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	look()
}

// Close ends all present and future requests with err, then runs drop under the lock to release the state. Later calls do nothing.
func (r *Room) Close(err error, drop func()) {
	r.mu.Lock()
	if r.gone != nil {
		r.mu.Unlock()
		return
	}
	r.gone = err
	var over []*request
	for _, l := range r.lines {
		for at := l.requests.Front(); at != nil; at = l.requests.Front() {
			q := at.Value.(*request)
			l.end(q, err)
			over = append(over, q)
		}
	}
	drop()
	r.mu.Unlock()
	complete(over)
}

// Closed reports whether Close was called.
func (r *Room) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone != nil
}

// guarded turns a panic in a change into an error; otherwise the room would stay locked forever.
func (r *Room) guarded(change func() error) error {
	return contain.Run(nil, "A change of a resource", change)
}

// serveAndUnlock tries the requests until nothing changes, then completes those that are over. It terminates, since each round but the last
// removes a request from its line.
func (r *Room) serveAndUnlock(over []*request) {
	for changed := true; changed; {
		changed = false
		for _, l := range r.lines {
			for at := l.requests.Front(); at != nil; {
				q, next := at.Value.(*request), at.Next()
				if r.try(l, q) {
					over, changed = append(over, q), true
				} else if l.strict {
					break
				}
				at = next
			}
		}
	}
	r.mu.Unlock()
	complete(over)
}

func (r *Room) try(l *Line, q *request) (over bool) {
	if err := q.step.Err(); err != nil {
		l.end(q, q.cancelled(err))
		return true
	}
	err := r.guarded(func() (err error) {
		over, err = q.attempt()
		return err
	})
	if over || err != nil {
		l.end(q, err)
		return true
	}
	return false
}

// cancelled returns the error of a request that was cancelled for a cause, or for none if it is nil.
func (q *request) cancelled(cause error) error {
	return &status.Error{Code: status.Cancelled, Message: q.text, Derived: cause != nil}
}

func (l *Line) end(q *request, err error) {
	l.requests.Remove(q.at)
	q.at, q.err = nil, err
}

func complete(over []*request) {
	for _, q := range over {
		q.done(q.err)
	}
}
