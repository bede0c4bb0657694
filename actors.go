package troupe

import (
	"context"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// Bounds of a program's own actors. A message or actor beyond them is RESOURCE_EXHAUSTED; Send and Ask wait for
// room in a queue instead.
const (
	// MaxActorMessage is the most bytes of a message, encoded.
	MaxActorMessage = cast.MaxMessage
	// MaxActorQueue is the most messages that may wait for an actor, from its own task and from each other one,
	// and MaxActorQueueBytes the most bytes of them.
	MaxActorQueue      = cast.MaxQueued
	MaxActorQueueBytes = cast.MaxQueuedBytes
	// MaxActors is the most actors of a task.
	MaxActors = cast.MaxActors
)

// Actor is an actor of the program's own, which lives beside the runtime's masters and workers on a task of the
// cluster. It has a name there, and receives messages, which are the program's own protocol buffers, from all
// tasks:
//
//	counter := troupe.WithActor("counter", func(*troupe.ActorContext, proto.Message) (troupe.Actor, error) {
//		var total int64
//		return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
//			switch m := message.(type) {
//			case *wrapperspb.Int64Value:
//				total += m.Value
//				c.Reply(wrapperspb.Int64(total))
//			}
//		}), nil
//	})
//
// Code does not travel: each task that is to have actors of a kind needs this option in its own program.
// Server.Spawn then makes an actor on any of these tasks, and Server.Send and Ask reach it.
//
// Guarantees:
//   - A message arrives once or never. Messages from one sender to one actor arrive in the order in which
//     they were sent. Messages that are in flight when a link breaks or a task ends are lost, and so are messages that
//     wait for an actor when it ends. Ask reports all of these: it always returns the answer or an error.
//   - An actor handles one message at a time. It may block in Receive; its further messages then wait, and where
//     too many wait, so do their senders.
//   - A panic in Receive ends that actor alone. Its state is lost. Its watchers, and callers of Ask, are told.
//   - A watcher is told once that an actor ended, or that its task is out of reach, after which the
//     actor may live on.
type Actor interface {
	// Receive handles a message: a proto.Message that was sent, an ActorEnded of an actor that this one watches,
	// or a TaskStatus after ActorContext.WatchTasks. The receiver may read a message, but not change it: if the
	// sender is on the same task, it is the same value. An actor that is also an io.Closer is closed after its
	// last message, even after a panic.
	Receive(c *ActorContext, message any)
}

// ActorFunc is an Actor that is a function.
type ActorFunc func(c *ActorContext, message any)

// Receive calls f.
func (f ActorFunc) Receive(c *ActorContext, message any) { f(c, message) }

// ActorMaker makes an actor with the arguments of Server.Spawn, which may be nil. It runs on the actor's
// goroutine, and may already send and watch.
type ActorMaker func(c *ActorContext, arguments proto.Message) (Actor, error)

// WithActor registers a kind of actor on the server; all tasks of the cluster may then spawn actors of this
// kind there. A second option of the same kind replaces the first.
func WithActor(kind string, create ActorMaker) Option {
	return option("WithActor", func(o *options) {
		if o.actors == nil {
			o.actors = map[string]ActorMaker{}
		}
		o.actors[kind] = create
	})
}

// ActorRef addresses an actor by its task, such as /job:worker/task:1, and its name there. It is a plain value:
// it may be written by hand, compared, and sent as text. A name can be used again after its actor has ended;
// then it refers to the new one.
//
// With WithOutsiders, the task may also be the host:port of a process outside the cluster that speaks
// protoactor-go's remote protocol, and the name that of an actor there.
type ActorRef struct{ Task, Name string }

// actorPart is what stands between the task and the name in the text of a reference.
const actorPart = "/actor:"

// String is the reference as text, such as /job:worker/replica:0/task:1/actor:counter.
func (r ActorRef) String() string { return r.Task + actorPart + r.Name }

// ParseActorRef parses the text that String returns.
func ParseActorRef(text string) (ActorRef, error) {
	task, name, ok := strings.Cut(text, actorPart)
	if !ok || task == "" || name == "" {
		return ActorRef{}, status.InvalidArgumentf("%q does not address an actor, as /job:worker/replica:0/task:1/actor:counter does", text)
	}
	r, err := ActorRef{task, name}.resolve()
	return ActorRef(r), err
}

// resolve gives the task its full name; an empty one stays empty.
func (r ActorRef) resolve() (cast.Ref, error) {
	if r.Task == "" || cast.Outside(r.Task) {
		return cast.Ref(r), nil
	}
	job, index, err := spec.ParseTaskName(r.Task)
	return cast.Ref{Task: spec.TaskName(job, index), Name: r.Name}, err
}

// ActorEnded reports an actor's end. Err is nil if it was ended on purpose, or ended itself. Otherwise it says
// that the actor panicked (INTERNAL), that its task was lost (UNAVAILABLE) or stops (CANCELLED), or that there
// was no such actor (NOT_FOUND).
type ActorEnded struct {
	Actor ActorRef
	Err   error
}

// Spawn makes an actor of a kind on a task and under a name, and waits until it is there. An empty task is the
// server's own; with an empty name, the actor gets a unique one. arguments, which may be nil, are for the
// kind's ActorMaker, whose error Spawn returns. Other errors: ALREADY_EXISTS if the name is taken, NOT_FOUND if
// the program of that task has no such kind, UNAVAILABLE if the task cannot be reached. After UNAVAILABLE or
// the end of ctx, the actor may be there or not: a second Spawn returns ALREADY_EXISTS if it is.
func (s *Server) Spawn(ctx context.Context, kind string, at ActorRef, arguments proto.Message) (ActorRef, error) {
	c, ref, err := s.stage(at)
	if err != nil {
		return ActorRef{}, err
	}
	ref, err = c.Spawn(ctx, kind, ref, arguments)
	return ActorRef(ref), err
}

// EndActor lets an actor handle the messages that wait for it, ends it, and waits until it has ended. It is
// NOT_FOUND if there is none.
func (s *Server) EndActor(ctx context.Context, ref ActorRef) error {
	c, to, err := s.stage(ref)
	if err != nil {
		return err
	}
	return c.End(ctx, to)
}

// Send sends a message to an actor; the message has no sender. While too much waits for the actor, Send waits
// until ctx ends. No error means that the message is on its way: as long as the link to the actor's task holds,
// it arrives, if the actor is there. If there is no such actor, Send returns NOT_FOUND on the same task, and
// another task logs it.
func (s *Server) Send(ctx context.Context, to ActorRef, message proto.Message) error {
	c, ref, err := s.stage(to)
	if err != nil {
		return err
	}
	return c.Send(ctx, cast.Ref{}, ref, message)
}

// TrySend is Send that does not wait for room: it is RESOURCE_EXHAUSTED if too much waits for the actor. It
// only waits for a link to the actor's task, until ctx ends.
func (s *Server) TrySend(ctx context.Context, to ActorRef, message proto.Message) error {
	c, ref, err := s.stage(to)
	if err != nil {
		return err
	}
	return c.TrySend(ctx, cast.Ref{}, ref, message)
}

// Ask sends a message to an actor and waits for its answer, which is what the actor sends to the message's
// sender. It waits until ctx ends, the actor ends or its task is lost. The error may be the actor's own (see
// ActorContext.Fail), or INVALID_ARGUMENT if the answer has another type. An actor that asks itself waits until
// ctx ends.
func Ask[A proto.Message](ctx context.Context, s *Server, to ActorRef, message proto.Message) (A, error) {
	var none A
	c, ref, err := s.stage(to)
	if err != nil {
		return none, err
	}
	answer, err := c.Ask(ctx, ref, message)
	if err != nil {
		return none, err
	}
	a, ok := answer.(A)
	if !ok {
		return none, status.InvalidArgumentf("The actor %v answered with a %T, not a %T", to, answer, none)
	}
	return a, nil
}

// WatchActor returns a channel that reports an actor's end once and is then closed. The end of an actor after
// WatchActor has returned is never missed. When ctx ends, the channel is closed without a report.
// ActorContext.Watch does the same for actors.
func (s *Server) WatchActor(ctx context.Context, ref ActorRef) (<-chan ActorEnded, error) {
	c, to, err := s.stage(ref)
	if err != nil {
		return nil, err
	}
	ended := make(chan ActorEnded, 1)
	var once sync.Once
	finish := func(tell func()) {
		once.Do(func() {
			tell()
			close(ended)
		})
	}
	told, stop := context.WithCancel(ctx)
	set, cancel, err := c.Watch(to, func(e cast.Ended) {
		finish(func() { ended <- ActorEnded{ActorRef(e.Ref), e.Err} })
		stop()
	})
	if err != nil {
		stop()
		return nil, err
	}
	context.AfterFunc(told, func() {
		cancel()
		finish(func() {})
	})
	select {
	case <-set:
	case <-told.Done():
	}
	return ended, nil
}

// WatchTasks yields the state of the cluster's tasks: first of each task that has been seen, including its own,
// then of each that comes, goes, or is another process than before (TaskStatus.Boot). A slow reader misses
// intermediate states, but never the latest one. It ends when ctx ends or the server stops. The source is
// gossip: a task that leaves is reported at once, one that crashed after some seconds.
func (s *Server) WatchTasks(ctx context.Context) iter.Seq[TaskStatus] {
	return func(yield func(TaskStatus) bool) {
		node, err := s.running()
		if err != nil {
			return
		}
		changed := make(chan struct{}, 1)
		subscription := node.Cast().Subscribe(func(*cast.Subscription) { changed <- struct{}{} }) // at most one is not taken
		defer subscription.Cancel()
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-s.stopped:
				return
			}
			for _, t := range subscription.Take() {
				if ctx.Err() != nil || !yield(t.(TaskStatus)) {
					return
				}
			}
		}
	}
}

