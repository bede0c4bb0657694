package troupe_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Each part of a program ensures that the actor is there, and none has to be the first. newSum is in fragments_test.go, as in docs/actors.md.
func ExampleServer_Ensure() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("sum", newSum), troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	for range 2 {
		votes, err := server.Ensure(ctx, "sum", troupe.ActorAt("local:0", "votes"), nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := server.Send(ctx, votes, wrapperspb.Int64(3)); err != nil {
			log.Fatal(err)
		}
		sum, err := troupe.Ask[*wrapperspb.Int64Value](ctx, server, votes, &emptypb.Empty{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(votes, sum.Value)
	}
	// Output:
	// /job:local/replica:0/task:0/actor:votes 3
	// /job:local/replica:0/task:0/actor:votes 6
}

// However many tasks and clients ensure an actor at once, it is made once. A task that comes back makes it anew.
func TestEnsureOnEachTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		c := troupetest.Start(t, map[string]int{"worker": 3}, troupe.WithActor("sum", func(a *troupe.ActorContext, arguments any) (troupe.Actor, error) {
			made.Add(1)
			return newSum(a, arguments)
		}), troupe.WithActor("other", newSum))
		at := troupe.ActorAt("worker:2", "votes")
		all := func() {
			t.Helper()
			made.Store(0)
			done := make(chan error, 12)
			for i := range 12 {
				go func() {
					ref, err := c.Server(fmt.Sprint("worker:", i%3)).Ensure(t.Context(), "sum", at, nil)
					if err == nil && ref != at {
						err = fmt.Errorf("it is %v", ref)
					}
					done <- err
				}()
			}
			for range 12 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			if made.Load() != 1 {
				t.Errorf("%d actors were made", made.Load())
			}
		}
		all()
		if _, err := c.Server("worker:0").Ensure(t.Context(), "other", at, nil); status.CodeOf(err) != status.AlreadyExists {
			t.Error(err)
		}
		outside := c.Dial("worker:1")
		votes, err := outside.EnsureActor(t.Context(), "sum", "worker:2", "votes", nil)
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := client.Ask[*wrapperspb.Int64Value](t.Context(), votes, &emptypb.Empty{}); err != nil || sum.Value != 0 {
			t.Errorf("the sum is %v, %v", sum, err)
		}
		if _, err := outside.EnsureActor(t.Context(), "sum", "worker:2", "", nil); status.CodeOf(err) != status.InvalidArgument {
			t.Error(err)
		}
		c.Kill("worker:2")
		c.Restart("worker:2")
		all()
	})
}
