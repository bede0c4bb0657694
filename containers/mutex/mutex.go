// Package mutex holds TensorFlow's mutex resource, the lock of a critical section. Locks are granted in the order in which they were
// requested, and are held until the last reference is released.
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

// Ephemeral says that a process that has ended holds no locks.
func (*Mutex) Ephemeral() {}

// New makes an unlocked mutex.
func New(name string) *Mutex {
	m := &Mutex{name: name}
	m.asked = m.room.NewLine(true)
	return m
}

// Lock waits for the turn of the step that by identifies, and passes done a lock with one reference, which done owns. The error is CANCELLED if
// the step ended or cancel was called before that, ABORTED if the mutex was deleted.
func (m *Mutex) Lock(step waiting.Step, by view.StepOrigin, done func(*Lock, error)) (cancel func(cause error)) {
	return m.asked.Ask(step, func() (bool, error) {
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

// Close deletes the mutex: pending locks fail with ABORTED. A lock that is held stays valid.
func (m *Mutex) Close() {
	m.room.Close(status.Errorf(status.Aborted, "Mutex '%s' was deleted.", m.name), func() {})
}

// Deleted reports whether Close was called.
func (m *Mutex) Deleted() bool { return m.room.Closed() }

// Describe describes the mutex for listings.
func (m *Mutex) Describe() string {
	text := "mutex, free"
	m.room.Look(func() {
		if m.held {
			text = "mutex, locked"
		}
	})
	return text
}

// Show adds the step that holds the mutex to a listing.
func (m *Mutex) Show(r *view.Resource) {
	m.room.Look(func() {
		if m.held {
			r.HeldBy, r.Holder = []uint64{m.holder.Step}, m.holder.Proto()
		}
	})
}

// Lock is the right to be in a critical section. It is reference-counted, as an element of a variant tensor (tensor.Counted). The last
// Release unlocks the mutex, however the step that held it ends.
type Lock struct {
	mutex *Mutex
	refs  atomic.Int32
}

// Retain adds a reference.
func (l *Lock) Retain() { l.refs.Add(1) }

// Release drops a reference.
func (l *Lock) Release() {
	if l.refs.Add(-1) > 0 {
		return
	}
	// After a deletion no request waits for the mutex.
	_ = l.mutex.room.Do(func() error {
		l.mutex.held, l.mutex.holder = false, view.StepOrigin{}
		return nil
	})
}

// References returns the number of references.
func (l *Lock) References() int { return int(l.refs.Load()) }
