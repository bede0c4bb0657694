package devices

import (
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Rendezvous is where the parts of a step meet on one task: what a part sends to a device of the
// task waits here for its receiver, and a receiver waits here for what is sent, by another device
// of the task or, through Deposit, by another task. It is safe for concurrent use.
type Rendezvous struct {
	// forward takes what is sent to a device of another task.
	forward func(key kernels.Key, dst string, t *tensor.Tensor, dead bool) error
	// local tells whether a device is this task's.
	local func(device string) bool

	mu    sync.Mutex
	table map[kernels.Key]*meeting
	err   error
}

// meeting is a value without a receiver, or a receiver without a value.
type meeting struct {
	t       *tensor.Tensor
	dead    bool
	waiting func(*tensor.Tensor, bool, error)
}

var _ kernels.Rendezvous = (*Rendezvous)(nil)

// NewRendezvous makes the meeting place of a step on a task. A step that stays on its task needs
// neither function.
func NewRendezvous(local func(device string) bool, forward func(key kernels.Key, dst string, t *tensor.Tensor, dead bool) error) *Rendezvous {
	return &Rendezvous{local: local, forward: forward}
}

// Send hands t to the receiver of key on device dst, taking over the caller's reference.
func (r *Rendezvous) Send(key kernels.Key, dst string, t *tensor.Tensor, dead bool) error {
	if r.local != nil && !r.local(dst) {
		return r.forward(key, dst, t, dead)
	}
	return r.Deposit(key, t, dead)
}

// Deposit is Send for a receiver on this task. After Abort it gives the step's error.
func (r *Rendezvous) Deposit(key kernels.Key, t *tensor.Tensor, dead bool) error {
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		if t != nil {
			t.Release()
		}
		return r.err
	}
	m := r.table[key]
	switch {
	case m == nil:
		if r.table == nil {
			r.table = map[kernels.Key]*meeting{}
		}
		r.table[key] = &meeting{t: t, dead: dead}
		r.mu.Unlock()
		return nil
	case m.waiting == nil:
		r.mu.Unlock()
		if t != nil {
			t.Release()
		}
		return status.Internalf("The edge %s was sent twice in one step", key.Edge)
	}
	delete(r.table, key)
	r.mu.Unlock()
	m.waiting(t, dead, nil)
	return nil
}

// Recv calls done with what is sent under key, now or later, or with the error that ends the step.
func (r *Rendezvous) Recv(key kernels.Key, done func(*tensor.Tensor, bool, error)) {
	r.mu.Lock()
	if r.err != nil {
		err := r.err
		r.mu.Unlock()
		done(nil, false, err)
		return
	}
	m := r.table[key]
	switch {
	case m == nil:
		if r.table == nil {
			r.table = map[kernels.Key]*meeting{}
		}
		r.table[key] = &meeting{waiting: done}
		r.mu.Unlock()
	case m.waiting != nil:
		r.mu.Unlock()
		done(nil, false, status.Internalf("The edge %s was received twice in one step", key.Edge))
	default:
		delete(r.table, key)
		r.mu.Unlock()
		done(m.t, m.dead, nil)
	}
}

// Abort ends the step here: who waits gets err, what waits is released, and later calls fail
// with err. Only the first call has an effect.
func (r *Rendezvous) Abort(err error) {
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return
	}
	r.err = err
	table := r.table
	r.table = nil
	r.mu.Unlock()
	for _, m := range table {
		if m.waiting != nil {
			m.waiting(nil, false, err)
		} else if m.t != nil {
			m.t.Release()
		}
	}
}

// Reset makes an aborted rendezvous ready for another step. Nobody uses it any more.
func (r *Rendezvous) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = nil
}

// Expected names the edges that somebody waits for here, at most limit of them.
func (r *Rendezvous) Expected(limit int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for key, m := range r.table {
		if m.waiting != nil && len(names) < limit {
			names = append(names, key.Edge)
		}
	}
	return names
}
