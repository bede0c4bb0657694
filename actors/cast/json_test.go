package cast

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/graph/status"
)

// rawOf returns a message in encoded form.
func rawOf(t testing.TB, m proto.Message) Raw {
	t.Helper()
	r, err := content{message: m}.raw()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMessagesAsJSON checks the JSON of messages in both directions.
func TestMessagesAsJSON(t *testing.T) {
	inner, err := anypb.New(wrapperspb.String("<x>"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		message proto.Message
		rest    string // of the JSON, after the type
	}{
		{&emptypb.Empty{}, ``},
		{wrapperspb.Int64(-3), `,"value":"-3"`},
		{wrapperspb.Bytes([]byte{0, 255}), `,"value":"AP8="`},
		{durationpb.New(1500e6), `,"value":"1.500s"`},
		{&timestamppb.Timestamp{Seconds: 1}, `,"value":"1970-01-01T00:00:01Z"`},
		{&fieldmaskpb.FieldMask{Paths: []string{"a_b", "c"}}, `,"value":"aB,c"`},
		{structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNumberValue(1)}}), `,"value":{"a":1}`},
		{inner, `,"value":{"@type":"type.googleapis.com/google.protobuf.StringValue","value":"<x>"}`},
	} {
		r := rawOf(t, m.message)
		text, missing, err := formatJSON(r)
		if want := `{"@type":"type.googleapis.com/` + r.Type + `"` + m.rest + `}`; text != want || missing != "" || err != nil {
			t.Errorf("%s: %s, %q, %v, want %s", r.Type, text, missing, err, want)
		}
		for _, url := range []string{"type.googleapis.com/", "", "example.com/a/"} {
			back, missing, err := parseJSON(strings.Replace(text, "type.googleapis.com/"+r.Type, url+r.Type, 1))
			if err != nil || missing != "" || back.Type != r.Type || string(back.Data) != string(r.Data) {
				t.Errorf("%s: %v, %q, %v", text, back, missing, err)
			}
		}
	}
}

// TestJSONThatIsRefused checks errors, and types that another program may know.
func TestJSONThatIsRefused(t *testing.T) {
	deep := rawOf(t, &emptypb.Empty{})
	for range maxAnys {
		deep = rawOf(t, &anypb.Any{TypeUrl: TypeURL(deep.Type), Value: deep.Data})
	}
	format := func(r Raw) (missing string, err error) {
		_, missing, err = formatJSON(r)
		return missing, err
	}
	parse := func(text string) (missing string, err error) {
		_, missing, err = parseJSON(text)
		return missing, err
	}
	for name, test := range map[string]struct {
		try     func() (missing string, err error)
		missing string
		code    status.Code
		text    string
	}{
		"not of its type":      {func() (string, error) { return format(Raw{"google.protobuf.Int64Value", []byte{255}}) }, "", status.InvalidArgument, "A message is not a google.protobuf.Int64Value"},
		"an unknown type":      {func() (string, error) { return format(Raw{"a.B", nil}) }, "a.B", status.OK, ""},
		"an unknown one in it": {func() (string, error) { return format(rawOf(t, &anypb.Any{TypeUrl: "x/y/a.B"})) }, "a.B", status.OK, ""},
		"too many of Any":      {func() (string, error) { return format(deep) }, "", status.ResourceExhausted, "more than 1024 messages of type google.protobuf.Any"},
		"too large as JSON":    {func() (string, error) { return format(rawOf(t, wrapperspb.Bytes(make([]byte, MaxMessage-100)))) }, "", status.ResourceExhausted, "takes 1398037 bytes as JSON, the limit is 1048576: ask for it as a google.protobuf.Any"},
		"a type not in front":  {func() (string, error) { return parse(`{"value": "3", "@type": "a.B"}`) }, "a.B", status.OK, ""},
		"two types": {func() (string, error) {
			return parse(`{"@type": "google.protobuf.Empty", "@type": "google.protobuf.Empty"}`)
		}, "", status.InvalidArgument, "The JSON is not that of a message"},
		"an unknown field": {func() (string, error) { return parse(`{"@type": "google.protobuf.Empty", "value": {"x": 1}}`) }, "", status.InvalidArgument, "The JSON is not that of a message"},
		"not UTF-8": {func() (string, error) {
			return parse("{\"@type\": \"google.protobuf.StringValue\", \"value\": \"\xff\"}")
		}, "", status.InvalidArgument, "The JSON is not that of a message"},
		"plain text": {func() (string, error) { return parse("hello") }, "", status.InvalidArgument, `with its type, such as {"@type": "google.protobuf.StringValue", "value": "text"}: `},
		"a string":   {func() (string, error) { return parse(`"hello"`) }, "", status.InvalidArgument, `with its type, such as {"@type": "google.protobuf.StringValue", "value": "text"}: `},
		"no type":    {func() (string, error) { return parse(`{"value": 3}`) }, "", status.InvalidArgument, `with its type, such as {"@type": "google.protobuf.StringValue", "value": "text"}: `},
		"no fields":  {func() (string, error) { return parse(`{}`) }, "", status.InvalidArgument, `"@type": "google.protobuf.StringValue" is expected in it`},
		"nothing":    {func() (string, error) { return parse("") }, "", status.InvalidArgument, "The JSON is not that of a message"},
	} {
		t.Run(name, func(t *testing.T) {
			missing, err := test.try()
			if missing != test.missing || status.CodeOf(err) != test.code || test.text != "" && !strings.Contains(fmt.Sprint(err), test.text) {
				t.Errorf("%q, %v, want %q, %v, %q", missing, err, test.missing, test.code, test.text)
			}
		})
	}
}

