package troupe

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An actor whose kind restarts begins afresh with its arguments after a panic, and is listed with its restarts.
func TestActorsThatRestart(t *testing.T) {
	parallel(t)
	all := company(t, 2, WithActor("phoenix", func(_ *ActorContext, arguments any) (Actor, error) {
		sum := arguments.(*wrapperspb.Int64Value).Value
		return ActorFunc(func(c *ActorContext, message any) {
			switch m := message.(type) {
			case *wrapperspb.Int64Value:
				sum += m.Value
			case *emptypb.Empty:
				c.Reply(wrapperspb.Int64(sum))
			case *wrapperspb.StringValue:
				if m.Value == "crash" {
					c.Crash(status.Errorf(status.DataLoss, "broken"))
					return
				}
				panic(m.Value)
			}
		}), nil
	}, Restart{Most: 2, Backoff: time.Millisecond}))
	ref, err := all[0].Spawn(deadline(t), "phoenix", ActorAt(all[1].Task(), "p"), wrapperspb.Int64(5))
	if err != nil {
		t.Fatal(err)
	}
	ended, err := all[0].WatchActor(deadline(t), ref)
	if err != nil {
		t.Fatal(err)
	}
	for text, code := range map[string]status.Code{"panic": status.Internal, "crash": status.DataLoss} {
		if err := all[0].Send(deadline(t), ref, wrapperspb.Int64(2)); err != nil {
			t.Fatal(err)
		}
		if got := sum(t, all[0], ref); got != 7 {
			t.Errorf("the sum is %d", got)
		}
		if _, err := Ask[*emptypb.Empty](deadline(t), all[0], ref, wrapperspb.String(text)); status.CodeOf(err) != code {
			t.Errorf("%s: %v", text, err)
		}
		if got := sum(t, all[0], ref); got != 5 {
			t.Errorf("after a restart the sum is %d", got)
		}
	}
	list := actorsOf(t, all[1])
	found := false
	for _, a := range list.Actors {
		if a.Kind == "program/phoenix" {
			found = true
			if a.Restarts != 2 || a.Panics != 1 {
				t.Errorf("%+v", a)
			}
		}
	}
	if !found {
		t.Errorf("%+v", list.Actors)
	}
	if _, err := Ask[*emptypb.Empty](deadline(t), all[0], ref, wrapperspb.String("crash")); status.CodeOf(err) != status.DataLoss {
		t.Errorf("one failure too many: %v", err)
	}
	if e := told(t, ended); status.CodeOf(e.Err) != status.DataLoss {
		t.Errorf("%+v", e)
	}
}

func TestRestartOption(t *testing.T) {
	for _, r := range []Restart{{Most: -1}, {Within: -1}, {Backoff: -1}, {MaxBackoff: -1}} {
		_, err := NewLocalServer(t.Context(), WithActor("a", nil, r), silent)
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "Restart") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
