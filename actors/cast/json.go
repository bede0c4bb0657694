package cast

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb" // every program knows the types that JSON has forms of its own for
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/turns"
)

// Messages as JSON, in the form of google.protobuf.Any: {"@type": "type.googleapis.com/google.protobuf.Int64Value", "value": "3"}. Only a process
// whose program knows all types in a message can convert it. Where this one does not, the task of the message's actor is asked to.

const (
	// typePrefix begins the URL of a type.
	typePrefix = "type.googleapis.com/"
	// maxDepth bounds how deep JSON is nested. At each level of google.protobuf.Any, the decoder reads the rest of the text once more.
	maxDepth = 100
	// maxAnys bounds the messages of type google.protobuf.Any in a message that becomes JSON: the encoder copies the contents of each.
	maxAnys = 1 << 10
	// maxConversions bounds the messages that the process converts at a time: one of MaxMessage bytes, if it consists of many small ones,
	// takes 100 MiB and a second.
	maxConversions = 4
)

// conversions are the turns of all conversions of the process.
var conversions = turns.New(maxConversions)

// clientKey is the key of a context's client.
type clientKey struct{}

// Client is a caller from outside the cluster. The zero value is the program itself.
type Client struct {
	Name string // the actors that it spawns count as its own
	Turn string // what takes long is done for one of them after the other
}

// ForClient returns a context for calls on behalf of a client.
func ForClient(ctx context.Context, client Client) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

func clientOf(ctx context.Context) Client {
	who, _ := ctx.Value(clientKey{}).(Client)
	return who
}

// inTurn converts a message in its client's turn, for which it waits until ctx ends.
func inTurn[From, To any](ctx context.Context, convert func(From) (To, string, error), from From) (to To, missing string, err error) {
	leave, err := conversions.Enter(ctx, clientOf(ctx).Turn)
	if err != nil {
		return to, "", err
	}
	defer leave()
	return convert(from)
}

// ParseJSON converts the JSON of a message to or from an actor of a task. Errors: INVALID_ARGUMENT for malformed JSON and for a type that
// neither this program nor that of the task knows, RESOURCE_EXHAUSTED for more than MaxMessage bytes of text, and those of Ask.
func (s *Cast) ParseJSON(ctx context.Context, task, text string) (Raw, error) {
	r, missing, err := inTurn(ctx, parseJSON, text)
	if missing == "" {
		return r, err
	}
	if task == s.config.Self || IsVirtual(task) { // a program that sends to a virtual kind has its types
		return r, s.unknownType(missing)
	}
	a, err := s.transcode(ctx, task, &wire.Transcode{Form: &wire.Transcode_Json{Json: text}})
	return Raw{a.GetContent().GetType(), a.GetContent().GetValue()}, err
}

// FormatJSON returns a message to or from an actor of a task as JSON, of at most MaxMessage bytes. Errors are those of ParseJSON.
func (s *Cast) FormatJSON(ctx context.Context, task string, r Raw) (string, error) {
	text, missing, err := inTurn(ctx, formatJSON, r)
	if missing == "" {
		return text, err
	}
	if task == s.config.Self || IsVirtual(task) { // a program that sends to a virtual kind has its types
		return "", s.unknownType(missing)
	}
	a, err := s.transcode(ctx, task, &wire.Transcode{Form: &wire.Transcode_Content{Content: &wire.Content{Type: r.Type, Value: r.Data}}})
	return a.GetJson(), err
}

func (s *Cast) unknownType(name string) error {
	return status.InvalidArgumentf("The program of %s does not know messages of type %.200q", s.config.Self, name)
}

// transcode asks another task to convert a message.
func (s *Cast) transcode(ctx context.Context, task string, q *wire.Transcode) (*wire.Transcode, error) {
	c, err := s.await(ctx, task, asking{}, func(asker Ref) error {
		return s.mail(ctx, task, &wire.Mail{From: asker.Name, What: &wire.Mail_Transcode{Transcode: q}})
	})
	if err != nil {
		return nil, err
	}
	answer, err := c.open()
	if err != nil {
		return nil, err
	}
	a, ok := answer.(*wire.Transcode)
	if !ok {
		return nil, status.Internalf("%s answered with a %s in place of a converted message", task, nameOf(answer))
	}
	return a, nil
}

