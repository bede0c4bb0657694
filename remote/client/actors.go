package client

import (
	"context"

	"github.com/troupe-run/troupe/graph/status"
	pb "github.com/troupe-run/troupe/remote/internal/actorservice/actorspb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Actor is an actor of a program's task, as package troupe describes it (troupe.Actor), seen from outside the cluster. Its methods are safe for
// concurrent use. They wait for the actor until ctx ends: WithTimeout does not bound them.
//
// The errors are those of troupe.Ask, and in addition PERMISSION_DENIED if the server's policy does not allow the client the action actors,
// RESOURCE_EXHAUSTED if it has too many calls pending, and UNIMPLEMENTED if the server is not Troupe's.
type Actor struct {
	client *Client
	at     *pb.Actor
}

// Actor returns the actor of a task with a name. The task is written as /job:worker/replica:0/task:1, /job:worker/task:1 or worker:1; if it is
// empty, it is the server's own. /kind:account stands for any task, for the virtual actor of the kind account that the name identifies. The server reaches the actors of all tasks of its cluster. Actor makes no call, so the actor need not exist.
func (c *Client) Actor(task, name string) *Actor {
	return &Actor{c, &pb.Actor{Task: task, Name: name}}
}

// SpawnActor makes an actor of a kind on a task, as troupe.Server.Spawn does, and waits until it exists. With an empty name, it gets a unique
// one. The arguments may be nil.
func (c *Client) SpawnActor(ctx context.Context, kind, task, name string, arguments proto.Message) (*Actor, error) {
	return c.spawn(ctx, &pb.SpawnRequest{Kind: kind, Actor: &pb.Actor{Task: task, Name: name}}, arguments)
}

// EnsureActor returns the actor of a kind that has a name on a task, or makes it if there is none, as troupe.Server.Ensure does.
func (c *Client) EnsureActor(ctx context.Context, kind, task, name string, arguments proto.Message) (*Actor, error) {
	return c.spawn(ctx, &pb.SpawnRequest{Kind: kind, Actor: &pb.Actor{Task: task, Name: name}, Ensure: true}, arguments)
}

func (c *Client) spawn(ctx context.Context, q *pb.SpawnRequest, arguments proto.Message) (*Actor, error) {
	if arguments != nil {
		m, err := enclose(arguments)
		if err != nil {
			return nil, err
		}
		q.Arguments = m
	}
	a := &pb.SpawnResponse{}
	if err := c.call(ctx, pb.Spawn, q, a); err != nil {
		return nil, err
	}
	return c.Actor(a.GetActor().GetTask(), a.GetActor().GetName()), nil
}

// Task returns the task as it was given to Client.Actor; after SpawnActor, its full name.
func (a *Actor) Task() string { return a.at.GetTask() }

// Name returns the actor's name.
func (a *Actor) Name() string { return a.at.GetName() }

// Ask sends a message to an actor and returns its answer. The error is INVALID_ARGUMENT if the answer has another type.
func Ask[A proto.Message](ctx context.Context, to *Actor, message proto.Message) (A, error) {
	var none A
	m, err := enclose(message)
	if err != nil {
		return none, err
	}
	a := &pb.AskResponse{}
	if err := to.client.call(ctx, pb.Ask, &pb.AskRequest{Actor: to.at, Message: m}, a); err != nil {
		return none, err
	}
	answer, err := a.GetAnswer().GetAny().UnmarshalNew()
	if err != nil {
		return none, status.InvalidArgumentf("The answer of the actor %s cannot be read: %v", to.Name(), err)
	}
	typed, ok := answer.(A)
	if !ok {
		return none, status.InvalidArgumentf("The actor %s answered with a %T, not a %T", to.Name(), answer, none)
	}
	return typed, nil
}

// AskJSON is Ask for programs that do not know the types. The message and the answer are JSON of google.protobuf.Any, such as
// {"@type": "google.protobuf.Int64Value", "value": "3"}, of at most 1 MiB. The cluster converts them.
func (a *Actor) AskJSON(ctx context.Context, message string) (string, error) {
	q := &pb.AskRequest{Actor: a.at, Message: &pb.Message{Form: &pb.Message_Json{Json: message}}}
	answer := &pb.AskResponse{}
	err := a.client.call(ctx, pb.Ask, q, answer)
	return answer.GetAnswer().GetJson(), err
}

// Send sends a message, which has no sender, and arrives at most once. While the actor's queue is full, Send waits. A nil error means that the
// message is in flight: it arrives if the link to the actor's task holds and the actor exists.
func (a *Actor) Send(ctx context.Context, message proto.Message) error {
	m, err := enclose(message)
	if err != nil {
		return err
	}
	return a.send(ctx, m)
}

// SendJSON is Send of a message as JSON, as AskJSON has it.
func (a *Actor) SendJSON(ctx context.Context, message string) error {
	return a.send(ctx, &pb.Message{Form: &pb.Message_Json{Json: message}})
}

func (a *Actor) send(ctx context.Context, m *pb.Message) error {
	return a.client.call(ctx, pb.Send, &pb.SendRequest{Actor: a.at, Message: m}, &pb.SendResponse{})
}

// Publish sends a message to all actors of the cluster that subscribe to a topic, as troupe.Server.Publish of the server does.
func (c *Client) Publish(ctx context.Context, topic string, message proto.Message) error {
	m, err := enclose(message)
	if err != nil {
		return err
	}
	return c.publish(ctx, topic, m)
}

// PublishJSON is Publish of a message as JSON, as Actor.AskJSON has it. The server's program has to know its type.
func (c *Client) PublishJSON(ctx context.Context, topic, message string) error {
	return c.publish(ctx, topic, &pb.Message{Form: &pb.Message_Json{Json: message}})
}

func (c *Client) publish(ctx context.Context, topic string, m *pb.Message) error {
	return c.call(ctx, pb.Publish, &pb.PublishRequest{Topic: topic, Message: m}, &pb.PublishResponse{})
}

// End ends the actor after it has handled the messages that wait for it, and waits until it has ended.
func (a *Actor) End(ctx context.Context) error {
	return a.client.call(ctx, pb.End, &pb.EndRequest{Actor: a.at}, &pb.EndResponse{})
}

// Wait waits until the actor ends. ended is the reason: nil if it was ended or ended itself, INTERNAL if it panicked, NOT_FOUND if there is no such
// actor, CANCELLED if its server stops, UNAVAILABLE if its task was lost, and otherwise the error that it failed with. err is set if the call
// itself failed, and nothing is known of the actor.
func (a *Actor) Wait(ctx context.Context) (ended, err error) {
	out := &pb.WatchResponse{}
	if err := a.client.call(ctx, pb.Watch, &pb.WatchRequest{Actor: a.at}, out); err != nil {
		return nil, err
	}
	e := out.GetEnded()
	switch {
	case e == nil:
		return nil, status.Internalf("The server at %s did not say how the actor %s ended", a.client.target, a.Name())
	case e.GetCode() == 0:
		return nil, nil
	}
	return status.New(status.Code(e.GetCode()), e.GetMessage()), nil
}

// enclose returns a message for an actor.
func enclose(message proto.Message) (*pb.Message, error) {
	if message == nil || !message.ProtoReflect().IsValid() {
		return nil, status.InvalidArgumentf("A message to an actor must not be nil")
	}
	a, err := anypb.New(message)
	if err != nil {
		return nil, status.InvalidArgumentf("A message to an actor cannot be encoded: %v", err)
	}
	return &pb.Message{Form: &pb.Message_Any{Any: a}}, nil
}
