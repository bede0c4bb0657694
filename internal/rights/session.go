package rights

import "sync/atomic"

// Session is the scope of a session on one task. It changes when the policy is reloaded. A nil Session allows everything. All methods may
// be called concurrently.
type Session struct {
	scope    atomic.Pointer[Scope]
	admitted atomic.Pointer[admitted]
}

// admitted is the last container that was admitted. It is cached, since kernels resolve handles of one container many times.
type admitted struct {
	scope                *Scope
	container, byDefault string
}

// New returns the rights of a session with a scope, or nil for a nil scope.
func New(s *Scope) *Session {
	if s == nil {
		return nil
	}
	r := &Session{}
	r.scope.Store(s)
	return r
}

// Scope returns the current scope.
func (r *Session) Scope() *Scope {
	if r == nil {
		return nil
	}
	return r.scope.Load()
}

// Update makes a scope the current one, unless a later one already is. A session without a scope stays without.
func (r *Session) Update(s *Scope) {
	if r == nil || s == nil {
		return
	}
	for {
		now := r.scope.Load()
		if s == now || s.Revision < now.Revision || r.scope.CompareAndSwap(now, s) {
			return
		}
	}
}

// Op is Scope.Op.
func (r *Session) Op(op string) error { return r.Scope().Op(op) }

// Device is Scope.Device.
func (r *Session) Device(device string) error { return r.Scope().Device(device) }

// Container is Scope.Container.
func (r *Session) Container(container, byDefault string) error {
	s := r.Scope()
	if s == nil {
		return nil
	}
	if a := r.admitted.Load(); a != nil && a.scope == s && a.container == container && a.byDefault == byDefault {
		return nil
	}
	if err := s.Container(container, byDefault); err != nil {
		return err
	}
	r.admitted.Store(&admitted{s, container, byDefault})
	return nil
}