// stage gives what runs the program's actors, and checks a reference.
func (s *Server) stage(ref ActorRef) (*cast.Cast, cast.Ref, error) {
	node, err := s.running()
	if err != nil {
		return nil, cast.Ref{}, err
	}
	c := node.Cast()
	if ref.Task == "" || c.Knows(ref.Task) { // the full name, as references have it that the server gave
		return c, cast.Ref(ref), nil
	}
	to, err := ref.resolve()
	return c, to, err
}

// kinds are the program's makers as the runtime calls them.
func (s *Server) kinds(makers map[string]ActorMaker) map[string]cast.Make {
	all := map[string]cast.Make{}
	for kind, create := range makers {
		all[kind] = func(c *cast.Context, arguments proto.Message) (cast.Actor, error) {
			r := &role{context: ActorContext{c, s}}
			var err error
			if r.actor, err = create(&r.context, arguments); err != nil {
				return nil, err
			}
			if r.actor == nil {
				return nil, status.Internalf("The program made no actor of kind %q", kind)
			}
			return r, nil
		}
	}
	return all
}

// role is an actor of the program's as the runtime calls it.
type role struct {
	actor   Actor
	context ActorContext
}

func (r *role) Receive(_ *cast.Context, message any) {
	if e, ok := message.(cast.Ended); ok {
		message = ActorEnded{ActorRef(e.Ref), e.Err}
	}
	r.actor.Receive(&r.context, message)
}

