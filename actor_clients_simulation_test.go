package troupe_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestClientsInSimulatedTime checks how the requests and the waits of a client end with their actor, with its task and with the asked server.
func TestClientsInSimulatedTime(t *testing.T) {
	keepers := troupe.WithActor("keeper", func(*troupe.ActorContext, any) (troupe.Actor, error) {
		return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
			if m, ok := message.(*wrapperspb.StringValue); ok && m.Value == "panic" {
				panic("as it was told")
			} else if ok {
				c.Stop()
				return
			}
			c.Keep()
		}), nil
	})
	for name, test := range map[string]struct {
		task  string // the actor's
		act   func(t *testing.T, c *troupetest.Cluster, actor *client.Actor) error
		ended status.Code
		asked status.Code
		text  string
		lost  bool // the asked server: nothing is known of the actor's end
	}{
		"it ends itself": {"w:1", func(t *testing.T, _ *troupetest.Cluster, a *client.Actor) error {
			return a.Send(t.Context(), wrapperspb.String("stop"))
		}, status.OK, status.NotFound, "has ended", false},
		"it panics": {"w:1", func(t *testing.T, _ *troupetest.Cluster, a *client.Actor) error {
			return a.Send(t.Context(), wrapperspb.String("panic"))
		}, status.Internal, status.Internal, "as it was told", false},
		"it is ended":         {"w:0", func(t *testing.T, _ *troupetest.Cluster, a *client.Actor) error { return a.End(t.Context()) }, status.OK, status.NotFound, "has ended", false},
		"its task is killed":  {"w:1", func(_ *testing.T, c *troupetest.Cluster, _ *client.Actor) error { c.Kill("w:1"); return nil }, status.Unavailable, status.Unavailable, "/job:w/replica:0/task:1", false},
		"its task is cut off": {"w:1", func(_ *testing.T, c *troupetest.Cluster, _ *client.Actor) error { c.Cut("w:0", "w:1"); return nil }, status.Unavailable, status.Unavailable, "/job:w/replica:0/task:1", false},
		"the server stops": {"w:1", func(t *testing.T, c *troupetest.Cluster, _ *client.Actor) error {
			return c.Server("w:0").Stop(t.Context())
		}, status.Cancelled, status.Cancelled, "The server of /job:w/replica:0/task:0 is stopping", false},
		"the server is killed": {"w:1", func(_ *testing.T, c *troupetest.Cluster, _ *client.Actor) error { c.Kill("w:0"); return nil }, status.Unavailable, status.Unavailable, "grpc://10.0.0.1:2222", true},
		"the actor's task stops": {"w:1", func(t *testing.T, c *troupetest.Cluster, _ *client.Actor) error {
			return c.Server("w:1").Stop(t.Context())
		}, status.Unavailable, status.Unavailable, "its server is stopping", false},
		"the actor's own stopped": {"w:0", func(t *testing.T, c *troupetest.Cluster, _ *client.Actor) error {
			return c.Server("w:0").Stop(t.Context())
		}, status.Cancelled, status.Cancelled, "The server of /job:w/replica:0/task:0 is stopping", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := troupetest.Start(t, map[string]int{"w": 2}, keepers)
				actor, err := c.Dial("w:0").SpawnActor(t.Context(), "keeper", test.task, "", nil)
				if err != nil {
					t.Fatal(err)
				}
				type result struct{ ended, err error }
				waited, asked := make(chan result, 1), make(chan error, 1)
				go func() {
					ended, err := actor.Wait(t.Context())
					waited <- result{ended, err}
				}()
				go func() {
					_, err := client.Ask[proto.Message](t.Context(), actor, &emptypb.Empty{})
					asked <- err
				}()
				synctest.Wait() // the watch is in place, and the request is kept
				if err := test.act(t, c, actor); err != nil {
					t.Fatal(err)
				}
				w := <-waited
				if test.lost {
					w.ended, w.err = w.err, w.ended
				}
				if status.CodeOf(w.ended) != test.ended || w.err != nil {
					t.Errorf("the wait ended with %v, %v, want %v", w.ended, w.err, test.ended)
				}
				if err := <-asked; status.CodeOf(err) != test.asked || !strings.Contains(fmt.Sprint(err), test.text) {
					t.Errorf("the request ended with %v, want %v, %q", err, test.asked, test.text)
				}
			})
		})
	}
}

// TestClientsGiveUp checks that a client's deadline and its cancellation end its request.
func TestClientsGiveUp(t *testing.T) {
	for _, task := range []string{"w:0", "w:1"} {
		synctest.Test(t, func(t *testing.T) {
			kept := make(chan *troupe.ActorRequest, 2)
			keeper := troupe.WithActor("keeper", func(*troupe.ActorContext, any) (troupe.Actor, error) {
				return troupe.ActorFunc(func(c *troupe.ActorContext, _ any) { kept <- c.Keep() }), nil
			})
			c := troupetest.Start(t, map[string]int{"w": 2}, keeper)
			actor, err := c.Dial("w:0").SpawnActor(t.Context(), "keeper", task, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := client.Ask[proto.Message](ctx, actor, &emptypb.Empty{}); status.CodeOf(err) != status.DeadlineExceeded || time.Since(began) != time.Minute {
				t.Errorf("a deadline of a minute: %v after %v", err, time.Since(began))
			}
			ctx, cancel = context.WithCancel(t.Context())
			asked := make(chan error)
			go func() {
				_, err := client.Ask[proto.Message](ctx, actor, &emptypb.Empty{})
				asked <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-asked; status.CodeOf(err) != status.Cancelled {
				t.Errorf("a cancellation: %v", err)
			}
			for range 2 {
				if err := (<-kept).Reply(&emptypb.Empty{}); err != nil { // nobody waits for it
					t.Error(err)
				}
			}
		})
	}
}
