package node

import (
	"context"

	"github.com/troupe-run/troupe/actors/cast"
)

// Publish sends a message to a topic: to all actors of the cluster that subscribe to it (ActorContext.Subscribe), and to programs that do (Node.Subscribe).
// Topics need not be made; their names are those of actors, with up to 200 bytes.
//
// Each subscriber gets the message at most once. It gets it if its Subscribe returned before Publish was called, it has not ended, its task is one that this server
// knows to be up (Node.Status) and can reach, and the link between the two tasks holds until it has arrived. One that subscribes meanwhile may get it. The messages
// of one publisher, which is an actor or one goroutine of a program, to a topic arrive in the order in which they were published, some of them perhaps missing.
//
// While the queue of a subscriber is full, the topic's messages wait on its task, in a queue that is bounded as an actor's, and when that is full,
// Publish waits until ctx ends: a slow subscriber makes publishers wait, and so the other subscribers. After an error, some subscribers may get the message. A nil
// error does not mean that there are subscribers.
//
// A server asks the other tasks that are up for their topics with its first message to any topic, and keeps its links to them until it has published
// nothing for a minute.
func (n *Node) Publish(ctx context.Context, topic string, message any) error {
	return n.publish(ctx, topic, message, true)
}

// TryPublish is Publish that does not wait for room: tasks without room for the message do not get it, and it returns RESOURCE_EXHAUSTED if there are such
// tasks. It waits only for links to tasks, and for their topics, until ctx ends.
func (n *Node) TryPublish(ctx context.Context, topic string, message any) error {
	return n.publish(ctx, topic, message, false)
}

func (n *Node) publish(ctx context.Context, topic string, message any, wait bool) error {
	c, _, m, err := n.stageMessage(ActorRef{}, message)
	if err != nil {
		return err
	}
	return c.Publish(ctx, cast.Ref{}, topic, m, wait)
}

// Subscribe returns a channel with the messages to a topic that are published after Subscribe has returned, each as an actor's Receive gets it. The
// channel is closed when ctx ends or the server stops. The program must read it: its messages wait as those for an actor do, and so do their publishers.
// RESOURCE_EXHAUSTED means that the actors of the task subscribe to MaxTopics topics.
func (n *Node) Subscribe(ctx context.Context, topic string) (<-chan any, error) {
	m, err := n.running()
	if err != nil {
		return nil, err
	}
	messages := make(chan any)
	told, done := context.WithCancel(ctx)
	stop, err := m.Cast().Listen(ctx, topic, func(life context.Context, message any) {
		select {
		case messages <- message:
		case <-life.Done():
		}
	}, func() {
		close(messages)
		done()
	})
	if err != nil {
		done()
		return nil, err
	}
	context.AfterFunc(told, stop)
	return messages, nil
}

// Publish is Node.Publish with this actor as the sender. An actor that subscribes to the topic itself, or is sent to by a subscriber, should use TryPublish:
// while it waits, it handles no messages.
func (c *ActorContext) Publish(topic string, message any) error {
	return c.publish(topic, message, true)
}

// TryPublish is Node.TryPublish with this actor as the sender.
func (c *ActorContext) TryPublish(topic string, message any) error {
	return c.publish(topic, message, false)
}

func (c *ActorContext) publish(topic string, message any, wait bool) error {
	m, err := cast.Enclose(message)
	if err != nil {
		return err
	}
	return c.context.Publish(topic, m, wait)
}

// Subscribe makes the actor receive the messages to a topic that are published after Subscribe has returned; see Node.Publish. They arrive as if their
// publishers had sent them to the actor: Sender is the actor that published one. Subscribe waits until the tasks that publish know of it, for up to 15 s, and
// fails if the actor ends meanwhile. It does nothing if the actor subscribes to the topic already. RESOURCE_EXHAUSTED means that the actors of the task subscribe to MaxTopics
// topics.
//
// The subscription ends with the actor, and when it restarts.
func (c *ActorContext) Subscribe(topic string) error { return c.context.Subscribe(topic) }

// Unsubscribe ends a subscription. Messages that wait for the actor by then still arrive. It does nothing if there is no such subscription.
func (c *ActorContext) Unsubscribe(topic string) { c.context.Unsubscribe(topic) }
