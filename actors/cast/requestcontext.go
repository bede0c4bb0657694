package cast

import "context"

// requestContext is the context of a request.
type requestContext struct {
	request *Request
	ctx     context.Context
	cancel  context.CancelFunc
}

// Context returns a context that ends with the actor's life, and when the requester does not wait any more: it has given up, or its task is
// lost. It also ends when the request has been answered and its handler has returned, and when another actor has got the request.
func (r *Request) Context() context.Context {
	s := r.life.performer.cast
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.contexts[r.asker]; ok && c.request == r {
		return c.ctx
	}
	if r.isAnswering() { // answered without one: nothing of the requester matters to the rest of the handler
		return r.ctx()
	}
	ctx, cancel := context.WithCancel(r.ctx())
	if r.life.performer.heldLocked(r.asker) == nil {
		cancel()
		return ctx
	}
	s.contexts[r.asker] = requestContext{r, ctx, cancel}
	r.contextual.Store(true)
	return ctx
}

// Awaited reports whether the requester still waits for an answer from this actor, as far as its task knows.
func (r *Request) Awaited() bool {
	s := r.life.performer.cast
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.life.performer.heldLocked(r.asker) != nil
}

// isAnswering reports whether the request has been answered by its handler, which has not returned.
func (r *Request) isAnswering() bool {
	return r.state.Load() == answered && r.life.performer.answering.Load() == r
}

// leave is called when the handler has returned.
func (r *Request) leave() {
	r.life.performer.answering.Store(nil)
	if !r.contextual.Load() || r.state.Load() == kept {
		return
	}
	s := r.life.performer.cast
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.contexts[r.asker].request == r {
		s.endContextLocked(r.asker)
	}
}

// endContextLocked ends the context of a request, if there is one.
func (s *Cast) endContextLocked(asker Ref) {
	if c, ok := s.contexts[asker]; ok {
		delete(s.contexts, asker)
		c.cancel()
	}
}
