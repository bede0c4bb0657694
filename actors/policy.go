package actors

import (
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/internal/view"
)

// Policy bounds what a session does on behalf of its client. The session asks it when a step begins and ends. Its methods may
// be called concurrently.
type Policy interface {
	// Scope returns what the client may use now; nil means everything. It is the same value until that changes. It goes to all tasks with
	// the session's plans, which are made anew once it changes.
	Scope() *rights.Scope
	// BeginStep counts a step, or refuses one too many. EndStep is called at the end of a counted step.
	BeginStep() error
	EndStep()
	// Show returns the part of c that the client may see. It does not change c.
	Show(c *view.Cluster) *view.Cluster
	// Close is called when the session has ended or was not opened.
	Close()
}

// updateRights applies a reloaded policy to what the session does from now on. Plans that were made before become stale.
func (s *Session) updateRights() {
	if s.rights.Policy != nil {
		s.worker.rights.Update(s.rights.Policy.Scope())
	}
}

// admitStep counts a step that is about to begin.
func (s *Session) admitStep() error {
	if s.rights.Policy == nil {
		return nil
	}
	return s.rights.Policy.BeginStep()
}

// stepOver notifies the policy that an admitted step has ended.
func (s *Session) stepOver() {
	if s.rights.Policy != nil {
		s.rights.Policy.EndStep()
	}
}
