package node

import (
	"cmp"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
)

// ActorOption is an option of WithActor.
type ActorOption interface{ apply(*actorKind) error }

// actorKind is what a server knows of a kind of the program's actors.
type actorKind struct {
	create  ActorMaker
	restart *cast.Restart
	decide  func(cast.Failure) cast.Decision
	virtual *cast.Virtual
}

// Restart is the option of WithActor that makes actors of the kind restart after a failure: a panic in Receive, or ActorContext.Crash.
//
//	node.WithActor("sum", newSum, node.Restart{Most: 5, Within: time.Minute})
//
// An actor that restarts is closed, if it is an io.Closer, and made afresh by its ActorMaker, with the arguments that it was spawned with. It
// keeps its name, its watchers, who learn nothing of it, and the messages that wait for it. The message that it failed with is dropped, and
// its Ask gets the error, as do all requests that the actor has kept. Its timers, watches, asks and children end, and its Context. If the
// ActorMaker fails when the actor restarts, that is a further failure. Its first failure, in Spawn, never leads to a restart.
//
// After more than Most failures Within a time, the actor ends as it does without the option; see OnFailure for other decisions. Restarts are logged and counted by kind
// (troupe_actor_restarts_total).
type Restart struct {
	// Most is how many restarts an actor may have Within a time. 0 means 5, and within a minute.
	Most   int
	Within time.Duration
	// Backoff is the wait before a restart. It doubles with each earlier restart Within the time, up to MaxBackoff. 0 means 100 ms, and for
	// MaxBackoff 10 s, or Backoff if that is longer.
	Backoff, MaxBackoff time.Duration
}

func (r Restart) apply(k *actorKind) error {
	if r.Most < 0 || r.Within < 0 || r.Backoff < 0 || r.MaxBackoff < 0 {
		return status.InvalidArgumentf("no field of the option Restart may be negative: %+v", r)
	}
	c := cast.Restart{Most: cmp.Or(r.Most, 5), Within: cmp.Or(r.Within, time.Minute), Backoff: cmp.Or(r.Backoff, 100*time.Millisecond)}
	c.MaxBackoff = cmp.Or(r.MaxBackoff, max(c.Backoff, 10*time.Second))
	k.restart = &c
	return nil
}
