package actors

import (
	"context"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/processors"
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

// heavyNodes is the number of a graph's nodes from which work on it takes turns with other clients' steps.
const heavyNodes = 1 << 14

// inTurn does work on a graph of so many nodes. The work calls check now and then, which waits while others have their
// turn on the processors, and fails when ctx has ended.
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
