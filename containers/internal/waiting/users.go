package waiting

import (
	"sync"

	"github.com/troupe-run/troupe/internal/view"
)

// Users records which steps last used a resource. All methods may be called concurrently.
type Users struct {
	mu         sync.Mutex
	put, taken view.StepOrigin
}

// HasPut records that a step has put something in.
func (u *Users) HasPut(by view.StepOrigin) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.put = by
}

// HasTaken records that a step has taken something out.
func (u *Users) HasTaken(by view.StepOrigin) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken = by
}

// Tell adds the steps to the resource's entry in a listing.
func (u *Users) Tell(s *view.Store) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.LastPut, s.LastTaken = u.put.Proto(), u.taken.Proto()
}
