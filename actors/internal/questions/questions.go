// Package questions asks the roles of tasks, and waits for their answers.
package questions

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// The names of a task's roles in its actor system. They are the only ones that other tasks may send to, but for those that wait for answers.
const (
	Master    = "master"
	Worker    = "worker"
	Directory = "directory"
)

// Reachable reports whether roles of other tasks may send messages to the actor with a name: the three roles that serve other tasks, and
// futures that wait for an answer.
func Reachable(name string) bool {
	switch name {
	case Master, Worker, Directory:
		return true
	}
	return strings.HasPrefix(name, "future$")
}

// Peer is another task that is reached.
type Peer interface {
	// Address is the network address of its actors.
	Address() string
	// OnDown calls f once when the link ends, at once if it has. f must not block.
	OnDown(f func(err error)) (cancel func())
}

// Asker is a task that asks. Its methods may be called concurrently.
type Asker struct {
	system *actor.ActorSystem
	self   string
	reach  func(ctx context.Context, task string) (Peer, error)
}

// New returns the asker of a task by its name. reach returns another task; it waits within its context for one that was never seen.
func New(system *actor.ActorSystem, self string, reach func(ctx context.Context, task string) (Peer, error)) Asker {
	return Asker{system, self, reach}
}

// Ask sends a request to a role of a task, which may be the asker's own, and waits for its answer until ctx ends, and at most for the time given. The
// error is UNAVAILABLE if the task is not reached, is lost meanwhile, or does not answer.
func Ask[A any](ctx context.Context, by Asker, task, role string, request any, wait time.Duration) (A, error) {
	var none A
	pid := actor.NewPID(by.system.Address(), role)
	var peer Peer
	if task != by.self {
		var err error
		if peer, err = by.reach(view.Await(ctx, fmt.Sprintf("a %T", request)), task); err != nil {
			return none, err
		}
		pid = actor.NewPID(peer.Address(), role)
	}
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	if wait <= 0 {
		return none, status.From(context.DeadlineExceeded)
	}
	future := by.system.Root.RequestFuture(pid, request, wait)
	if peer != nil {
		defer peer.OnDown(func(err error) { by.system.Root.Send(future.PID(), &unanswered{err}) })()
	}
	answer, err := future.Result()
	if err != nil {
		return none, status.Errorf(status.Unavailable, "%s did not answer a %T within %v: %v", task, request, wait.Round(time.Millisecond), err)
	}
	switch a := answer.(type) {
	case A:
		return a, nil
	case *unanswered:
		return none, status.From(a.err)
	}
	return none, status.Internalf("%s answered a %T with a %T", task, request, answer)
}

// unanswered takes the place of an answer when the link to the task that was asked has ended.
type unanswered struct{ err error }

// AnswerTime bounds the wait for an answer from a role that computes nothing.
const AnswerTime = 4 * time.Second

// Ask asks a worker for the state of its task, within ctx.
func (a Asker) Ask(ctx context.Context, task string, q *view.Query) (*view.Task, error) {
	return Ask[*view.Task](ctx, a, task, Worker, q, AnswerTime)
}

// AskGraph asks the worker of the query's task for a page of a session's graph, within ctx.
func (a Asker) AskGraph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error) {
	return Ask[*view.Graph](ctx, a, q.GetTask(), Worker, q, AnswerTime)
}

// AskTrace has a worker open, read or close a window of a trace, within ctx.
func (a Asker) AskTrace(ctx context.Context, task string, q *view.TraceQuery) (*view.TaskTrace, error) {
	return Ask[*view.TaskTrace](ctx, a, task, Worker, q, AnswerTime)
}

// CancelStep cancels a step whose master is the given task's, which must answer within ctx. by names the requester to the step's client. If
// owner is not empty, only that owner's steps are cancelled. known reports whether the master runs the step.
func (a Asker) CancelStep(ctx context.Context, task string, step uint64, by, owner string) (session string, known, cancelled bool, err error) {
	c, err := Ask[*wire.StepCancelled](ctx, a, task, Master, &wire.CancelStep{Step: step, By: by, Owner: owner}, AnswerTime)
	if err != nil {
		return "", false, false, err
	}
	return c.GetSession(), c.GetKnown(), c.GetCancelled(), nil
}

// Drain asks a task to end, which must acknowledge within ctx. Its running steps may continue for the time within or, if that is 0, for
// as long as the task's program decides; new ones are UNAVAILABLE. by names the requester in logs and events. A task that does not end on
// request returns FAILED_PRECONDITION.
func (a Asker) Drain(ctx context.Context, task string, within time.Duration, by string) error {
	done, err := Ask[*wire.Done](ctx, a, task, Master, &wire.Drain{By: by, Within: int64(within)}, AnswerTime)
	if err != nil {
		return err
	}
	return done.GetFailure().Err()
}

// End has the program of a task end it, for a message of Drain. end is nil if the task does not end on request.
func End(m *wire.Drain, task string, end func(within time.Duration), events *view.Events, log *slog.Logger) error {
	if end == nil {
		return status.Errorf(status.FailedPrecondition, "%s does not end when it is asked to: its program has other tasks, too, or was started without WithDrainRequests", task)
	}
	by := view.Line(m.GetBy())
	events.AddOf(by, "drain", "", "by "+by)
	log.Info("the task drains, as an operator asks", "by", by)
	end(time.Duration(m.GetWithin()))
	return nil
}
