// Package bare has the roles of a task without devices, which hosts the actors of a program alone. The other tasks of its cluster send them what they
// send to each task: there is nothing to run, to look up, to empty or to hand over, and the roles say so at once.
package bare

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/internal/questions"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
)

// Peer is another task that is reached.
type Peer = questions.Peer

// Reachable reports whether other tasks may send to a role by its name.
func Reachable(name string) bool { return questions.Reachable(name) }

// Config describes a task without devices.
type Config struct {
	System *actor.ActorSystem
	Name   string // of the task
	Boot   uint64
	// Reach returns another task. It waits within ctx for one that was never seen.
	Reach  func(ctx context.Context, task string) (Peer, error)
	Events *view.Events
	// Complete adds to the state of the task what the network knows of it.
	Complete func(q *view.Query, t *view.Task)
	// End, if set, makes the program end the task. It does not block.
	End func(within time.Duration)
	Log *slog.Logger
}

// Task has the roles of a task without devices. Its methods may be called concurrently.
type Task struct {
	questions.Asker
	config Config
	pool   *roles.Pool
	roles  []*roles.Ref
}

// Start spawns the roles.
func Start(c Config) (*Task, error) {
	t := &Task{Asker: questions.New(c.System, c.Name, c.Reach), config: c, pool: roles.NewPool()}
	for _, spec := range []roles.Spec{
		{Name: questions.Master, Kind: "master", Receive: t.master},
		{Name: questions.Directory, Kind: "directory", Receive: t.directory},
		{Name: questions.Worker, Kind: "worker", Receive: t.worker},
	} {
		spec.Dispatcher, spec.Log = t.pool, c.Log
		r, err := roles.Spawn(c.System, spec)
		if err != nil {
			return nil, err
		}
		t.roles = append(t.roles, r)
	}
	return t, nil
}

// Stop ends the roles once they have answered what came before, at most until ctx ends.
func (t *Task) Stop(ctx context.Context) error {
	for _, r := range t.roles {
		r.Handled(ctx)
		r.Stop()
	}
	if !t.pool.Close(ctx) {
		return status.Errorf(status.DeadlineExceeded, "The roles of %s did not end in time", t.config.Name)
	}
	return nil
}

// without is the error of what needs devices.
func (t *Task) without() *wire.Failure {
	return wire.FailureOf(status.Errorf(status.Unavailable, "%s has no devices: its program hosts actors alone", t.config.Name))
}

// master answers what other tasks ask of a master: it has no sessions, and no steps.
func (t *Task) master(c actor.Context) {
	if c.Sender() == nil {
		return
	}
	switch m := c.Message().(type) {
	case *wire.CancelStep:
		c.Respond(&wire.StepCancelled{})
	case *wire.Drain:
		c.Respond(&wire.Done{Failure: wire.FailureOf(questions.End(m, t.config.Name, t.config.End, t.config.Events, t.config.Log))})
	}
}

// directory answers what other tasks ask of a directory: it knows no homes, and decides none. A task that asks learns from the link that this one
// has no devices, and asks another one.
func (t *Task) directory(c actor.Context) {
	if c.Sender() == nil {
		return
	}
	switch c.Message().(type) {
	case *wire.Claim:
		c.Respond(&wire.Homes{Failure: t.without()})
	case *wire.Known:
		c.Respond(&wire.Homes{})
	case *wire.Leaves, *wire.Left, *wire.Forget:
		c.Respond(&wire.Done{})
	}
}

// worker answers what other tasks ask of a worker: its containers are empty, and parts of steps are refused.
func (t *Task) worker(c actor.Context) {
	sender := c.Sender()
	switch m := c.Message().(type) {
	case *wire.Parcel:
		m.Release()
		if p, ok := m.Message.(*wire.RunPartition); ok && sender != nil {
			c.Respond(&wire.Parcel{Message: &wire.PartitionDone{Step: p.Step, Task: t.config.Name, Failure: t.without()}})
		}
	case *wire.Adopt:
		if sender != nil {
			c.Respond(&wire.Homes{Failure: t.without()})
		}
	case *wire.ClearContainers:
		if sender != nil {
			c.Respond(&wire.Done{})
		}
	case *view.GraphQuery:
		if sender != nil {
			c.Respond(t.Graph(m))
		}
	case *view.TraceQuery:
		if sender != nil {
			c.Respond(&view.TaskTrace{Task: t.config.Name, Clock: time.Now().UnixNano()})
		}
	case *view.Query:
		if sender != nil {
			t.pool.Schedule(func() { t.config.System.Root.Send(sender, t.See(m)) }) // it looks at all actors of the program
		}
	}
}

// Name returns the task's name.
func (t *Task) Name() string { return t.config.Name }

// See returns the state of the task.
func (t *Task) See(q *view.Query) *view.Task {
	out := &view.Task{Task: t.config.Name, Process: &view.Process{Boot: strconv.FormatUint(t.config.Boot, 16), Clock: time.Now().UnixNano()},
		Totals: &view.Totals{StepsFailed: map[string]int64{}}, Omitted: map[string]int64{}}
	if s := q.GetSections(); len(s) == 0 || slices.Contains(s, "events") {
		limit := int(q.GetLimit())
		if limit <= 0 || limit > view.MostListed {
			limit = view.MostListed
		}
		events, others := t.config.Events.After(q.GetEventsAfter(), limit)
		if out.Events = events; others > 0 {
			out.Omitted["events"] = int64(others)
		}
	}
	t.config.Complete(q, out)
	return out
}

// Graph tells that the task has no session.
func (t *Task) Graph(q *view.GraphQuery) *view.Graph { return &view.Graph{Session: q.GetSession()} }
