package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// chess is a program with actors, and with a type of message that no other process knows: chess.Move. Its actor "board" adds up the steps of
// the moves that it is asked and sent, and answers with the sum and the last piece. It refuses moves of no steps. It ends at an interrupt.
func chess() {
	if err := playChess(); err != nil {
		fmt.Fprintln(os.Stderr, "chess:", err)
		os.Exit(1)
	}
}

func playChess() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("chess.proto"), Package: proto.String("chess"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Move"), Field: []*descriptorpb.FieldDescriptorProto{
			{Name: proto.String("piece"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
			{Name: proto.String("steps"), Number: proto.Int32(2), Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
		}}},
	}, nil)
	if err != nil {
		return err
	}
	move := dynamicpb.NewMessageType(file.Messages().Get(0))
	if err := protoregistry.GlobalTypes.RegisterMessage(move); err != nil {
		return err
	}
	piece, steps := move.Descriptor().Fields().Get(0), move.Descriptor().Fields().Get(1)
	board := func(*troupe.ActorContext, any) (troupe.Actor, error) {
		sum := move.New()
		return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
			if m := message.(proto.Message).ProtoReflect(); m.Descriptor() == move.Descriptor() {
				if m.Get(steps).Int() == 0 {
					_ = c.Fail(status.Errorf(status.OutOfRange, "a move has steps"))
					return
				}
				sum.Set(piece, m.Get(piece))
				sum.Set(steps, protoreflect.ValueOfInt32(int32(sum.Get(steps).Int()+m.Get(steps).Int())))
			}
			_ = c.Reply(proto.Clone(sum.Interface())) // a message that was sent has nobody to answer
		}), nil
	}
	cluster := troupe.ClusterSpec{"ps": {os.Getenv("PS")}, "worker": {os.Getenv("WORKER")}}
	server, err := troupe.NewServer(ctx, cluster, troupe.WithJob("worker"), troupe.WithActor("board", board), troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	if _, err := server.Spawn(ctx, "board", troupe.ActorAt("", "board"), nil); err != nil {
		return err
	}
	<-ctx.Done()
	return server.Stop(context.Background())
}

// TestAsk runs testdata/ask beside a cluster: a server in this process, which has actors but knows no chess, and a program that does.
func TestAsk(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/ask",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(e *testscript.Env) error {
			addresses := spectest.Addresses(t, 2)
			echo := func(*troupe.ActorContext, any) (troupe.Actor, error) {
				return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
					if m, ok := message.(proto.Message); ok && c.Sender() != (troupe.ActorRef{}) {
						_ = c.Reply(m) // the test sees a missing answer
					}
				}), nil
			}
			server, err := troupe.NewServer(t.Context(), troupe.ClusterSpec{"ps": addresses[:1], "worker": addresses[1:]}, troupe.WithJob("ps"),
				troupe.WithActor("echo", echo), troupe.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				return err
			}
			e.Defer(func() {
				ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(20*time.Second))
				defer cancel()
				if err := server.Stop(ctx); err != nil {
					t.Error(err)
				}
			})
			e.Setenv("PS", addresses[0])
			e.Setenv("WORKER", addresses[1])
			_, err = server.Spawn(t.Context(), "echo", troupe.ActorAt("", "echo"), nil)
			return err
		},
	})
}

// TestActorsAreNamed checks which texts name an actor for troupe ask and send: each form of the help, and none that is cut short.
func TestActorsAreNamed(t *testing.T) {
	for text, want := range map[string][2]string{
		"votes":                        {"", "votes"},
		"worker:1/actor:votes":         {"worker:1", "votes"},
		"/job:worker/task:1/actor:a/b": {"/job:worker/task:1", "a/b"},
		"/kind:account/actor:alice":    {"/kind:account", "alice"},
		"":                             {},
		"worker/actor:votes":           {},
		"worker:1/actor:":              {},
		"/kind:account/actor:":         {},
		"/actor:votes":                 {},
	} {
		task, name, err := parseActor(text)
		if (err != nil) != (want[1] == "") || task != want[0] || name != want[1] {
			t.Errorf("%q is the actor %q of %q, %v", text, name, task, err)
		}
	}
}