func (r *role) Close() error {
	if c, ok := r.actor.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// ActorContext is an actor's view of itself and its server. Its methods may only be called on the actor's own
// goroutine, in its ActorMaker and in Receive, except for Self, Server and Context.
type ActorContext struct {
	context *cast.Context
	server  *Server
}

// Self is the actor's own address.
func (c *ActorContext) Self() ActorRef { return ActorRef(c.context.Self()) }

// Server is the server that the actor lives on.
func (c *ActorContext) Server() *Server { return c.server }

// Context ends when the actor ends or its server stops. An actor that waits must use it: the error of
// Server.Stop names actors that do not return.
func (c *ActorContext) Context() context.Context { return c.context.Life() }

// Sender is the sender of the message that is being handled: an actor, a caller of Ask, or the zero ActorRef if
// there is none. To answer later, keep it and send to it.
func (c *ActorContext) Sender() ActorRef { return ActorRef(c.context.Sender()) }

// Send is Server.Send with this actor as the sender.
//
// An actor that waits here handles nothing meanwhile: two actors that send each other more than their queues
// hold wait until one of them ends. Such actors should use TrySend. To itself, an actor sends as with TrySend.
func (c *ActorContext) Send(to ActorRef, message proto.Message) error {
	ref, err := c.resolve(to)
	if err != nil {
		return err
	}
	return c.context.Send(ref, message)
}

// TrySend is Send that does not wait for room: it is RESOURCE_EXHAUSTED if there is none.
func (c *ActorContext) TrySend(to ActorRef, message proto.Message) error {
	ref, err := c.resolve(to)
	if err != nil {
		return err
	}
	return c.context.TrySend(ref, message)
}

func (c *ActorContext) resolve(r ActorRef) (cast.Ref, error) {
	if c.context.Cast().Knows(r.Task) {
		return cast.Ref(r), nil
	}
	return r.resolve()
}

// Reply sends a message to the sender of the one that is being handled. It is FAILED_PRECONDITION if there is
// no sender.
func (c *ActorContext) Reply(message proto.Message) error { return c.context.Reply(message) }

// Fail answers a caller of Ask with an error, including its code. It is FAILED_PRECONDITION if the message was
// not asked.
func (c *ActorContext) Fail(err error) error { return c.context.Fail(err) }

// Watch sends the actor an ActorEnded when another one ends, at once if there is none.
func (c *ActorContext) Watch(ref ActorRef) error {
	to, err := ref.resolve()
	if err != nil {
		return err
	}
	return c.context.Watch(to)
}

// WatchTasks sends the actor a TaskStatus of each task, as Server.WatchTasks yields them.
func (c *ActorContext) WatchTasks() { c.context.WatchTasks() }

// Stop ends the actor after the message that is being handled. Messages that wait for it are lost.
func (c *ActorContext) Stop() { c.context.Stop() }
