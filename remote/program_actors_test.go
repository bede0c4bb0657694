package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/internal/view"
	pb "github.com/troupe-run/troupe/remote/internal/actorservice/actorspb"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// waiter is an actor that keeps requests, and ends with the first message of type Int64Value: by a panic if it is negative.
type waiter struct{ kept chan *cast.Request }

func (w waiter) Receive(c *cast.Context, message any) {
	if n, ok := message.(*wrapperspb.Int64Value); ok {
		if n.GetValue() < 0 {
			panic("below zero")
		}
		c.Stop()
		return
	}
	w.kept <- c.Keep()
}

func (w waiter) Close() error { return nil }

func waiters(kept chan *cast.Request) map[string]cast.Maker {
	return map[string]cast.Maker{"waiter": {Make: func(*cast.Context, proto.Message) (cast.Actor, error) { return waiter{kept}, nil }}}
}

// anybody is a policy by which everybody may use actors.
const anybody = "rules:\n  - {who: any, may: [actors]}\n"

func enclosed(t *testing.T, m proto.Message) *pb.Message {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Message{Form: &pb.Message_Any{Any: a}}
}

// watchActor begins to watch an actor.
func (g *guarded) watchActor(ctx context.Context, q *pb.WatchRequest) grpc.ClientStream {
	g.t.Helper()
	s, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.Watch)
	if err == nil {
		err = s.SendMsg(q)
	}
	if err == nil {
		err = s.CloseSend()
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// next returns what the stream of a watch says next: "watching", the code and the text of an end, or the error of the call.
func next(s grpc.ClientStream) string {
	var e pb.WatchResponse
	if err := s.RecvMsg(&e); errors.Is(err, io.EOF) {
		return "over"
	} else if err != nil {
		return err.Error()
	}
	if e.GetWatching() != nil {
		return "watching"
	}
	return strings.TrimSpace(fmt.Sprintf("%v %s", codes.Code(e.GetEnded().GetCode()), e.GetEnded().GetMessage()))
}

// TestWatchingOfClients checks the messages of each watch, in order.
func TestWatchingOfClients(t *testing.T) {
	g := guardTasks(t, 2, Config{Actors: waiters(nil)}, anybody)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range 2 {
		for how, want := range map[string]string{"stop": "OK", "panic": "Internal", "end": "OK"} {
			at := &pb.Actor{Task: fmt.Sprintf("w:%d", i), Name: how}
			if err := g.call("", pb.Spawn, &pb.SpawnRequest{Kind: "waiter", Actor: at}, &pb.SpawnResponse{}); err != nil {
				t.Fatal(err)
			}
			confirmed := g.watchActor(ctx, &pb.WatchRequest{Actor: at, Confirm: true})
			if got := next(confirmed); got != "watching" {
				t.Fatalf("the watch begins with %q", got)
			}
			var err error
			switch how {
			case "end":
				err = g.call("", pb.End, &pb.EndRequest{Actor: at}, &pb.EndResponse{})
			case "panic":
				err = g.call("", pb.Send, &pb.SendRequest{Actor: at, Message: enclosed(t, wrapperspb.Int64(-1))}, &pb.SendResponse{})
			default:
				err = g.call("", pb.Send, &pb.SendRequest{Actor: at, Message: enclosed(t, wrapperspb.Int64(1))}, &pb.SendResponse{})
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := next(confirmed); !strings.HasPrefix(got, want) || how == "panic" && !strings.Contains(got, "below zero") {
				t.Errorf("%s on task %d: %q, want %s", how, i, got, want)
			}
			if got := next(confirmed); got != "over" {
				t.Errorf("after the end: %q", got)
			}
			for _, confirm := range []bool{false, true} { // a Watching would promise an end
				late := g.watchActor(ctx, &pb.WatchRequest{Actor: at, Confirm: confirm})
				if got := next(late); !strings.HasPrefix(got, "NotFound There is no actor "+how) {
					t.Errorf("a watch of nothing: %q", got)
				}
			}
		}
	}
	// The panic on the task's own actor is an event, and counted.
	seen := g.node.See(ctx, &view.Query{})
	panicked := slices.IndexFunc(seen.GetTasks()[0].GetEvents(), func(e *view.Event) bool {
		return e.GetKind() == "actor panicked" && e.GetSubject() == "panic" && strings.Contains(e.GetText(), "program/waiter: ") && strings.Contains(e.GetText(), "below zero")
	})
	counted := slices.IndexFunc(seen.GetTasks()[0].GetTotals().GetActors(), func(k *view.ActorKind) bool { return k.GetKind() == "program/waiter" && k.GetPanics() == 1 })
	if panicked < 0 || counted < 0 {
		t.Errorf("the panic of an actor is event %d and counter %d of %v", panicked, counted, seen.GetTasks()[0])
	}
	if got := next(g.watchActor(ctx, &pb.WatchRequest{})); !strings.Contains(got, `InvalidArgument desc = "" is not a name of an actor`) {
		t.Errorf("a watch without a name: %q", got)
	}
	// The client's own end of a watch leaves nothing behind, and neither does that of the server.
	at := &pb.Actor{Task: "w:1", Name: "long"}
	if err := g.call("", pb.Spawn, &pb.SpawnRequest{Kind: "waiter", Actor: at}, &pb.SpawnResponse{}); err != nil {
		t.Fatal(err)
	}
	given, giveUp := context.WithCancel(ctx)
	s := g.watchActor(given, &pb.WatchRequest{Actor: at, Confirm: true})
	if got := next(s); got != "watching" {
		t.Fatal(got)
	}
	giveUp()
	if got := next(s); !strings.Contains(got, "Canceled") {
		t.Errorf("a watch that was given up: %q", got)
	}
	s = g.watchActor(ctx, &pb.WatchRequest{Actor: at, Confirm: true})
	if got := next(s); got != "watching" {
		t.Fatal(got)
	}
	stop(t, g.node)
	if got := next(s); !strings.HasPrefix(got, "Canceled The server of /job:w/replica:0/task:0 is stopping") {
		t.Errorf("the server's stop: %q", got)
	}
}

// TestRequestsOfClientsEnd checks that requests which an actor keeps end with their calls and with their server, and that malformed ones do
// not reach an actor.
func TestRequestsOfClientsEnd(t *testing.T) {
	kept := make(chan *cast.Request)
	g := guardTasks(t, 2, Config{Actors: waiters(kept)}, anybody)
	for i := range 2 {
		at := &pb.Actor{Task: fmt.Sprintf("/job:w/task:%d", i), Name: "waiter"}
		if err := g.call("", pb.Spawn, &pb.SpawnRequest{Kind: "waiter", Actor: at}, &pb.SpawnResponse{}); err != nil {
			t.Fatal(err)
		}
		refusedBy(t, "no message", g.call("", pb.Ask, &pb.AskRequest{Actor: at}, &pb.AskResponse{}), codes.InvalidArgument, "has no message for the actor")
		refusedBy(t, "no type", g.call("", pb.Ask, &pb.AskRequest{Actor: at, Message: &pb.Message{Form: &pb.Message_Any{}}}, &pb.AskResponse{}), codes.InvalidArgument, `"" is not the full name of a message type`)
		broken := &pb.Message{Form: &pb.Message_Any{Any: &anypb.Any{TypeUrl: "google.protobuf.Int64Value", Value: []byte{0xff}}}}
		refusedBy(t, "not of its type", g.call("", pb.Ask, &pb.AskRequest{Actor: at, Message: broken}, &pb.AskResponse{}), codes.InvalidArgument, "A message is not a google.protobuf.Int64Value")
		unknown := &pb.Message{Form: &pb.Message_Any{Any: &anypb.Any{TypeUrl: "a.b.C"}}}
		refusedBy(t, "an unknown type", g.call("", pb.Ask, &pb.AskRequest{Actor: at, Message: unknown}, &pb.AskResponse{}), codes.InvalidArgument, `does not know messages of type "a.b.C"`)
		refusedBy(t, "a malformed request", g.call("", pb.Ask, wrapperspb.Bytes([]byte{0xff}), &pb.AskResponse{}), codes.InvalidArgument, "The request is malformed")

		done := make(chan error)
		ask := func(ctx context.Context) {
			done <- g.conn.Invoke(ctx, pb.Ask, &pb.AskRequest{Actor: at, Message: enclosed(t, &emptypb.Empty{})}, &pb.AskResponse{})
		}
		ctx, cancel := context.WithCancel(t.Context())
		go ask(ctx)
		r := <-kept
		cancel()
		refusedBy(t, "a call that was given up", <-done, codes.Canceled, "")
		if err := r.Fail(errors.New("late")); err != nil { // nobody waits for it
			t.Error(err)
		}
		if i == 0 {
			continue
		}
		go ask(t.Context())
		<-kept
		stop(t, g.node)
		refusedBy(t, "the server's stop", <-done, codes.Canceled, "The server of /job:w/replica:0/task:0 is stopping")
	}
}

// TestRightsOfClientsToActors makes each call as clients with and without the action actors. Every refusal is in the audit log.
func TestRightsOfClientsToActors(t *testing.T) {
	g := guardTasks(t, 1, Config{Actors: waiters(nil)}, `rules:
  - {who: "client:ops", may: [actors]}
  - {who: "client:alice", may: [open, list, reset]}
`, "ops", "alice")
	at := &pb.Actor{Name: "waiter"}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	calls := []struct {
		method string
		q, a   proto.Message
	}{
		{pb.Spawn, &pb.SpawnRequest{Kind: "waiter", Actor: at}, &pb.SpawnResponse{}},
		{pb.Send, &pb.SendRequest{Actor: at, Message: enclosed(t, wrapperspb.Int64(1))}, &pb.SendResponse{}},
		{pb.Spawn, &pb.SpawnRequest{Kind: "waiter", Actor: &pb.Actor{Name: "other"}}, &pb.SpawnResponse{}},
		{pb.End, &pb.EndRequest{Actor: &pb.Actor{Name: "other"}}, &pb.EndResponse{}},
		{pb.Ask, &pb.AskRequest{Actor: &pb.Actor{Name: "nobody"}, Message: enclosed(t, &emptypb.Empty{})}, &pb.AskResponse{}},
	}
	for _, c := range calls {
		refusedBy(t, c.method, g.call("alice", c.method, c.q, c.a), codes.PermissionDenied, "client:alice may not exchange messages with actors: the rule at policy.yaml:3 does not allow it (actors is not in its may)")
		refusedBy(t, c.method, g.call("", c.method, c.q, c.a), codes.PermissionDenied, "loopback may not exchange messages with actors: no rule allows it")
		refusedBy(t, c.method, g.call("Bearer troupe_x", c.method, c.q, c.a), codes.Unauthenticated, "unknown or was withdrawn")
		want := codes.OK
		if c.method == pb.Ask {
			want = codes.NotFound
		}
		refusedBy(t, c.method, g.call("ops", c.method, c.q, c.a), want, "")
	}
	if got := next(g.watchActor(ctx, &pb.WatchRequest{Actor: at})); !strings.Contains(got, "PermissionDenied desc = loopback may not exchange messages with actors") {
		t.Errorf("a watch without a token: %q", got)
	}
	b, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), `"event":"actors"`); n != 2*len(calls)+1 {
		t.Errorf("the audit log has %d refusals, not %d:\n%s", n, 2*len(calls)+1, b)
	}
	g.reload(`rules:
  - {who: "client:alice", may: [actors]}
`)
	refusedBy(t, "after a reload", g.call("ops", pb.End, &pb.EndRequest{Actor: at}, &pb.EndResponse{}), codes.PermissionDenied, "client:ops may not")
	nobody := &pb.Actor{Name: "nobody"} // the waiter may have ended by now, or not
	refusedBy(t, "after a reload", g.call("alice", pb.End, &pb.EndRequest{Actor: nobody}, &pb.EndResponse{}), codes.NotFound, "There is no actor nobody")
	if status.Code(g.call("alice", wire.OperatorStatus, &emptypb.Empty{}, &emptypb.Empty{})) != codes.PermissionDenied {
		t.Error("actors allows list as well")
	}
}

