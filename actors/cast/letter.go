package cast

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// Letter is a message between actors of two processes. Message is set when the letter is sent, or Kind and Data if it passes on an encoded
// message; these are set when it has been received.
type Letter struct {
	// To and From are the names of actors or requests; From is empty if no answer is expected. The cast's own name is
	// Conversation.
	To, From string
	// ToRequest is part of the name of an actor outside the cluster, and 0 otherwise.
	ToRequest uint32
	// Number grows with each letter of a process to another one.
	Number  uint64
	Message proto.Message
	Size    int // the size of Message, encoded, as proto.Size has just returned it; 0 if unknown
	Kind    *Kind
	Data    []byte // the encoded message, which must not be changed
	Room    Room   // nil if no sender waits for room
	Trace   *Trace // that the message belongs to; nil if there is none
	Client  string // that the message comes from; empty for the program's own
}

// Type returns the full name of the message's type.
func (m *Letter) Type() string {
	if m.Kind != nil {
		return m.Kind.Name
	}
	return string(m.Message.ProtoReflect().Descriptor().FullName())
}

// Kind is a message type.
type Kind struct {
	Name   string
	Type   protoreflect.MessageType // nil if the program does not know it
	System bool                     // a type of the actor system, which programs' actors do not receive
}

// Room is called when messages have been handled or dropped, and so make room for others. It is safe for
// concurrent use.
type Room interface{ Handled(messages, bytes int) }

// Conversation is the name to which casts send letters to each other. Their messages are wire.Mail.
const Conversation = "?"

// Counts reports whether messages to a name wait for an actor, and therefore need room. Answers to requests do
// not.
func Counts(name string) bool { return !isAsk(name) }

// Way is a connection to a task, until its link breaks or is closed because it was unused. A way that has ended accepts no letters;
// Transport.Reach returns another one.
type Way interface {
	// Post sends a message to the task. Messages that are posted one after another arrive in order, or not at
	// all. It waits, until ctx ends, while too much already waits for the actor or the task. It is UNAVAILABLE if
	// the link has broken. Afterwards the caller owns the letter again.
	Post(ctx context.Context, m *Letter) error
	// TryPost is Post that fails with RESOURCE_EXHAUSTED instead of waiting for room.
	TryPost(ctx context.Context, m *Letter) error
	// Ended reports whether the way has ended.
	Ended() bool
}

// content is a decoded message, or an encoded one as it was received.
type content struct {
	message proto.Message
	kind    *Kind // set instead of the message
	data    []byte
}

// open returns the decoded message; nil if there is none.
func (c content) open() (proto.Message, error) {
	if c.kind == nil {
		return c.message, nil
	}
	if c.kind.Type == nil {
		return nil, status.InvalidArgumentf("The program does not know messages of type %q", c.kind.Name)
	}
	m := c.kind.Type.New().Interface()
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(c.data, m); err != nil {
		return nil, status.InvalidArgumentf("A message is not a %s: %v", c.kind.Name, err)
	}
	return m, nil
}

// arguments returns an actor's decoded arguments; nil if there are none.
func arguments(c *wire.Content) (proto.Message, error) {
	if c.GetType() == "" {
		return nil, nil
	}
	kind := &Kind{Name: c.GetType()}
	if t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(kind.Name)); err == nil {
		kind.Type = t
	}
	return content{kind: kind, data: c.GetValue()}.open()
}
