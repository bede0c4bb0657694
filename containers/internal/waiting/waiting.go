// Package waiting is the shell of resources whose operations may have to wait: a lock around a state, and the
// requests that wait for the state to change. They wait as callbacks and hold no goroutine.
//
// The resource itself is a plain state. The attempt of a request reads and changes it under the lock, and
// nothing else runs there.
package waiting

import (
	"container/list"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
)

// Room holds the lock of a state and the lines of those who wait. All methods may be called concurrently.
// The zero value is a room without lines.
type Room struct {
	mu    sync.Mutex
	lines []*Line
	gone  error
}

// Line is requests that wait, in the order in which they came.
type Line struct {
	room     *Room
	strict   bool
	requests list.List
}

// Attempt tries to serve a request. It runs under the room's lock: at once, and again whenever something has
// changed, until it tells that the request is over, with the error of that if it is one.
type Attempt func() (over bool, err error)

type request struct {
	attempt Attempt
	done    func(error)
	err     error
	at      *list.Element // nil when it is over
}

// NewLine adds a line to the room, before anybody else sees it. In a strict line a request is tried only when
// all that came before it are over. The lines are served in the order in which they were added.
func (r *Room) NewLine(strict bool) *Line {
	l := &Line{room: r, strict: strict}
	r.lines = append(r.lines, l)
	return l
}

// Ask puts a request in the line. done is called once, without the lock: before Ask returns or later, by
// whoever made the request's turn come. It must not block, but may use the room. The function that Ask returns
// ends the request, if it still waits, with CANCELLED and the text, marked as derived where it has a cause.
func (l *Line) Ask(attempt Attempt, text string, done func(error)) (cancel func(cause error)) {
	r, q := l.room, &request{attempt: attempt, done: done}
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
		l.end(q, &status.Error{Code: status.Cancelled, Message: text, Derived: cause != nil})
		r.serveAndUnlock([]*request{q})
	}
}

// Do runs a change that does not wait under the lock, and then serves those who wait. It gives the change's error;
// where the room is closed the change does not run, and the error is that of Close.
func (r *Room) Do(change func() error) error {
	r.mu.Lock()
	err := r.gone
	if err == nil {
		err = r.guarded(change)
	}
	r.serveAndUnlock(nil)
	return err
}

// Look runs a function under the lock that changes nothing.
func (r *Room) Look(look func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	look()
}

// Close ends all requests with err, and those that come later; then it runs drop under the lock, to give
// up what the state holds. Later calls do nothing.
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
	tell(over)
}

// Closed tells whether Close was called.
func (r *Room) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone != nil
}

// guarded makes a bug in a change an error, so that it does not leave the room locked for ever.
func (r *Room) guarded(change func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Internalf("A change of a resource failed: %v", p)
		}
	}()
	return change()
}

// serveAndUnlock tries the requests until nothing changes any more, and tells those that are over. Each
// round but the last takes one out of its line, so it ends.
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
	tell(over)
}

func (r *Room) try(l *Line, q *request) (over bool) {
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

func (l *Line) end(q *request, err error) {
	l.requests.Remove(q.at)
	q.at, q.err = nil, err
}

func tell(over []*request) {
	for _, q := range over {
		q.done(q.err)
	}
}
