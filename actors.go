package troupe

import (
	"context"

	"github.com/troupe-run/troupe/node"
)

// The actors of a program are those of package node, which has all of this for programs without graphs, and the documentation. A server is a
// node, too.

// Limits of a program's own actors; see package node.
const (
	MaxActorMessage    = node.MaxActorMessage
	MaxActorQueue      = node.MaxActorQueue
	MaxActorQueueBytes = node.MaxActorQueueBytes
	MaxActors          = node.MaxActors
	MaxActorStash      = node.MaxActorStash
	MaxTopics          = node.MaxTopics
	MaxActorAsks       = node.MaxActorAsks
)

type (
	// Actor is an actor of the program's own. WithActor registers a kind of them; [node.Actor] says what is guaranteed.
	Actor = node.Actor
	// ActorFunc is a function that serves as an Actor.
	ActorFunc = node.ActorFunc
	// ActorMaker makes an actor with the arguments that it was spawned with.
	ActorMaker = node.ActorMaker
	// ActorContext is an actor's view of itself, its node and the message that it handles.
	ActorContext = node.ActorContext
	// ActorRef addresses an actor by its task and its name there.
	ActorRef = node.ActorRef
	// ActorRequest is a request that an actor has kept, to answer it later.
	ActorRequest = node.ActorRequest
	// ActorAnswer is the answer to ActorContext.Ask, as a message.
	ActorAnswer = node.ActorAnswer
	// ActorEnded reports an actor's end to those that watch it.
	ActorEnded = node.ActorEnded
	// Handler handles the messages of one type.
	Handler = node.Handler

	// ActorOption is an option of WithActor: Restart, OnFailure or Virtual.
	ActorOption = node.ActorOption
	// Restart makes actors of a kind restart after a failure.
	Restart = node.Restart
	// OnFailure decides what follows a failure.
	OnFailure = node.OnFailure
	// ActorFailure is a failure that OnFailure decides about.
	ActorFailure = node.ActorFailure
	// ActorDecision is what follows a failure.
	ActorDecision = node.ActorDecision
	// Virtual makes the actors of a kind virtual: each lives where its identity puts it, from its first message on.
	Virtual = node.Virtual

	// Pool is an actor that passes its messages on to workers on many tasks.
	Pool = node.Pool
	// Route is how a Pool chooses a worker.
	Route = node.Route

	// Place is where a program asks from: a Server, or a node.Node.
	Place = node.Place
)

// What follows a failure of an actor; see OnFailure.
const (
	DecideRestart  = node.DecideRestart
	DecideEnd      = node.DecideEnd
	DecideEscalate = node.DecideEscalate
)

// How a Pool chooses a worker.
const (
	RoundRobin  = node.RoundRobin
	LeastLoaded = node.LeastLoaded
	ToAll       = node.ToAll
)

// WithActor registers a kind of actor on the server; all tasks of the cluster may then spawn actors of this
// kind there. A second WithActor of the same kind replaces the first. Without options, actors end with their first failure;
// see Restart.
func WithActor(kind string, create ActorMaker, opts ...ActorOption) Option {
	return option("WithActor", func(o *options) {
		if err := o.kinds.Add(kind, create, opts...); err != nil && o.err == nil {
			o.err = err
		}
	})
}

// Ask sends a message to an actor and waits for its answer: see [node.Ask].
func Ask[A any](ctx context.Context, at Place, to ActorRef, message any) (A, error) {
	return node.Ask[A](ctx, at, to, message)
}

// RegisterMessage lets values of a program's own type be sent between tasks: see [node.RegisterMessage].
func RegisterMessage[T any](name string) string { return node.RegisterMessage[T](name) }

// ActorAt returns the reference to the actor of a task with a name: see [node.ActorAt].
func ActorAt(task, name string) ActorRef { return node.ActorAt(task, name) }

// ParseActorRef parses the text of ActorRef.String.
func ParseActorRef(text string) (ActorRef, error) { return node.ParseActorRef(text) }

// VirtualActor returns the reference to a virtual actor: see [node.VirtualActor].
func VirtualActor(kind, identity string) ActorRef { return node.VirtualActor(kind, identity) }

// Handlers returns an actor that handles each message by its type: see [node.Handlers].
func Handlers(handlers ...Handler) Actor { return node.Handlers(handlers...) }

// Stateless returns the maker of actors without state, which have the same handlers.
func Stateless(handlers ...Handler) ActorMaker { return node.Stateless(handlers...) }

// Handle returns the handler of the messages of a type.
func Handle[M any](handle func(c *ActorContext, message M)) Handler { return node.Handle(handle) }

// Answer returns the handler of the requests of a type, whose answer goes to the sender.
func Answer[M, A any](answer func(c *ActorContext, message M) (A, error)) Handler {
	return node.Answer(answer)
}
