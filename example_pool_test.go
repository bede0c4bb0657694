package troupe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/troupe-run/troupe"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A pool has four workers on each task of its job, which square numbers. It replaces those that fail, and gives their requests to other ones.
func ExamplePool() {
	newSquarer := func(*troupe.ActorContext, any) (troupe.Actor, error) {
		return troupe.Handlers(troupe.Handle(func(c *troupe.ActorContext, m *wrapperspb.Int64Value) {
			c.Reply(wrapperspb.Int64(m.Value * m.Value))
		})), nil
	}
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("squarer", newSquarer),
		troupe.WithActor("squarers", troupe.Pool{Kind: "squarer", Each: 4, Route: troupe.LeastLoaded, Retries: 2}.Make, troupe.Restart{}),
		troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	pool, err := server.Spawn(ctx, "squarers", troupe.ActorAt("", "squarers"), nil)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := troupe.Ask[*wrapperspb.Int64Value](ctx, server, pool, wrapperspb.Int64(12))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Value)
	// Output: 144
}
