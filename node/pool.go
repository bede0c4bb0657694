package node

import (
	"cmp"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

// Pool is an actor that passes its messages on to workers: actors of another kind, on many tasks, which it makes, replaces and ends. Its Make is
// the ActorMaker of the pool's own kind:
//
//	resizer := node.WithActor("resizer", newResizer)
//	resizers := node.WithActor("resizers", node.Pool{Kind: "resizer", Job: "worker", Each: 4, Retries: 2}.Make)
//	…
//	pool, err := n.Spawn(ctx, "resizers", node.ActorAt("", "resizers"), nil)
//	…
//	small, err := node.Ask[*wrapperspb.BytesValue](ctx, n, pool, image)
//
// A pool is spawned, found, watched and ended like any other actor, may be virtual, and may be a child. The programs of the tasks that workers live on need the
// workers' kind only. The arguments that the pool is spawned with are those of each worker.
//
// The pool makes its workers when it begins, and when a task of the job comes up. It replaces workers that failed or that it lost, after a wait, but
// not those that ended on purpose. All workers end when the pool ends or restarts, and when its task is lost.
//
// A request (a message of Ask) goes to one worker, and its answer to the requester. A request that no worker can take yet waits in the pool. When its
// requester gives up or is lost, the context that the worker handles it with ends, and the worker gets another one. If its worker ends or fails
// or the worker's task is lost before the answer, the request fails with that error, or goes to another worker: see Retries. One that no worker had
// begun to handle goes to another one in any case. A worker's own answer with Fail is an answer. Other messages (those of Send) are passed on at most once, and without a sender. While the queue of the worker is full, the pool
// waits for room, and so do its senders when its own queue is full.
//
// Messages of one sender for one worker, such as those of one key, arrive in the order in which they were sent, and so do requests; a request that
// waits in the pool, or is retried, may be overtaken.
type Pool struct {
	// Kind is the kind of the workers.
	Kind string
	// Job is the job on whose tasks the workers live; empty for all tasks of the cluster.
	Job string
	// Each is how many workers each task has that is up. Total is how many workers all these tasks have together, in equal parts. One of the two
	// must be set. When tasks come or go, a pool with a Total makes and ends workers so that the parts stay equal; workers end after the requests that they have.
	Each, Total int
	// Route is how the pool chooses a worker.
	Route Route
	// Key, if it is set, chooses the worker instead of Route: messages of one key go to one worker. When workers come and go, few keys move to
	// another one. It runs in the pool, and must be fast.
	Key func(message any) string
	// Retries is how often a request goes to another worker, because the one that had it ended or failed or its task was lost. It may be set if a request does
	// no harm when several workers handle it.
	Retries int
	// InFlight is how many requests a worker has at a time; the others wait. 0 means 64.
	InFlight int
	// Waiting is how many messages may wait in the pool until a worker can take them, and WaitLimit how long each may. Beyond that, requests fail with
	// UNAVAILABLE if the pool has no workers that are up, and with RESOURCE_EXHAUSTED if all are busy; other messages are dropped and logged. 0 means 1024,
	// and 10 s. All requests of a pool together may have 64 MiB, and MaxActorAsks of them may be with workers.
	Waiting   int
	WaitLimit time.Duration
	// Timeout is how long a request may take from its arrival in the pool, after which it fails with DEADLINE_EXCEEDED. 0 means a minute.
	Timeout time.Duration
	// Backoff is the wait before a worker is replaced. It doubles with each time that this was necessary again soon, up to MaxBackoff. 0 means 100 ms, and for
	// MaxBackoff 10 s, or Backoff if that is longer.
	Backoff, MaxBackoff time.Duration
}

// Route is how a Pool chooses the worker for a message.
type Route int

const (
	// RoundRobin chooses the workers in turn.
	RoundRobin Route = iota
	// LeastLoaded chooses the worker with the fewest requests that it has not answered, and among several of these in turn.
	LeastLoaded
	// ToAll passes a message on to all workers that are up. An Ask fails with INVALID_ARGUMENT: it has one answer.
	ToAll
)

// Limits of pools.
const (
	maxPoolWorkers = 4096     // of Each and Total
	maxPoolBytes   = 64 << 20 // of the requests that a pool has
	poolSpawnLimit = time.Minute
)

// Make makes the pool. It is an ActorMaker. It returns INVALID_ARGUMENT for fields that are not valid.
func (p Pool) Make(c *ActorContext, arguments any) (Actor, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	given, err := cast.Enclose(arguments)
	if err != nil {
		return nil, err
	}
	p.InFlight, p.Waiting = cmp.Or(p.InFlight, 64), cmp.Or(p.Waiting, 1024)
	p.WaitLimit, p.Timeout = cmp.Or(p.WaitLimit, 10*time.Second), cmp.Or(p.Timeout, time.Minute)
	p.Backoff = cmp.Or(p.Backoff, 100*time.Millisecond)
	p.MaxBackoff = cmp.Or(p.MaxBackoff, max(p.Backoff, 10*time.Second))
	anchor, err := c.context.Anchor()
	if err != nil {
		return nil, err
	}
	c.WatchTasks()
	return &pool{Pool: p, arguments: given, anchor: anchor, name: c.Self().Name(), tasks: map[string]*poolTask{}, workers: map[ActorRef]*poolWorker{}}, nil
}

func (p Pool) check() error {
	switch {
	case p.Kind == "":
		return status.InvalidArgumentf("A Pool needs the Kind of its workers")
	case (p.Each > 0) == (p.Total > 0) || min(p.Each, p.Total) < 0 || max(p.Each, p.Total) > maxPoolWorkers:
		return status.InvalidArgumentf("One of Each and Total of a Pool must be from 1 to %d, and the other 0: they are %d and %d", maxPoolWorkers, p.Each, p.Total)
	case p.Route < RoundRobin || p.Route > ToAll:
		return status.InvalidArgumentf("The Route %d of a Pool is unknown", p.Route)
	case p.Key != nil && p.Route != RoundRobin:
		return status.InvalidArgumentf("A Pool has either a Key or a Route")
	case min(p.Retries, p.InFlight, p.Waiting) < 0 || min(p.WaitLimit, p.Timeout, p.Backoff, p.MaxBackoff) < 0:
		return status.InvalidArgumentf("No field of a Pool may be negative: Retries %d, InFlight %d, Waiting %d, WaitLimit %v, Timeout %v, Backoff %v, MaxBackoff %v",
			p.Retries, p.InFlight, p.Waiting, p.WaitLimit, p.Timeout, p.Backoff, p.MaxBackoff)
	}
	return nil
}

// pool is the actor of a Pool.
type pool struct {
	Pool
	arguments proto.Message // of each worker
	anchor    cast.Ref      // ends the workers when it ends
	name      string

	tasks   map[string]*poolTask     // that are up and of the job
	workers map[ActorRef]*poolWorker // of these tasks
	ready   []*poolWorker            // that are up and not leaving, by task and number
	keys    []string                 // of the ready workers, in their order
	owners  cast.Owners              // of the keys of messages
	next    int                      // where the next turn begins in ready

	waiting  []*poolRequest // for a worker, in the order of their arrival
	inFlight int            // requests with workers
	bytes    int            // of all requests
}

// Receive handles a message of a user of the pool, or something about its workers and tasks.
func (p *pool) Receive(c *ActorContext, message any) {
	switch m := message.(type) {
	case TaskStatus:
		p.taskChanged(c, m)
	case cast.Spawned:
		p.spawned(c, m)
	case ActorEnded:
		p.ended(c, m)
	case poolReplace:
		p.spawn(c, m.worker)
	case ActorAnswer:
		p.answered(c, m)
	case poolExpired:
		p.expired(c, m.request)
	case poolRetry:
		p.flush()
	default:
		p.accept(c, message)
	}
}
