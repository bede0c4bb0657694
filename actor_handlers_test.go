package troupe

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// safeBuffer is a buffer that goroutines share.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Each message goes to the handler of its type. Without one, an Ask fails at once, and another message is logged.
func TestHandlers(t *testing.T) {
	type tick struct{}
	var log safeBuffer
	s := company(t, 1, WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithActor("typed", func(c *ActorContext, _ any) (Actor, error) {
		var sum int64
		var ticked *ActorRequest
		return Handlers(
			Handle(func(_ *ActorContext, m *wrapperspb.Int64Value) { sum += m.Value }),
			Handle(func(c *ActorContext, _ *emptypb.Empty) { c.Reply(wrapperspb.Int64(sum)) }),
			Handle(func(c *ActorContext, _ *wrapperspb.BoolValue) {
				ticked = c.Keep()
				c.After(0, tick{})
			}),
			Handle(func(*ActorContext, tick) { ticked.Reply(&emptypb.Empty{}) }),
		), nil
	}))[0]
	ref, err := s.Spawn(deadline(t), "typed", ActorRef{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []proto.Message{wrapperspb.Int64(3), wrapperspb.Double(7), wrapperspb.Int64(4)} {
		if err := s.Send(deadline(t), ref, m); err != nil {
			t.Fatal(err)
		}
	}
	if got := sum(t, s, ref); got != 7 {
		t.Errorf("the sum is %d", got)
	}
	if text := log.String(); !strings.Contains(text, "no handler of google.protobuf.DoubleValue") {
		t.Errorf("it logged %s", text)
	}
	if _, err := Ask[*emptypb.Empty](deadline(t), s, ref, wrapperspb.Bool(true)); err != nil {
		t.Errorf("a message of another type: %v", err)
	}
	if _, err := Ask[*emptypb.Empty](deadline(t), s, ref, wrapperspb.Double(7)); status.CodeOf(err) != status.Unimplemented {
		t.Errorf("without a handler: %v", err)
	}
}

func TestHandlersThatCannotBe(t *testing.T) {
	panics := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: it did not panic", name)
			}
		}()
		f()
	}
	panics("an interface", func() { Handle(func(*ActorContext, proto.Message) {}) })
	empty := Handle(func(*ActorContext, *emptypb.Empty) {})
	panics("two handlers", func() { Handlers(empty, empty) })
}

// Answer answers with what its function returns.
func TestAnswer(t *testing.T) {
	var log safeBuffer
	s := company(t, 1, WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithActor("typed", func(*ActorContext, any) (Actor, error) {
		return Handlers(Answer(func(c *ActorContext, m *wrapperspb.Int64Value) (*wrapperspb.BytesValue, error) {
			switch {
			case m.Value < 0:
				return nil, status.Errorf(status.OutOfRange, "%d is negative", m.Value)
			case m.Value == 0:
				if err := c.Reply(wrapperspb.Bytes([]byte("early"))); err != nil {
					t.Error(err)
				}
				return nil, status.New(status.Internal, "too late")
			}
			return wrapperspb.Bytes(make([]byte, m.Value)), nil
		})), nil
	}))[0]
	ref, err := s.Spawn(deadline(t), "typed", ActorRef{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		n    int64
		size int
		code status.Code
		text string
	}{{n: 3, size: 3}, {n: 0, size: 5}, {n: -1, code: status.OutOfRange, text: "-1 is negative"}, {n: 2 << 20, code: status.ResourceExhausted, text: "1048576"}} {
		answer, err := Ask[*wrapperspb.BytesValue](deadline(t), s, ref, wrapperspb.Int64(row.n))
		switch {
		case status.CodeOf(err) != row.code:
			t.Errorf("%d: %v", row.n, err)
		case err != nil && !strings.Contains(err.Error(), row.text):
			t.Errorf("%d: %v", row.n, err)
		case err == nil && len(answer.Value) != row.size:
			t.Errorf("%d: %d bytes", row.n, len(answer.Value))
		}
	}
	for _, n := range []int64{4, -2} {
		if err := s.Send(deadline(t), ref, wrapperspb.Int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Ask[*wrapperspb.BytesValue](deadline(t), s, ref, wrapperspb.Int64(1)); err != nil { // the messages before have been handled
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "-2 is negative") && !strings.Contains(log.String(), "too late") { // the log has the last of several
		t.Errorf("the errors are not in the log:\n%s", log.String())
	}
}
