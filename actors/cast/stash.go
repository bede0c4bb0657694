package cast

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
)

// stash has the messages that an actor has put aside, and those that it has taken back and handles before its queue. They count as waiting. The
// actor's goroutine owns it.
type stash struct {
	aside, again []stashed // in the order in which they arrived
	bytes        int       // of both
}

// stashed is a message that was put aside. It is decoded.
type stashed struct {
	message any
	sender  Ref
	size    int
	notice  bool // it is of one of the actor's own sources, and ends with its life
	trace   *Trace
}

// Stash puts the message that is being handled aside, until Unstash is called. A request stays unanswered. The error is RESOURCE_EXHAUSTED if the actor has put
// as much aside as may wait for it, and FAILED_PRECONDITION if there is no message, or its request has been answered or kept.
func (c *Context) Stash() error {
	p := c.life.performer
	if p.handling != c || p.aside {
		return status.New(status.FailedPrecondition, "no message is being handled that could be stashed: it has been stashed already, or Receive has returned")
	}
	rare := p.needRare()
	if rare.stash == nil {
		rare.stash = &stash{}
	}
	s := rare.stash
	if n := len(s.aside) + len(s.again); n >= MaxQueued || s.bytes+int(p.size) > MaxQueuedBytes {
		return status.Errorf(status.ResourceExhausted, "the actor %s has stashed %d messages of %d bytes, and the limits are %d and %d", p.name, n, s.bytes, MaxQueued, MaxQueuedBytes)
	}
	if waiting := p.cast.bytes.Load(); waiting+int64(p.size)+Overhead > MaxBytes {
		return status.Errorf(status.ResourceExhausted, "%d bytes of messages wait for the actors of %s, and the limit is %d", waiting, p.cast.config.Self, MaxBytes)
	}
	if r := c.request(); r != nil && !r.state.CompareAndSwap(unanswered, putAside) {
		return status.New(status.FailedPrecondition, "a request that has been answered, kept or forwarded cannot be stashed")
	}
	m := stashed{message: p.message, sender: c.sender(), size: int(p.size), notice: p.notice}
	if c.from != nil && c.from.traced != nil {
		m.trace = c.from.traced.of
	}
	s.aside = append(s.aside, m)
	p.aside = true
	p.stashes(m, 1)
	return nil
}

// Unstash makes the actor handle all messages that it has put aside next, in the order in which they arrived.
func (c *Context) Unstash() { c.life.performer.unstash() }

func (p *performer) unstash() {
	if s := p.stashed(); s != nil {
		s.again = append(s.aside, s.again...)
		s.aside = nil
	}
}

// stashes counts a message that is put aside (n is 1) or handled again (-1).
func (p *performer) stashes(m stashed, n int) {
	p.stashed().bytes += n * m.size
	p.cast.bytes.Add(int64(n * (m.size + Overhead + m.trace.bytes())))
	if !m.notice {
		p.ahead.Add(int32(n))
		p.begun.Add(uint64(-n)) // wraps
	}
}

// repeats reports whether the actor handles a message that it has taken back next.
func (p *performer) repeats() bool {
	s := p.stashed()
	return s != nil && len(s.again) > 0
}

// stashed returns the actor's stash; nil if it is empty.
func (p *performer) stashed() *stash {
	if r := p.rare.Load(); r != nil {
		return r.stash
	}
	return nil
}

// repeat handles it.
func (p *performer) repeat() (over bool, why error) {
	s := p.stashed()
	m := s.again[0]
	s.again[0] = stashed{}
	s.again = s.again[1:]
	p.stashes(m, -1)
	p.size, p.notice = int32(m.size), m.notice
	over, why = p.perform(m.message, m.sender, m.trace)
	if len(s.again)+len(s.aside) == 0 {
		p.needRare().stash = nil
	}
	return over, why
}

// restash lets the next life of the actor handle the messages that this one has put aside. Notices end with this one.
func (p *performer) restash() {
	s := p.stashed()
	if s == nil {
		return
	}
	p.unstash()
	for _, m := range s.again {
		if m.notice {
			p.stashes(m, -1)
		}
	}
	s.again = slices.DeleteFunc(s.again, func(m stashed) bool { return m.notice })
	if len(s.again) == 0 {
		p.needRare().stash = nil
	}
}

// discardStash returns the messages of an actor that has ended, as if they had waited in its queue.
func (p *performer) discardStash() (left []item) {
	s := p.stashed()
	if s == nil {
		return nil
	}
	p.unstash()
	for _, m := range s.again {
		p.stashes(m, -1)
		if !m.notice {
			left = append(left, item{sender: m.sender})
		}
	}
	p.needRare().stash = nil
	return left
}