// FuzzJSON checks that text which is a message's JSON becomes the same message again from the JSON that it is formatted as.
func FuzzJSON(f *testing.F) {
	f.Add(`{"@type": "google.protobuf.Int64Value", "value": 3}`)
	f.Add(`{"@type": "google.protobuf.Any", "value": {"@type": "google.protobuf.Struct", "value": {"a": [1, null]}}}`)
	f.Add(`{"@type": "google.protobuf.Duration", "value": "1.5s"}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, missing, err := parseJSON(text)
		if err != nil || missing != "" {
			return
		}
		again, missing, err := formatJSON(r)
		if status.CodeOf(err) == status.ResourceExhausted {
			return
		}
		if err != nil || missing != "" {
			t.Fatalf("%q became %v, which has no JSON: %q, %v", text, r, missing, err)
		}
		if same, missing, err := parseJSON(again); err != nil || missing != "" || same.Type != r.Type {
			t.Fatalf("%q became %q, and that %v, %q, %v", text, again, same, missing, err)
		}
	})
}

// TestConversionsAreBounded checks that a conversion waits for its turn, until its context ends.
func TestConversionsAreBounded(t *testing.T) {
	hold, held, begun := make(chan struct{}), make(chan error), make(chan struct{})
	for i := range maxConversions {
		go func() {
			_, _, err := inTurn(ForClient(t.Context(), Client{Turn: fmt.Sprint(i / 2)}), func(string) (Raw, string, error) {
				begun <- struct{}{}
				<-hold
				return Raw{}, "", nil
			}, "")
			held <- err
		}()
	}
	for range maxConversions {
		<-begun
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := inTurn(ctx, parseJSON, `{"@type": "google.protobuf.Empty"}`); status.CodeOf(err) != status.Cancelled {
		t.Errorf("one more: %v", err)
	}
	close(hold)
	for range maxConversions {
		if err := <-held; err != nil {
			t.Error(err)
		}
	}
	if _, _, err := inTurn(t.Context(), parseJSON, `{"@type": "google.protobuf.Empty"}`); err != nil {
		t.Error(err)
	}
}
