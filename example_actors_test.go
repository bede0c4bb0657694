package troupe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/troupe-run/troupe"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An actor of the program's own keeps a sum. On a cluster of many tasks it may live on any of them, and
// be reached from all.
func ExampleWithActor() {
	newSum := func(*troupe.ActorContext, proto.Message) (troupe.Actor, error) {
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

	sum, err := server.Spawn(ctx, "sum", troupe.ActorRef{Task: "/job:local/task:0", Name: "votes"}, nil)
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
