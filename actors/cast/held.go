package cast

// held is a request that an actor of the task has got and not answered. Those of an actor are a list, so that an actor without any takes no memory for
// them. Cast.mu guards it.
type held struct {
	asker         Ref
	by            *performer
	life          *life // that has kept it; nil if none has
	before, after *held // in the actor's list
}

// maxSpare bounds the records that a cast keeps for further requests.
const maxSpare = 1 << 10

// expectLocked records the sender of a request to an actor until the request is answered. It does nothing for messages that
// are not requests, and for an actor that is ending.
func (s *Cast) expectLocked(p *performer, asker Ref) {
	if p.settled || !isAsk(asker.Name) {
		return
	}
	if old := s.asked[asker]; old != nil {
		s.forgetLocked(old)
	}
	h := s.spare
	if h == nil {
		h = &held{}
	} else {
		s.spare, s.spares = h.after, s.spares-1
	}
	*h = held{asker: asker, by: p, after: p.held}
	if p.held != nil {
		p.held.before = h
	}
	p.held, s.asked[asker] = h, h
}

// forgetLocked forgets a request, which must not be used afterwards.
func (s *Cast) forgetLocked(h *held) {
	delete(s.asked, h.asker)
	if h.before != nil {
		h.before.after = h.after
	} else {
		h.by.held = h.after
	}
	if h.after != nil {
		h.after.before = h.before
	}
	*h = held{}
	if s.spares < maxSpare {
		h.after, s.spare, s.spares = s.spare, h, s.spares+1
	}
}

// heldLocked returns a request that waits for the actor's answer; nil if the actor does not have it.
func (p *performer) heldLocked(asker Ref) *held {
	if h := p.cast.asked[asker]; h != nil && h.by == p {
		return h
	}
	return nil
}

// keep records that a request is kept by the life of its actor.
func (s *Cast) keep(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := r.life.performer.heldLocked(r.asker); h != nil {
		h.life = r.life
	}
}

// failKept fails the requests that the life of an actor has kept.
func (s *Cast) failKept(l *life, why error) {
	var kept []Ref
	s.mu.Lock()
	for h := l.performer.held; h != nil; {
		next := h.after
		if h.life == l {
			kept = append(kept, h.asker)
			s.endContextLocked(h.asker)
			s.forgetLocked(h)
		}
		h = next
	}
	s.mu.Unlock()
	for _, asker := range kept {
		s.answer(asker, why)
	}
}

// settleLocked forgets the requests of an actor that has ended, and returns their senders. It gets no more.
func (p *performer) settleLocked() (askers map[Ref]struct{}) {
	p.settled = true
	s := p.cast
	for p.held != nil {
		if askers == nil {
			askers = map[Ref]struct{}{}
		}
		asker := p.held.asker
		askers[asker] = struct{}{}
		s.forgetLocked(p.held)
		s.endContextLocked(asker)
	}
	return askers
}
