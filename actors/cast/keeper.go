package cast

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/internal/placement"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// A pool is an actor whose workers live on several tasks and end with it. Each worker is the child of a keeper, an actor of the runtime on the
// worker's task, which watches the pool's anchor. The anchor is a child of the pool: it ends whenever the pool ends, restarts, or its task is
// lost, and then the keepers end with their workers, even if the pool could not ask them to.

// keeperKind is the kind of keepers and anchors, on each task.
const keeperKind = "troupe.pool"

// makeKeeper makes a keeper with its worker, or, without arguments, an anchor.
func makeKeeper(c *Context, given proto.Message) (Actor, error) {
	q, ok := given.(*wire.PoolWorker)
	if !ok {
		return keeper{}, nil
	}
	of, err := arguments(q.GetArguments())
	if err != nil {
		return nil, err
	}
	worker, err := c.Spawn(q.GetKind(), q.GetWorker(), of)
	if err != nil {
		return nil, err
	}
	anchor := Ref{q.GetTask(), q.GetName()}
	if err := c.Watch(worker, worker); err != nil {
		return nil, err
	}
	return keeper{}, c.Watch(anchor, anchor)
}

type keeper struct{}

// Receive ends the keeper with its worker, and with the pool.
func (keeper) Receive(c *Context, message any) {
	if _, ended := message.(Ended); ended {
		c.Stop()
	}
}

func (keeper) Close() error { return nil }

// Anchor returns a child of the actor that SpawnWorker needs.
func (c *Context) Anchor() (Ref, error) { return c.Spawn(keeperKind, "", nil) }

// Spawned is the result of SpawnWorker.
type Spawned struct {
	Tag any
	Err error
}

// SpawnWorker makes an actor that ends with the anchor, and does not wait: the actor receives a Spawned with the tag, after timeout at the latest. A
// worker that an earlier call has left under this name, because its answer was lost, is ended first.
func (c *Context) SpawnWorker(kind string, at, anchor Ref, arguments proto.Message, timeout time.Duration, tag any) {
	s, keeper := c.Cast(), Ref{at.Task, at.Name + ".keeper"}
	c.inBackground(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		given, err := enclose(arguments)
		if err != nil {
			return Spawned{tag, err}
		}
		q := &wire.PoolWorker{Task: anchor.Task, Name: anchor.Name, Kind: kind, Worker: at.Name, Arguments: given}
		_, err = s.Spawn(ctx, keeperKind, keeper, q)
		if status.CodeOf(err) == status.AlreadyExists {
			if err := s.End(ctx, keeper); err != nil && status.CodeOf(err) != status.NotFound {
				return Spawned{tag, err}
			}
			_, err = s.Spawn(ctx, keeperKind, keeper, q)
		}
		return Spawned{tag, err}
	})
}

// EndWorker ends a worker after the messages that wait for it, and does not wait. If that fails, the worker ends with the anchor.
func (c *Context) EndWorker(at Ref, timeout time.Duration) {
	s := c.Cast()
	c.inBackground(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := s.End(ctx, at); err != nil && status.CodeOf(err) != status.NotFound {
			s.log.Warn("a worker of a pool could not be ended", "worker", at.Name, "task", at.Task, "error", err)
		}
		return nil
	})
}

// inBackground runs f on a goroutine of its own, and sends the actor what it returns, unless that is nil. Its context ends with the life of the actor.
func (c *Context) inBackground(f func(ctx context.Context) any) {
	l, s := c.life, c.Cast()
	from := &source{life: l}
	l.hold(from, func() {})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return // and so is the actor, soon
	}
	s.work.Go(contain.Func(s.log, "A request of an actor", func() {
		if result := f(l.ctx()); result != nil {
			from.send(result, true)
			return
		}
		from.end()
	}, nil))
}

// Pass sends a message that has no sender. If wait is set, it waits for room in the other actor's queue. It does not wait for a link to another
// task: UNAVAILABLE.
func (c *Context) Pass(to Ref, message proto.Message, wait bool) error {
	l, s := c.life, c.Cast()
	if to.Task != s.config.Self && (l.unsentTo(to.Task) != nil || !s.lane(to.Task).linked()) {
		return status.Errorf(status.Unavailable, "There is no link to %s now", to.Task)
	}
	return s.send(c.ctx(), Ref{}, to, message, wait)
}

// Discard logs and counts a message without a requester that the actor gives up.
func (c *Context) Discard(why error) { c.Cast().refuse(c.life.performer.ref(), Ref{}, why) }

// Owners computes which of its members a key belongs to: if one goes, only what belonged to it moves.
type Owners = placement.Owners

// NewOwners returns the Owners of some members.
func NewOwners(members []string) Owners { return placement.NewOwners(members) }

// Log returns the log of the task.
func (c *Context) Log() *slog.Logger { return c.Cast().log }
