package serve_test

import (
	"context"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/serve"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// newSum returns an actor that adds up numbers.
func newSum(*troupe.ActorContext, any) (troupe.Actor, error) {
	sum := int64(0)
	return troupe.Handlers(
		troupe.Handle(func(_ *troupe.ActorContext, m *wrapperspb.Int64Value) { sum += m.Value }),
		troupe.Handle(func(c *troupe.ActorContext, _ *emptypb.Empty) { c.Reply(wrapperspb.Int64(sum)) }),
	), nil
}

// The main function of a program whose process is a task that can have actors of its own kind.
func ExampleMain() {
	serve.Main(troupe.WithActor("sum", newSum))
}

// A program whose tasks each have an actor from the start.
func ExampleProgram() {
	serve.Program{
		Options: []troupe.Option{troupe.WithActor("sum", newSum)},
		Started: func(ctx context.Context, server *troupe.Server) error {
			_, err := server.Spawn(ctx, "sum", troupe.ActorAt(server.Task(), "votes"), nil)
			return err
		},
	}.Main()
}

// A program with a flag of its own.
func ExampleExecute() {
	var name string
	cmd := serve.Program{
		Options: []troupe.Option{troupe.WithActor("sum", newSum)},
		Started: func(ctx context.Context, server *troupe.Server) error {
			_, err := server.Spawn(ctx, "sum", troupe.ActorAt(server.Task(), name), nil)
			return err
		},
	}.Command()
	cmd.Flags().StringVar(&name, "sum", "votes", "name of the task's sum")
	os.Exit(serve.Execute(context.Background(), cmd, os.Args[1:]))
}
