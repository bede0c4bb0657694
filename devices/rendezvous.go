package devices

import (
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Rendezvous is where the parts of a step exchange tensors on one task. A tensor sent to a device of the task waits here for its receiver,
// and a receiver waits here for its sender: another device of the task or, through Deposit, another task. It is safe for concurrent use.
type Rendezvous struct {
	// forward passes on what is sent to a device of another task.
	forward func(key kernels.Key, dst string, t *tensor.Tensor, dead bool) error
	// local reports whether a device belongs to this task.
	local func(device string) bool

	mu    sync.Mutex
	few   []meeting // used while there are at most fewMeetings, else table
	table map[kernels.Key]*meeting
	err   error
}

// meeting is a value without a receiver, or a receiver without a value.
type meeting struct {
	key     kernels.Key
	t       *tensor.Tensor
	dead    bool
	waiting func(*tensor.Tensor, bool, error)
}

// fewMeetings is the maximum number of meetings that are searched linearly.
const fewMeetings = 8

// findLocked returns the meeting of a key, or nil. It is valid until the next change.
func (r *Rendezvous) findLocked(key kernels.Key) *meeting {
	for i := range r.few {
		if r.few[i].key == key {
			return &r.few[i]
		}
	}
	return r.table[key]
}

func (r *Rendezvous) addLocked(m meeting) {
	if len(r.few) < fewMeetings && len(r.table) == 0 {
		r.few = append(r.few, m)
		return
	}
	if r.table == nil {
		r.table = map[kernels.Key]*meeting{}
	}
	r.table[m.key] = &m
}

// removeLocked removes a meeting returned by findLocked.
func (r *Rendezvous) removeLocked(m *meeting) meeting {
	out := *m
	for i := range r.few {
		if m == &r.few[i] {
			last := len(r.few) - 1
			r.few[i], r.few[last] = r.few[last], meeting{}
			r.few = r.few[:last]
			return out
		}
	}
	delete(r.table, out.key)
	return out
}

var _ kernels.Rendezvous = (*Rendezvous)(nil)

// NewRendezvous makes the rendezvous of a step on a task. A step that stays on its task needs neither function.
func NewRendezvous(local func(device string) bool, forward func(key kernels.Key, dst string, t *tensor.Tensor, dead bool) error) *Rendezvous {
	return &Rendezvous{local: local, forward: forward}
}

// Send passes t to the receiver of key on device dst and takes over the caller's reference.
func (r *Rendezvous) Send(key kernels.Key, dst string, t *tensor.Tensor, dead bool) error {
	if r.local != nil && !r.local(dst) {
		return r.forward(key, dst, t, dead)
	}
	return r.Deposit(key, t, dead)
}

// Deposit is Send for a receiver on this task. After Abort it returns the step's error.
func (r *Rendezvous) Deposit(key kernels.Key, t *tensor.Tensor, dead bool) error {
	dead = dead || t == nil
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		if t != nil {
			t.Release()
		}
		return r.err
	}
	m := r.findLocked(key)
	switch {
	case m == nil:
		r.addLocked(meeting{key: key, t: t, dead: dead})
		r.mu.Unlock()
		return nil
	case m.waiting == nil:
		r.mu.Unlock()
		if t != nil {
			t.Release()
		}
		return status.Internalf("The edge %s was sent twice in one step", key.Edge)
	}
	met := r.removeLocked(m)
	r.mu.Unlock()
	met.waiting(t, dead, nil)
	return nil
}

// takeArrived returns what was sent under key if it has arrived, has the type, and is on the host.
func (r *Rendezvous) takeArrived(key kernels.Key, dtype tensor.DType) (t *tensor.Tensor, dead, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, false, false
	}
	m := r.findLocked(key)
	if m == nil || m.waiting != nil || !m.dead && (m.t.DType() != dtype || !m.t.OnHost()) {
		return nil, false, false
	}
	met := r.removeLocked(m)
	return met.t, met.dead, true
}

// Recv calls done with what is sent under key, now or later, or with the error that ended the step.
func (r *Rendezvous) Recv(key kernels.Key, done func(*tensor.Tensor, bool, error)) {
	r.mu.Lock()
	if r.err != nil {
		err := r.err
		r.mu.Unlock()
		done(nil, false, err)
		return
	}
	m := r.findLocked(key)
	switch {
	case m == nil:
		r.addLocked(meeting{key: key, waiting: done})
		r.mu.Unlock()
	case m.waiting != nil:
		r.mu.Unlock()
		done(nil, false, status.Internalf("The edge %s was received twice in one step", key.Edge))
	default:
		met := r.removeLocked(m)
		r.mu.Unlock()
		done(met.t, met.dead, nil)
	}
}

// Abort ends the step here: waiting receivers get err, waiting values are released, and later calls fail with err. Only the first call has
// an effect.
func (r *Rendezvous) Abort(err error) {
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return
	}
	r.err = err
	few, table := r.few, r.table
	r.few, r.table = nil, nil
	r.mu.Unlock()
	for i := range few {
		few[i].abort(err)
	}
	for _, m := range table {
		m.abort(err)
	}
}

func (m *meeting) abort(err error) {
	if m.waiting != nil {
		m.waiting(nil, false, err)
	} else if m.t != nil {
		m.t.Release()
	}
}

// Reset makes an aborted rendezvous ready for another step. It must no longer be in use.
func (r *Rendezvous) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = nil
}

// Expected returns the names of edges that receivers wait for here, at most limit of them.
func (r *Rendezvous) Expected(limit int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	note := func(m *meeting) {
		if m.waiting != nil && len(names) < limit {
			names = append(names, m.key.Edge)
		}
	}
	for i := range r.few {
		note(&r.few[i])
	}
	for _, m := range r.table {
		note(m)
	}
	return names
}
