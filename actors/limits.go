package actors

import (
	"context"
	"runtime"

	"github.com/troupe-run/troupe/graph/status"
)

// What clients may make a task keep, each with RESOURCE_EXHAUSTED beyond. Graphs have limits of their own: see
// graph.MaxNodes. The plans of a session need none: the one that was used the longest ago makes room (maxPlans).
const (
	// maxSessions bounds the sessions that a task keeps something of: its clients' and other masters'.
	maxSessions = 1 << 14
	// maxCallables and maxPartials bound what a session's clients have prepared, and begun and not ended.
	maxCallables = 1 << 14
	maxPartials  = 1 << 12
	// maxSessionSteps and maxSteps bound the steps under way of a session, and of a task: those of its clients, and the
	// parts of steps that it shares with other tasks. maxChanges bounds a session's extensions and plans that wait for turns.
	maxSessionSteps = 1 << 14
	maxSteps        = 1 << 16
	maxChanges      = 1 << 14
)

func tooMany(what, of string, limit int, remedy string) error {
	return status.Errorf(status.ResourceExhausted, "%s has %d %s, its limit: %s", of, limit, what, remedy)
}

func tooManySteps(of string, limit int) error {
	return tooMany("steps under way", of, limit, "wait for some to end, or close sessions whose steps wait in vain")
}

func (t *Task) tooManySessions() error {
	return tooMany("sessions", t.name, maxSessions, "close those that are not used any more")
}

// heavyNodes is the number of a graph's nodes from which work on it is heavy.
const heavyNodes = 1 << 14

// heavyWork is the process's turns for heavy work on graphs: half of the processors, so that steps go on beside it.
var heavyWork = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// inTurn does work on a graph of so many nodes. Where that is heavy it waits for a turn first, or for the end of ctx.
func inTurn(ctx context.Context, nodes int, work func() error) error {
	if nodes < heavyNodes {
		return work()
	}
	select {
	case heavyWork <- struct{}{}:
	case <-ctx.Done():
		return status.From(ctx.Err())
	}
	defer func() { <-heavyWork }()
	return work()
}
