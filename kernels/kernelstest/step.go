package kernelstest

import (
	"sync"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
)

// NewStep returns a step with its own feeds, fetches and rendezvous.
func NewStep() *kernels.Step {
	io := &IO{Fed: map[int]*tensor.Tensor{}, Fetched: map[int]*tensor.Tensor{}}
	return &kernels.Step{
		ID: 1, Feeds: io, Fetches: io, Rendezvous: NewRendezvous(), Cancellation: &kernels.Cancellation{}, Container: "__per_step_1", Files: files.NewDoor(files.All, nil),
	}
}

// IO holds the feeds and fetches of a step.
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

// Fetch stores the tensor in Fetched.
func (io *IO) Fetch(index int, t *tensor.Tensor, dead bool) {
	io.mu.Lock()
	defer io.mu.Unlock()
	io.Fetched[index] = t
}

// Rendezvous is a rendezvous within the process.
type Rendezvous struct {
	mu      sync.Mutex
	sent    map[kernels.Key]sent
	waiting map[kernels.Key]func(*tensor.Tensor, bool, error)
}

type sent struct {
	t    *tensor.Tensor
	dead bool
}

// NewRendezvous returns an empty rendezvous.
func NewRendezvous() *Rendezvous {
	return &Rendezvous{sent: map[kernels.Key]sent{}, waiting: map[kernels.Key]func(*tensor.Tensor, bool, error){}}
}

// Send hands the tensor to the waiting receiver, or stores it if there is none.
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

// Drop releases everything that was sent and not received.
func (r *Rendezvous) Drop() {
	r.mu.Lock()
	left := r.sent
	r.sent = map[kernels.Key]sent{}
	r.mu.Unlock()
	for _, s := range left {
		if s.t != nil {
			s.t.Release()
		}
	}
}

// Recv calls done with the tensor sent under key, now or when it is sent.
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
