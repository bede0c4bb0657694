package cast

import (
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// Failure is a failure of an actor, as its kind decides about it.
type Failure struct {
	Actor Ref
	Kind  string
	Err   error
	// Message is what the actor was handling; nil if it failed to restart, or with a child.
	Message any
	// Child is the actor whose failure was escalated to this one; otherwise the zero Ref.
	Child Ref
	// Restarts is how many restarts Restart counts at this time. Last is set if it allows no other one.
	Restarts int
	Last     bool
}

// Decision is what follows a failure.
type Decision int

// Decisions. An actor restarts only if its kind's Restart allows it, and ends otherwise.
const (
	RestartActor Decision = iota
	End
	Escalate // the actor ends, and its parent fails
)

// decide decides what follows a failure, the rest of which it fills in.
func (p *performer) decide(f Failure) (recent []time.Time, wait time.Duration, d Decision) {
	ok := false
	if p.kind.Restart != nil {
		recent, wait, ok = p.kind.Restart.next(p.needRare().failures, time.Now())
	}
	f.Actor, f.Kind, f.Last, f.Restarts = p.life.context.Self(), p.kind.name, !ok, len(recent)
	if ok {
		f.Restarts-- // without the one that may follow
	}
	if p.kind.Decide != nil {
		if crash := p.guard(func() { d = p.kind.Decide(f) }); crash != nil {
			d = End
		}
	}
	if d != RestartActor {
		return nil, 0, d
	}
	if ok {
		return recent, wait, RestartActor
	}
	if p.kind.Restart != nil {
		p.cast.log.Error("an actor of the program failed again and ends: it was restarted too often", "actor", p.name, "kind", p.kind.name, "restarts", len(recent),
			"within", p.kind.Restart.Within, "error", f.Err)
	}
	return nil, 0, End
}

// escalation notifies an actor of a child's failure that is its own, too.
type escalation struct {
	to    *life
	child Ref
	err   error
}

// escalate makes the actor's parent fail in its turn. An actor without a parent just ends.
func (p *performer) escalate(why error) {
	p.cast.log.Error("an actor of the program failed, and its failure is escalated", "actor", p.name, "kind", p.kind.name, "error", why)
	if p.parent != nil {
		p.parent.performer.tell(&escalation{p.parent, p.ref(), why})
	}
}

// failure returns the parent's failure. It has the code of the child's.
func (e *escalation) failure() Failure {
	p, why := e.to.performer, status.From(e.err)
	return Failure{Child: e.child, Err: status.Errorf(why.Code, "The child %s of the actor %s on %s failed: %s", e.child.Name, p.name, p.cast.config.Self, why.Message)}
}
