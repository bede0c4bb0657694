package cast

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
)

// relay is a request of this task's own, in place of one that was forwarded to another task: its answer is that of the other request.
//
// Both requests are bound to what they wait for: the requester's to this task, the relay's to the task that it was forwarded to. When either
// task is lost, or the requester no longer waits, the request ends everywhere. A request that is forwarded on the same task needs no relay.
type relay struct{ name, task string }

// Forward passes the request that is being handled on to another actor, which answers the requester.
func (c *Context) Forward(to Ref) error {
	p, r := c.life.performer, c.request()
	switch {
	case r == nil:
		return status.New(status.FailedPrecondition, "the message that is being handled is no request")
	case p.handling != c:
		return status.New(status.FailedPrecondition, "the request is not being handled any more: it has to be forwarded before Receive returns")
	}
	message, err := Enclose(p.message)
	if err != nil {
		return err
	}
	to, size, err := p.cast.checkAsk(to, message)
	if err != nil {
		return err
	}
	if err := c.life.await(to.Task); err != nil {
		return err
	}
	err = r.answer(func() error {
		if to.Task == p.cast.config.Self {
			return p.cast.forward(c.ctx(), r, to, item{sender: r.asker, content: content{message: message}, size: size})
		}
		return p.cast.relay(c.ctx(), r, to, message, size)
	})
	if err != nil && r.state.Load() == kept {
		p.cast.keep(r)
	}
	return begun(err)
}

// giveLocked moves a request that an actor has to another one of the task, or to none if that is nil. It returns false if the
// actor does not have it: it was answered, or its requester no longer waits.
func (s *Cast) giveLocked(asker Ref, from, to *performer) bool {
	h := from.heldLocked(asker)
	if h == nil {
		return false
	}
	s.forgetLocked(h)
	s.endContextLocked(asker)
	if to != nil {
		s.expectLocked(to, asker)
	}
	return true
}

// forward passes a request on to an actor of this task.
func (s *Cast) forward(ctx context.Context, r *Request, to Ref, i item) error {
	p := r.life.performer
	i.trace = s.traceOf(ctx)
	s.mu.Lock()
	next, err := s.receiverLocked(to.Name, "")
	waits := err == nil && s.giveLocked(r.asker, p, next)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.launch(next)
	if !waits {
		return nil
	}
	if err = next.post(ctx, i, next != p); err != nil {
		s.mu.Lock()
		s.giveLocked(r.asker, next, p)
		s.mu.Unlock()
	}
	return err
}

// relay passes a request on to an actor of another task.
func (s *Cast) relay(ctx context.Context, r *Request, to Ref, message proto.Message, size int) error {
	p, asker := r.life.performer, r.asker
	s.mu.Lock()
	if s.stopped || !s.giveLocked(asker, p, nil) { // the request has ended, or will with its actor
		s.mu.Unlock()
		return nil
	}
	name := s.registerLocked(&ask{task: to.Task, asking: asking{to: to.Name, kind: messageType(message), began: time.Now(), forwards: asker}, tell: func(answer content, err error) { s.relayed(asker, answer, err) }})
	s.relays[asker] = relay{name, to.Task}
	s.mu.Unlock()
	err := s.postTo(ctx, Ref{s.config.Self, name}, to, message, size, true)
	if err != nil && s.drop(name) { // otherwise the loss of the task has answered it
		s.mu.Lock()
		if _, waits := s.relays[asker]; waits {
			delete(s.relays, asker)
			s.expectLocked(p, asker)
		}
		s.mu.Unlock()
		return err
	}
	return nil
}

// relayed passes the answer of a relay to the requester. It does not block.
func (s *Cast) relayed(asker Ref, answer content, err error) {
	s.mu.Lock()
	_, waits := s.relays[asker]
	delete(s.relays, asker)
	s.mu.Unlock()
	switch {
	case !waits:
		return
	case err != nil:
		s.answer(asker, begun(err)) // the actor that has forwarded it has begun it
		return
	case asker.Task == s.config.Self:
		s.settle(asker.Name, answer, nil)
		return
	}
	s.answerBy(asker.Task, func(ctx context.Context) error {
		message, err := answer.open()
		if err != nil {
			s.answer(asker, err)
			return nil
		}
		return s.postTo(ctx, Ref{}, asker, message, 0, true)
	})
}
