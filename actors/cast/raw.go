package cast

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// Raw is an encoded message. A process can pass it on without knowing its type. The zero Raw is no message.
type Raw struct {
	Type string // full name
	Data []byte // must not be changed after the message has been sent
}

// maxType bounds the bytes of the name of a message's type.
const maxType = 1 << 10

// content checks a message to an actor. The error is INVALID_ARGUMENT for one that no program may send, and RESOURCE_EXHAUSTED for one that
// is too large.
func (r Raw) content() (content, error) {
	if len(r.Type) > maxType || !protoreflect.FullName(r.Type).IsValid() {
		return content{}, status.InvalidArgumentf("%.100q is not the full name of a message type", r.Type)
	}
	if len(r.Data) > MaxMessage {
		return content{}, tooLarge(r.Type, len(r.Data))
	}
	kind := &Kind{Name: r.Type}
	if t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(r.Type)); err == nil {
		if _, err := measure(t.New().Interface()); err != nil { // of the actor system
			return content{}, err
		}
		kind.Type = t
	}
	return content{kind: kind, data: r.Data}, nil
}

// raw returns the encoded message; the zero Raw if there is none.
func (c content) raw() (Raw, error) {
	switch {
	case c.kind != nil:
		return Raw{c.kind.Name, c.data}, nil
	case c.message == nil:
		return Raw{}, nil
	}
	data, err := proto.Marshal(c.message)
	if err != nil {
		return Raw{}, status.InvalidArgumentf("A message to an actor cannot be encoded: %v", err)
	}
	return Raw{string(c.message.ProtoReflect().Descriptor().FullName()), data}, nil
}

// AskRaw is Ask with an encoded message and answer.
func (s *Cast) AskRaw(ctx context.Context, to Ref, message Raw) (Raw, error) {
	var answer content
	ctx, end := s.beginAsk(ctx, to, func() string { return message.Type })
	err := s.anew(ctx, IsVirtual(to.Task), func() error {
		to, c, err := s.checkRaw(to, message)
		if err != nil {
			return err
		}
		what := asking{by: handlerOf(ctx), blocks: true, to: to.Name, kind: message.Type, began: time.Now()}
		answer, err = s.await(ctx, to.Task, what, func(asker Ref) error { return s.postRaw(ctx, asker, to, c, true) })
		return err
	})
	end(plain(err))
	if err != nil {
		return Raw{}, err
	}
	return answer.raw()
}

// SendRaw is Send of an encoded message without a sender.
func (s *Cast) SendRaw(ctx context.Context, to Ref, message Raw) error {
	return s.anew(ctx, IsVirtual(to.Task), func() error {
		to, c, err := s.checkRaw(to, message)
		if err != nil {
			return err
		}
		return s.postRaw(ctx, Ref{}, to, c, true)
	})
}

// SpawnRaw is Spawn with encoded arguments, or Ensure.
func (s *Cast) SpawnRaw(ctx context.Context, kind string, ref Ref, arguments Raw, ensure bool) (Ref, error) {
	var enclosed *wire.Content
	if arguments.Type != "" {
		if _, err := arguments.content(); err != nil {
			return Ref{}, err
		}
		enclosed = &wire.Content{Type: arguments.Type, Value: arguments.Data}
	}
	if ensure {
		return s.ensure(ctx, kind, ref, enclosed)
	}
	return s.createWith(ctx, ref, &wire.Spawn{Kind: kind, Arguments: enclosed}, nil)
}

// checkRaw rejects what cannot be sent. It returns the resolved reference.
func (s *Cast) checkRaw(to Ref, message Raw) (Ref, content, error) {
	to, err := s.resolve(to)
	if err == nil {
		err = s.checkRef(to)
	}
	if err != nil {
		return to, content{}, err
	}
	c, err := message.content()
	return to, c, err
}

// postRaw sends an encoded message to an actor of this or another task.
func (s *Cast) postRaw(ctx context.Context, from, to Ref, c content, wait bool) error {
	if to.Task == s.config.Self {
		return s.put(ctx, to.Name, item{sender: from, content: c, size: len(c.data)}, wait)
	}
	return s.post(ctx, to.Task, &Letter{To: to.Name, From: from.Name, Kind: c.kind, Data: c.data}, wait)
}
