package cast

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// Letter is a message between actors of two processes. Message is set while it is sent, Kind and Data when it
// has come.
type Letter struct {
	// To and From are the names of actors or requests; without From nobody is answered. The cast itself is
	// Conversation.
	To, From string
	// ToRequest belongs to the name of one that knows nothing of tasks, and is 0 otherwise.
	ToRequest uint32
	// Number grows with each letter of a process to another one.
	Number  uint64
	Message proto.Message
	Size    int // of Message, encoded, which proto.Size has just told; 0: it is not known
	Kind    *Kind
	Data    []byte // of the message, encoded; it is not changed any more
	Room    Room   // nil: nobody waits for room
}

// Kind is a type of messages.
type Kind struct {
	Name   string
	Type   protoreflect.MessageType // nil: the program does not know it
	System bool                     // it is the actor system's, which programs' actors do not get
}

// Room is told when messages have been handled, or dropped, and make room for others. It is safe for
// concurrent use.
type Room interface{ Handled(messages, bytes int) }

// Conversation is the name that letters between casts themselves are for. Their messages are wire.Mail.
const Conversation = "?"

// Counts tells whether messages to a name wait for an actor, and so need room. Those that answer a request do
// not.
func Counts(name string) bool { return !isAsk(name) }

// Way is the way to a task, until the link breaks that it is.
type Way interface {
	// Post sends a message to the task. Messages that are posted one after another arrive in order, or not at
	// all. It waits, until ctx ends, while too much waits for the actor or the task already. UNAVAILABLE where
	// the link has broken. The letter is the caller's again afterwards.
	Post(ctx context.Context, m *Letter) error
	// TryPost is Post that does not wait for room: RESOURCE_EXHAUSTED.
	TryPost(ctx context.Context, m *Letter) error
}

// content is a message that is here, or as it came.
type content struct {
	message proto.Message
	kind    *Kind // in place of the message
	data    []byte
}

// open gives the message, decoded; nil where there is none.
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

// arguments gives what an actor is made with, decoded; nil where that is nothing.
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