// TestTracesOfClientsOfActors checks that the trace of a client's call goes on in the server that is asked, and on the actor's task.
func TestTracesOfClientsOfActors(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	defer func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	kept := make(chan *cast.Request, 1)
	g := guardTasks(t, 2, Config{Actors: waiters(kept), Traces: provider}, anybody)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	at := &pb.Actor{Task: "w:1", Name: "traced"}
	if err := g.call("", pb.Spawn, &pb.SpawnRequest{Kind: "waiter", Actor: at}, &pb.SpawnResponse{}); err != nil {
		t.Fatal(err)
	}
	const trace, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	headers := metadata.Pairs("traceparent", "00-"+trace+"-"+client+"-01")
	answered := make(chan error, 1)
	go func() {
		answered <- g.conn.Invoke(metadata.NewOutgoingContext(ctx, headers), pb.Ask, &pb.AskRequest{Actor: at, Message: enclosed(t, &emptypb.Empty{})}, &pb.AskResponse{})
	}()
	if err := (<-kept).Reply(&emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	var asked, handled tracetest.SpanStub
	for ; !handled.SpanContext.IsValid() && ctx.Err() == nil; runtime.Gosched() { // the handler may return after it has answered
		for _, s := range exporter.GetSpans() {
			switch s.Name {
			case "troupe.ask":
				asked = s
			case "troupe.handle":
				handled = s
			default:
				t.Fatalf("there is a span %s", s.Name)
			}
		}
	}
	if asked.Parent.SpanID().String() != client || handled.Parent.SpanID() != asked.SpanContext.SpanID() || handled.SpanContext.TraceID().String() != trace {
		t.Errorf("the request is below %v in %v, and what handles it below %v in %v", asked.Parent.SpanID(), asked.SpanContext.TraceID(),
			handled.Parent.SpanID(), handled.SpanContext.TraceID())
	}
}
