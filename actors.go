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

// Bounds of the program's own actors. What goes beyond them is RESOURCE_EXHAUSTED, for the sender where
// that is on the same task or asks.
const (
	// MaxActorMessage is how many bytes a message may take, encoded.
	MaxActorMessage = cast.MaxMessage
	// MaxActorQueue is how many messages may wait for an actor, MaxActorQueueBytes how many bytes of them.
	MaxActorQueue      = cast.MaxQueued
	MaxActorQueueBytes = cast.MaxQueuedBytes
	// MaxActors is how many actors a task may have.
	MaxActors = cast.MaxActors
)

// Actor is an actor of the program's own, which lives beside the runtime's masters and workers on a task
// of the cluster. It has a name there, and messages of the program's own protocol buffers reach it from
// all tasks:
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
// The programs of all tasks that shall have actors of the kind give their servers that option: code does
// not travel. Then Server.Spawn makes one on any of them, Server.Send and Ask reach it.
//
// What holds:
//   - A message arrives once or never. Messages from one sender to one actor arrive in the order in which
//     they were sent. What is on its way when a link breaks or a task ends is lost, and what waits for an
//     actor is lost when that ends. Ask tells of all that: its answer, or an error, comes in any case.
//   - An actor handles one message at a time. It may wait in Receive, for others it then waits too; where
//     too much waits for it, further messages are refused, as the bounds tell.
//   - A panic in Receive ends that actor alone. Its state is gone; who watches it, or has asked it
//     something, is told.
//   - A watcher is told once of the end of an actor, or that its task is out of reach, after which the
//     actor may live on.
type Actor interface {
	// Receive handles a message: a proto.Message that was sent, an ActorEnded of an actor that it watches,
	// or a TaskStatus after ActorContext.WatchTasks. A message that was sent is the receiver's to read, but
	// not to change: where the sender is on the same task it is the same value. An actor that is an
	// io.Closer too is closed after its last message, also after a panic.
	Receive(c *ActorContext, message any)
}

// ActorFunc is an Actor that is a function.
type ActorFunc func(c *ActorContext, message any)

// Receive calls f.
func (f ActorFunc) Receive(c *ActorContext, message any) { f(c, message) }

// ActorMaker makes an actor for the arguments of Server.Spawn, which may be nil. It runs as the actor
// does, and may send and watch already.
type ActorMaker func(c *ActorContext, arguments proto.Message) (Actor, error)

// WithActor lets actors of a kind be made on the server, from any task of the cluster. A second option of
// the same kind replaces the first.
func WithActor(kind string, create ActorMaker) Option {
	return option("WithActor", func(o *options) {
		if o.actors == nil {
			o.actors = map[string]ActorMaker{}
		}
		o.actors[kind] = create
	})
}

// ActorRef addresses an actor by its task, such as /job:worker/task:1, and its name there. It is a plain
// value: it may be made by hand, compared, and sent as text. A name is given anew only after the actor
// that had it has ended; then it leads to the new one.
//
// With WithOutsiders the task may also be the host:port of a process outside the cluster that speaks protoactor-go's
// remote protocol, and the name that of an actor there.
type ActorRef struct{ Task, Name string }

// actorPart is what stands between the task and the name in the text of a reference.
const actorPart = "/actor:"

// String is the reference as text, such as /job:worker/replica:0/task:1/actor:counter.
func (r ActorRef) String() string { return r.Task + actorPart + r.Name }

// ParseActorRef reads what String wrote.
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

// ActorEnded tells of an actor's end. Err is nil where it was ended on purpose, or ended itself. Else it
// tells of the panic (INTERNAL), that its task was lost (UNAVAILABLE) or stops (CANCELLED), or that there
// was no such actor (NOT_FOUND).
type ActorEnded struct {
	Actor ActorRef
	Err   error
}

// Spawn makes an actor of a kind at a task and under a name, and waits until it is there. Without a task
// it is the server's own, without a name the actor gets one that no other has. arguments, which may be
// nil, are for the kind's ActorMaker, whose error is that of Spawn. Other errors: ALREADY_EXISTS when the
// name is taken, NOT_FOUND when the program of that task has no such kind, UNAVAILABLE when the task
// cannot be reached. After UNAVAILABLE or the end of ctx the actor may be there or not: spawn it again,
// and ALREADY_EXISTS tells.
func (s *Server) Spawn(ctx context.Context, kind string, at ActorRef, arguments proto.Message) (ActorRef, error) {
	c, ref, err := s.stage(at)
	if err != nil {
		return ActorRef{}, err
	}
	ref, err = c.Spawn(ctx, kind, ref, arguments)
	return ActorRef(ref), err
}

