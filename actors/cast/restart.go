package cast

import (
	"slices"
	"time"
)

// Restart is how actors of a kind restart after a failure. All fields are positive.
type Restart struct {
	// Most is how many restarts an actor may have Within a time. It ends with the next failure.
	Most   int
	Within time.Duration
	// Backoff is the wait before a restart. It doubles with each recent restart, up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
}

// next decides what follows a failure at now: a restart after wait, or, if ok is false, the actor's end. past has the times of the failures
// that the actor was restarted after, in order; recent is past after this decision.
func (r *Restart) next(past []time.Time, now time.Time) (recent []time.Time, wait time.Duration, ok bool) {
	recent = slices.DeleteFunc(slices.Clone(past), func(t time.Time) bool { return now.Sub(t) >= r.Within })
	if len(recent) >= r.Most {
		return recent, 0, false
	}
	wait = r.Backoff
	for range recent {
		if wait >= r.MaxBackoff/2 {
			wait = r.MaxBackoff
			break
		}
		wait *= 2
	}
	return append(recent, now), min(wait, r.MaxBackoff), true
}
