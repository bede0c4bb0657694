package actors

import (
	"context"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/processors"
)

// Limits on what clients may make a task keep; requests beyond them fail with RESOURCE_EXHAUSTED. Graphs have limits of their own: see
// graph.MaxNodes. The plans of a session need none: the least recently used one makes room (maxPlans).
const (
	// maxSessions bounds the sessions for which a task keeps state: those of its clients and of other masters. One client may have half of them.
	maxSessions = 1 << 14
	// maxCallables and maxPartials bound a session's prepared callables and unfinished partial runs.
	maxCallables = 1 << 14
	maxPartials  = 1 << 12
	// maxSessionSteps and maxSteps bound the steps in progress of a session and of a task; a task counts its clients' steps and its parts
	// of other masters' steps, and one client may have half of either. maxChanges bounds a session's pending extensions and plans.
	maxSessionSteps = 1 << 14
	maxSteps        = 1 << 16
	maxChanges      = 1 << 14
)

func tooMany(what, of string, limit int, remedy string) error {
	return status.Errorf(status.ResourceExhausted, "%s has %d %s, its limit: %s", of, limit, what, remedy)
}

// Steps under way and sessions, as tooMany names them.
const (
	stepsUnderWay     = "steps under way"
	insteadOfSteps    = "wait for some to end, or close sessions whose steps wait in vain"
	insteadOfSessions = "close those that are not used any more"
)

func tooManySteps(of string, limit int) error {
	return tooMany(stepsUnderWay, of, limit, insteadOfSteps)
}

// heavyNodes is the number of a graph's nodes from which work on it takes turns with other clients' steps.
const heavyNodes = 1 << 14

// inTurn does work on a graph of the given number of nodes. The work calls check periodically; check waits while others have their turn on
// the processors and fails when ctx has ended.
func (s *workerSession) inTurn(ctx context.Context, nodes int, work func(check func() error) error) error {
	if nodes < heavyNodes {
		return work(ctx.Err)
	}
	var w processors.Work
	w.Begin(s.processors)
	w.Enter()
	defer w.Leave()
	check := func() error {
		if err := w.WaitContext(ctx); err != nil {
			return status.From(err)
		}
		return ctx.Err()
	}
	if err := check(); err != nil {
		return err
	}
	return work(check)
}