// EndActor lets an actor handle the messages that wait for it, ends it, and waits until it has ended.
// NOT_FOUND when there is none.
func (s *Server) EndActor(ctx context.Context, ref ActorRef) error {
	c, to, err := s.stage(ref)
	if err != nil {
		return err
	}
	return c.End(ctx, to)
}

// Send sends a message to an actor; nobody is named as its sender. While too much waits for the actor Send
// waits, until ctx ends. No error means that the message is on its way: as long as the link to the actor's task
// holds it arrives, if the actor is there. For an actor of this task NOT_FOUND tells that it is not; another
// task logs it.
func (s *Server) Send(ctx context.Context, to ActorRef, message proto.Message) error {
	c, ref, err := s.stage(to)
	if err != nil {
		return err
	}
	return c.Send(ctx, cast.Ref{}, ref, message)
}

// TrySend is Send that does not wait for room: RESOURCE_EXHAUSTED where too much waits for the actor. It waits
// only for a link to the actor's task, until ctx ends.
func (s *Server) TrySend(ctx context.Context, to ActorRef, message proto.Message) error {
	c, ref, err := s.stage(to)
	if err != nil {
		return err
	}
	return c.TrySend(ctx, cast.Ref{}, ref, message)
}

// Ask sends a message to an actor and waits for its answer: what it sends to the message's sender. It
// waits until ctx ends, the actor ends or its task is lost. The error may be the actor's own (see
// ActorContext.Fail), or INVALID_ARGUMENT where the answer is of another type. An actor that asks itself
// waits for ever.
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

// WatchActor gives a channel that tells once of an actor's end, and is closed then; what ends the actor
// after WatchActor has returned is told as it is. When ctx ends the channel is closed without that. ActorContext.Watch does the same for actors.
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

// WatchTasks tells of the cluster's tasks as they come and go: first of each that was seen up to now, its
// own among them, then of each that comes, goes, or is another process than before (TaskStatus.Boot). Who
// is slow misses what was meanwhile, but never how it is. It ends when ctx does or the server stops. What
// it tells comes by gossip: of a task that leaves at once, of one that crashed after some seconds.
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

// ActorContext is what an actor knows of itself and does. Its methods are for the actor's own goroutine,
// in its ActorMaker and in Receive, but for Self, Server and Context.
type ActorContext struct {
	context *cast.Context
	server  *Server
}

// Self is the actor's own address.
func (c *ActorContext) Self() ActorRef { return ActorRef(c.context.Self()) }

// Server is the server that the actor lives on.
func (c *ActorContext) Server() *Server { return c.server }

// Context ends when the actor ends or its server stops. An actor that waits must do so with it: a stop
// names those that do not return.
func (c *ActorContext) Context() context.Context { return c.context.Life() }

// Sender is who sent the message that is being handled: an actor, somebody who waits for an answer, or
// the zero ActorRef for nobody. An actor that answers later keeps it, and sends to it then.
func (c *ActorContext) Sender() ActorRef { return ActorRef(c.context.Sender()) }

// Send sends a message from this actor, as Server.Send does from nobody.
//
// An actor that waits here handles nothing meanwhile: two that send each other more than their queues take wait
// until one of them ends. Actors that may use TrySend. To itself an actor sends as with TrySend.
func (c *ActorContext) Send(to ActorRef, message proto.Message) error {
	ref, err := c.resolve(to)
	if err != nil {
		return err
	}
	return c.context.Send(ref, message)
}

// TrySend is Send that does not wait for room: RESOURCE_EXHAUSTED where there is none.
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

// Reply sends a message to the sender of the one that is being handled. FAILED_PRECONDITION where that is
// nobody.
func (c *ActorContext) Reply(message proto.Message) error { return c.context.Reply(message) }

// Fail answers who asked with an error, whose code it gets too. FAILED_PRECONDITION where nobody asked.
func (c *ActorContext) Fail(err error) error { return c.context.Fail(err) }

// Watch lets the actor get an ActorEnded when another one ends, at once if there is none.
func (c *ActorContext) Watch(ref ActorRef) error {
	to, err := ref.resolve()
	if err != nil {
		return err
	}
	return c.context.Watch(to)
}

// WatchTasks lets the actor get a TaskStatus of each task, as Server.WatchTasks tells them.
func (c *ActorContext) WatchTasks() { c.context.WatchTasks() }

// Stop ends the actor after the message that is being handled. What waits for it is lost.
func (c *ActorContext) Stop() { c.context.Stop() }
