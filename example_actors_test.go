package troupe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/remote/client"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An actor of the program's own keeps a sum. On a cluster of many tasks it may live on any of them, and all can reach
// it.
func ExampleWithActor() {
	newSum := func(*troupe.ActorContext, any) (troupe.Actor, error) {
		var sum int64
		return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
			switch m := message.(type) {
			case *wrapperspb.Int64Value:
				sum += m.Value
			case *emptypb.Empty:
				c.Reply(wrapperspb.Int64(sum))
			}
		}), nil
	}
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("sum", newSum), troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	sum, err := server.Spawn(ctx, "sum", troupe.ActorAt("/job:local/task:0", "votes"), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, votes := range []int64{3, 4, 5} {
		if err := server.Send(ctx, sum, wrapperspb.Int64(votes)); err != nil {
			log.Fatal(err)
		}
	}
	answer, err := troupe.Ask[*wrapperspb.Int64Value](ctx, server, sum, &emptypb.Empty{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum, answer.Value)
	// Output: /job:local/replica:0/task:0/actor:votes 12
}

// A client that is not a task of the cluster asks an actor, by way of any task. newSum is in fragments_test.go, as in docs/actors.md.
func ExampleClient_Actor() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("sum", newSum), troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	c, err := troupe.Dial(ctx, server.Target())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	votes, err := c.SpawnActor(ctx, "sum", "local:0", "votes", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := votes.Send(ctx, wrapperspb.Int64(3)); err != nil {
		log.Fatal(err)
	}
	answer, err := client.Ask[*wrapperspb.Int64Value](ctx, votes, &emptypb.Empty{})
	if err != nil {
		log.Fatal(err)
	}
	asJSON, err := c.Actor("local:0", "votes").AskJSON(ctx, `{"@type": "google.protobuf.Empty"}`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Value, asJSON)
	// Output: 3 {"@type":"type.googleapis.com/google.protobuf.Int64Value","value":"3"}
}

// A counter of requests has a handler for each type of message. It answers once it has got none for a while.
func ExampleHandlers() {
	type quiet struct{}
	newCounter := func(*troupe.ActorContext, any) (troupe.Actor, error) {
		var requests []*troupe.ActorRequest
		stop := func() {}
		return troupe.Handlers(
			troupe.Handle(func(c *troupe.ActorContext, _ *emptypb.Empty) {
				requests = append(requests, c.Keep())
				stop()
				stop = c.After(10*time.Millisecond, quiet{})
			}),
			troupe.Handle(func(_ *troupe.ActorContext, _ quiet) {
				for _, r := range requests {
					r.Reply(wrapperspb.Int64(int64(len(requests))))
				}
				requests = nil
			}),
		), nil
	}
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("counter", newCounter, troupe.Restart{}),
		troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	counter, err := server.Spawn(ctx, "counter", troupe.ActorRef{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := troupe.Ask[*wrapperspb.Int64Value](ctx, server, counter, &emptypb.Empty{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Value)
	// Output: 1
}
