package node

import (
	"fmt"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
)

// OnFailure is the option of WithActor that decides what follows a failure of an actor of the kind: a panic in Receive, ActorContext.Crash, an
// error of its ActorMaker when it restarts, or a failure of a child that was escalated to it. Without the option, the decision is always DecideRestart.
//
//	node.WithActor("reader", newReader, node.Restart{Most: 3}, node.OnFailure(func(f node.ActorFailure) node.ActorDecision {
//		if f.Last {
//			return node.DecideEscalate
//		}
//		return node.DecideRestart
//	}))
//
// It is called on the actor's goroutine, and is best a function of its argument alone, which a test can call. If it panics, or returns none of the decisions, the actor ends.
type OnFailure func(f ActorFailure) ActorDecision

// ActorFailure is a failure of an actor.
type ActorFailure struct {
	Actor ActorRef
	Kind  string
	// Err is the reason: INTERNAL for a panic, and otherwise with the code of the error.
	Err error
	// Message is what the actor was handling, as Receive gets it. It is nil if the actor failed to restart, or with a child.
	Message any
	// Child is the child whose failure was escalated, of which Err has the code and the text. It is the zero ActorRef for a failure of the actor itself.
	Child ActorRef
	// Restarts is how often the actor was restarted within the time of its Restart. Last is set if that allows no other restart: DecideRestart ends the actor.
	Restarts int
	Last     bool
}

// ActorDecision is what follows a failure of an actor.
type ActorDecision int

const (
	// DecideRestart restarts the actor as its Restart says. If that allows no other restart, or there is none, the actor ends.
	DecideRestart ActorDecision = iota
	// DecideEnd ends the actor. Its watchers get the error.
	DecideEnd
	// DecideEscalate ends the actor, and makes the actor fail that spawned it (ActorContext.Spawn), in its turn, behind the messages that wait for it. What
	// follows is the decision of that actor's kind; if it restarts or ends, so do all its children. An actor that was not spawned by another one, and a worker of a
	// pool, just ends.
	DecideEscalate
)

// String returns restart, end or escalate.
func (d ActorDecision) String() string {
	switch d {
	case DecideRestart:
		return "restart"
	case DecideEnd:
		return "end"
	case DecideEscalate:
		return "escalate"
	}
	return fmt.Sprintf("ActorDecision(%d)", int(d))
}

func (decide OnFailure) apply(k *actorKind) error {
	if decide == nil {
		return status.InvalidArgumentf("the option OnFailure must not be nil")
	}
	k.decide = func(f cast.Failure) cast.Decision {
		d := decide(ActorFailure{refOf(f.Actor), f.Kind, f.Err, noticeOf(f.Message), refOf(f.Child), f.Restarts, f.Last})
		switch d {
		case DecideRestart:
			return cast.RestartActor
		case DecideEnd:
			return cast.End
		case DecideEscalate:
			return cast.Escalate
		}
		panic(fmt.Sprintf("the option OnFailure of actors of kind %q returned %v", f.Kind, d))
	}
	return nil
}
