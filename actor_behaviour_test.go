package troupe_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An actor puts requests aside until it is ready, and then becomes another one. newDictionary is in fragments_test.go, as in docs/actors.md.
func ExampleActorContext_Become() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("dictionary", newDictionary), troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	dictionary, err := server.Spawn(ctx, "dictionary", troupe.ActorRef{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, word := range []string{"Haus", "Baum"} {
		translated, err := troupe.Ask[*wrapperspb.StringValue](ctx, server, dictionary, wrapperspb.String(word))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(translated.Value)
	}
	// Output:
	// house
	// tree
}

// lamp is on after an Int64Value, and off after another one. It is closed once.
type lamp struct{ closed chan string }

func (l lamp) Receive(c *troupe.ActorContext, message any) {
	switch m := message.(type) {
	case *emptypb.Empty:
		c.Reply(wrapperspb.String("off"))
	case *wrapperspb.StringValue:
		panic(m.Value)
	case *wrapperspb.Int64Value:
		c.Become(lit(l))
	}
}

func (l lamp) Close() error {
	l.closed <- "the lamp is closed"
	return nil
}

type lit lamp

func (l lit) Receive(c *troupe.ActorContext, message any) {
	switch m := message.(type) {
	case *emptypb.Empty:
		c.Reply(wrapperspb.String("on"))
	case *wrapperspb.StringValue:
		panic(m.Value)
	case *wrapperspb.Int64Value:
		c.Become(nil)
	}
}

func (l lit) Close() error {
	l.closed <- "the light is closed"
	return nil
}

func TestBecome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan string, 10)
		c := troupetest.Start(t, map[string]int{"worker": 1},
			troupe.WithActor("lamp", func(*troupe.ActorContext, any) (troupe.Actor, error) { return lamp{closed}, nil }, troupe.Restart{}),
			troupe.WithActor("early", func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
				c.Become(lamp{closed})
				return lamp{closed}, nil
			}))
		server := c.Server("worker:0")
		ref, err := server.Spawn(t.Context(), "lamp", troupe.ActorRef{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := c.Probe("worker:0", "user")
		want := func(state string) {
			t.Helper()
			if got := troupetest.Ask[*wrapperspb.StringValue](p, ref, &emptypb.Empty{}, time.Minute).Value; got != state {
				t.Errorf("it is %s, not %s", got, state)
			}
		}
		want("off")
		p.Send(ref, wrapperspb.Int64(1))
		want("on")
		p.Send(ref, wrapperspb.Int64(1))
		want("off")
		p.Send(ref, wrapperspb.Int64(1))
		want("on")
		p.Send(ref, wrapperspb.String("a panic"))
		want("off") // after the restart
		if text := <-closed; text != "the lamp is closed" || len(closed) > 0 {
			t.Error(text, len(closed))
		}
		if _, err := server.Spawn(t.Context(), "early", troupe.ActorRef{}, nil); status.CodeOf(err) != status.Internal {
			t.Errorf("Become in a maker: %v", err)
		}
	})
}