// transcoded answers another task with a message that it cannot convert itself. It does not block.
func (s *Cast) transcoded(asker Ref, q *wire.Transcode) {
	s.answerBy(asker.Task, func(ctx context.Context) error { // converting takes time
		a, missing, err := inTurn(ForClient(ctx, Client{Turn: asker.Task}), convert, q)
		if missing != "" {
			err = s.unknownType(missing)
		}
		if err != nil {
			s.answer(asker, err)
			return nil
		}
		return s.postTo(ctx, Ref{}, asker, a, 0, true)
	})
}

func convert(q *wire.Transcode) (a *wire.Transcode, missing string, err error) {
	if c := q.GetContent(); c != nil {
		text, missing, err := formatJSON(Raw{c.GetType(), c.GetValue()})
		return &wire.Transcode{Form: &wire.Transcode_Json{Json: text}}, missing, err
	}
	r, missing, err := parseJSON(q.GetJson())
	return &wire.Transcode{Form: &wire.Transcode_Content{Content: &wire.Content{Type: r.Type, Value: r.Data}}}, missing, err
}

// parseJSON converts the JSON of a message. missing is a type in it that the program does not know; empty if there is none.
func parseJSON(text string) (r Raw, missing string, err error) {
	if len(text) > MaxMessage {
		return r, "", status.Errorf(status.ResourceExhausted, "A message to an actor takes %d bytes as JSON, the limit is %d", len(text), MaxMessage)
	}
	known := &types{Types: protoregistry.GlobalTypes, left: len(text)}
	var a anypb.Any
	err = protojson.UnmarshalOptions{Resolver: known, RecursionLimit: maxDepth}.Unmarshal([]byte(text), &a)
	switch {
	case known.missing != "":
		if r, ok, err := valueFromJSON(text, known.missing); ok {
			return r, "", err
		}
		return r, known.missing, nil
	case err != nil && !strings.Contains(text, `"@type"`): // such as plain text from a command line
		return r, "", status.InvalidArgumentf(`The JSON is not that of a message with its type, such as {"@type": "google.protobuf.StringValue", "value": "text"}: %v`, err)
	case err != nil:
		return r, "", status.InvalidArgumentf("The JSON is not that of a message: %v", err)
	case a.GetTypeUrl() == "":
		return r, "", status.InvalidArgumentf(`The JSON does not name the type of its message: "@type": "google.protobuf.StringValue" is expected in it`)
	}
	return Raw{TypeName(a.GetTypeUrl()), a.GetValue()}, "", nil
}

// formatJSON converts a message to JSON. missing is a type in it that the program does not know; empty if there is none.
func formatJSON(r Raw) (text, missing string, err error) {
	if r.Type == valueType {
		text, err = valueToJSON(r)
		return text, "", err
	}
	known := &types{Types: protoregistry.GlobalTypes, left: maxAnys}
	b, err := protojson.MarshalOptions{Resolver: known}.Marshal(&anypb.Any{TypeUrl: typePrefix + r.Type, Value: r.Data})
	switch {
	case known.missing != "":
		return "", known.missing, nil
	case known.left < 0:
		return "", "", status.Errorf(status.ResourceExhausted, "A message %s of an actor contains more than %d messages of type google.protobuf.Any, which is the limit for JSON", r.Type, maxAnys)
	case err != nil:
		return "", "", status.InvalidArgumentf("A message is not a %s: %v", r.Type, err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil { // protojson's spaces are random
		return "", "", status.Internalf("A message %s became invalid JSON: %v", r.Type, err)
	}
	if out.Len() > MaxMessage {
		return "", "", status.Errorf(status.ResourceExhausted, "A message %s of an actor takes %d bytes as JSON, the limit is %d: ask for it as a google.protobuf.Any", r.Type, out.Len(), MaxMessage)
	}
	return out.String(), "", nil
}

// types looks up the program's types for protojson.
type types struct {
	*protoregistry.Types
	left    int    // look-ups that are allowed
	missing string // a type that was not found
}

// FindMessageByURL returns the type in a google.protobuf.Any.
func (t *types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if t.left--; t.left < 0 {
		return nil, protoregistry.NotFound
	}
	found, err := t.Types.FindMessageByURL(url)
	if err != nil {
		t.missing = TypeName(url)
	}
	return found, err
}

// TypeName returns the full name in the URL of a type.
func TypeName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

// TypeURL returns the URL of a type with a full name.
func TypeURL(name string) string { return typePrefix + name }
