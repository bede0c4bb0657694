// Package mutex holds TensorFlow's mutex resource, the lock of a critical section. Locks are granted in the
// order in which they were requested, and are held as long as anything refers to them.
package mutex

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// Mutex is a named lock. All methods may be called concurrently; none waits.
type Mutex struct {
	name  string
	room  waiting.Room
	asked *waiting.Line
	// Guarded by room.
	held   bool
	holder view.StepOrigin
}

// New makes a mutex that nobody holds.
func New(name string) *Mutex {
	m := &Mutex{name: name}
	m.asked = m.room.NewLine(true)
	return m
}

// Lock passes the mutex to done when it is the turn of this step, as a lock with one reference, which done owns.
// The error is CANCELLED if cancel was called before, ABORTED if the mutex was deleted.
func (m *Mutex) Lock(by view.StepOrigin, done func(*Lock, error)) (cancel func(cause error)) {
	return m.asked.Ask(func() (bool, error) {
		if m.held {
			return false, nil
		}
		m.held, m.holder = true, by
		return true, nil
	}, "Lock acquisition cancelled.", func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		l := &Lock{mutex: m}
		l.refs.Store(1)
		done(l, nil)
	})
}

// Close deletes the mutex: pending locks get ABORTED. A lock that is held stays valid.
func (m *Mutex) Close() {
	m.room.Close(status.Errorf(status.Aborted, "Mutex '%s' was deleted.", m.name), func() {})
}

// Deleted tells whether Close was called.
func (m *Mutex) Deleted() bool { return m.room.Closed() }

// Describe is the mutex for listings.
func (m *Mutex) Describe() string {
	text := "mutex, free"
	m.room.Look(func() {
		if m.held {
			text = "mutex, locked"
		}
	})
	return text
}

// Show adds to a listing which step holds the mutex.
func (m *Mutex) Show(r *view.Resource) {
	m.room.Look(func() {
		if m.held {
			r.HeldBy, r.Holder = []uint64{m.holder.Step}, m.holder.Proto()
		}
	})
}

// Lock is the right to be in a critical section. It is counted, as an element of a variant tensor is
// (tensor.Counted): the last Release unlocks the mutex, however the step ends that held it.
type Lock struct {
	mutex *Mutex
	refs  atomic.Int32
}

// Retain adds a reference.
func (l *Lock) Retain() { l.refs.Add(1) }

// Release drops one.
func (l *Lock) Release() {
	if l.refs.Add(-1) > 0 {
		return
	}
	// Where the mutex was deleted nobody waits for it.
	_ = l.mutex.room.Do(func() error {
		l.mutex.held, l.mutex.holder = false, view.StepOrigin{}
		return nil
	})
}

// References is how many there are.
func (l *Lock) References() int { return int(l.refs.Load()) }
