package kernelstest

import (
	"sync"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
)

// NewStep makes a step with feeds, fetches and a rendezvous of its own.
func NewStep() *kernels.Step {
	io := &IO{Fed: map[int]*tensor.Tensor{}, Fetched: map[int]*tensor.Tensor{}}
	return &kernels.Step{
		ID: 1, Feeds: io, Fetches: io, Rendezvous: NewRendezvous(), Cancellation: &kernels.Cancellation{}, Container: "__per_step_1", Files: files.All,
	}
}

// IO are the feeds and fetches of a step.
type IO struct {
	mu           sync.Mutex
	Fed, Fetched map[int]*tensor.Tensor
}

// Feed hands over the fed tensor.
func (io *IO) Feed(index int, done func(*tensor.Tensor, error)) {
	io.mu.Lock()
	t := io.Fed[index]
	delete(io.Fed, index)
	io.mu.Unlock()
	done(t, nil)
}

// Fetch keeps the tensor in Fetched.
func (io *IO) Fetch(index int, t *tensor.Tensor, dead bool) {
	io.mu.Lock()
	defer io.mu.Unlock()
	io.Fetched[index] = t
}

// Rendezvous is one that stays in the process.
type Rendezvous struct {
	mu      sync.Mutex
	sent    map[kernels.Key]sent
	waiting map[kernels.Key]func(*tensor.Tensor, bool, error)
}

type sent struct {
	t    *tensor.Tensor
	dead bool
}

// NewRendezvous makes an empty rendezvous.
func NewRendezvous() *Rendezvous {
	return &Rendezvous{sent: map[kernels.Key]sent{}, waiting: map[kernels.Key]func(*tensor.Tensor, bool, error){}}
}

// Send hands the tensor to who waits for it or keeps it.
func (r *Rendezvous) Send(key kernels.Key, _ string, t *tensor.Tensor, dead bool) error {
	r.mu.Lock()
	done, ok := r.waiting[key]
	delete(r.waiting, key)
	if !ok {
		r.sent[key] = sent{t, dead}
	}
	r.mu.Unlock()
	if ok {
		done(t, dead, nil)
	}
	return nil
}

// Recv gives the tensor that was sent, now or when it is.
func (r *Rendezvous) Recv(key kernels.Key, done func(*tensor.Tensor, bool, error)) {
	r.mu.Lock()
	s, ok := r.sent[key]
	delete(r.sent, key)
	if !ok {
		r.waiting[key] = done
	}
	r.mu.Unlock()
	if ok {
		done(s.t, s.dead, nil)
	}
}
