package troupe_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A reader whose file is damaged makes the import fail that it belongs to. onReaderFailure is in fragments_test.go, as in docs/actors.md.
func ExampleOnFailure() {
	ctx := context.Background()
	newReader := func(*troupe.ActorContext, any) (troupe.Actor, error) {
		return troupe.Handlers(troupe.Handle(func(c *troupe.ActorContext, _ *emptypb.Empty) {
			c.Crash(status.New(status.DataLoss, "the file is damaged"))
		})), nil
	}
	newImport := func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
		reader, err := c.Spawn("reader", "reader", nil)
		if err != nil {
			return nil, err
		}
		return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
			if err := c.Send(reader, message); err != nil {
				c.Crash(err)
			}
		}), nil
	}
	server, err := troupe.NewLocalServer(ctx, troupe.WithLogger(slog.New(slog.DiscardHandler)), troupe.WithActor("import", newImport),
		troupe.WithActor("reader", newReader, troupe.Restart{Most: 3}, troupe.OnFailure(onReaderFailure)))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	ref, err := server.Spawn(ctx, "import", troupe.ActorAt("local:0", "import"), nil)
	if err != nil {
		log.Fatal(err)
	}
	ended, err := server.WatchActor(ctx, ref)
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Send(ctx, ref, &emptypb.Empty{}); err != nil {
		log.Fatal(err)
	}
	err = (<-ended).Err
	fmt.Println(status.CodeOf(err), err)
	// Output: DATA_LOSS The child reader of the actor import on /job:local/replica:0/task:0 failed: the file is damaged
}

// A decision is a function, which a test can call.
func TestReaderFailures(t *testing.T) {
	damaged, lost := status.New(status.DataLoss, "damaged"), status.New(status.Unavailable, "lost")
	for _, c := range []struct {
		failure troupe.ActorFailure
		want    troupe.ActorDecision
	}{
		{troupe.ActorFailure{Err: damaged}, troupe.DecideEscalate},
		{troupe.ActorFailure{Err: lost, Restarts: 2}, troupe.DecideRestart},
		{troupe.ActorFailure{Err: lost, Restarts: 3, Last: true}, troupe.DecideEscalate},
	} {
		if got := onReaderFailure(c.failure); got != c.want {
			t.Errorf("%+v: %v, not %v", c.failure, got, c.want)
		}
	}
}

// family has kinds of actors: each of the kind N makes one of the kind N+1, and those of the last kind fail with what they get. It
// records what the decisions are asked.
type family struct {
	decide [3]func(troupe.ActorFailure) troupe.ActorDecision
	asked  chan troupe.ActorFailure
	made   chan string
}

func (f *family) options() (all []troupe.Option) {
	for i, decide := range f.decide {
		maker := func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
			f.made <- fmt.Sprint(i)
			if i+1 < len(f.decide) {
				if _, err := c.Spawn(fmt.Sprint(i+1), fmt.Sprint(i+1), nil); err != nil {
					return nil, err
				}
			}
			return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
				if m, ok := message.(*wrapperspb.StringValue); ok && m.Value == "panic" {
					panic("as requested")
				}
				c.Crash(status.Errorf(status.OutOfRange, "too far"))
			}), nil
		}
		opts := []troupe.ActorOption{troupe.Restart{Most: 2, Within: time.Hour, Backoff: time.Second}}
		if decide != nil {
			opts = append(opts, troupe.OnFailure(func(failure troupe.ActorFailure) troupe.ActorDecision {
				f.asked <- failure
				return decide(failure)
			}))
		}
		all = append(all, troupe.WithActor(fmt.Sprint(i), maker, opts...))
	}
	return all
}

func escalates(troupe.ActorFailure) troupe.ActorDecision { return troupe.DecideEscalate }

// start makes the family on a task, and returns the probe that watches each member.
func (f *family) start(t *testing.T) (*troupetest.Cluster, *troupetest.Probe) {
	f.asked, f.made = make(chan troupe.ActorFailure, 100), make(chan string, 100)
	c := troupetest.Start(t, map[string]int{"worker": 1}, f.options()...)
	if _, err := c.Server("worker:0").Spawn(t.Context(), "0", troupe.ActorAt("", "0"), nil); err != nil {
		t.Fatal(err)
	}
	f.wantMade(t, "0 1 2")
	return c, c.Probe("worker:0", "")
}

func (f *family) wantMade(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(f.made) > 0 {
		got = append(got, <-f.made)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("%v are made, not %s", got, want)
	}
}

func relative(i int) troupe.ActorRef {
	return troupe.ActorAt("worker:0", fmt.Sprint(i))
}

// A failure goes up to the first kind that decides otherwise, whose restart makes the family anew.
func TestEscalation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &family{decide: [3]func(troupe.ActorFailure) troupe.ActorDecision{nil, escalates, escalates}}
		c, p := f.start(t)
		for i := range 3 {
			p.Watch(relative(i))
		}
		p.Send(relative(2), wrapperspb.Int64(1))
		for _, i := range []int{2, 1} {
			if err := p.ExpectEnded(relative(i), time.Minute); status.CodeOf(err) != status.OutOfRange {
				t.Errorf("%d ended with %v", i, err)
			}
		}
		first, second := <-f.asked, <-f.asked
		if !first.Actor.Equal(relative(2)) || first.Kind != "2" || first.Child != (troupe.ActorRef{}) || first.Restarts != 0 || first.Last ||
			first.Message.(*wrapperspb.Int64Value).Value != 1 || status.CodeOf(first.Err) != status.OutOfRange {
			t.Errorf("the first failure: %+v", first)
		}
		if !second.Actor.Equal(relative(1)) || !second.Child.Equal(relative(2)) || second.Message != nil || status.CodeOf(second.Err) != status.OutOfRange ||
			!strings.Contains(second.Err.Error(), "The child 2 of the actor 1 on /job:worker/replica:0/task:0 failed: too far") {
			t.Errorf("the second failure: %+v", second)
		}
		p.ExpectNothing(time.Minute)
		f.wantMade(t, "0 1 2")
		for range 2 { // the second one is more than the first kind restarts after
			p.Send(relative(2), wrapperspb.String("panic"))
			time.Sleep(time.Minute) // simulated
		}
		if err := p.ExpectEnded(relative(0), time.Minute); status.CodeOf(err) != status.Internal || strings.Count(err.Error(), "The child") != 2 {
			t.Errorf("0 ended with %v", err)
		}
		f.wantMade(t, "0 1 2")
		_ = c
	})
}

// Decisions know how often the actor was restarted. Without a parent, an actor that escalates ends; one whose decision panics ends, too.
func TestDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &family{decide: [3]func(troupe.ActorFailure) troupe.ActorDecision{escalates,
			func(troupe.ActorFailure) troupe.ActorDecision { return 7 },
			func(f troupe.ActorFailure) troupe.ActorDecision { return troupe.DecideRestart }}}
		_, p := f.start(t)
		p.Watch(relative(2))
		for i := range 3 {
			p.Send(relative(2), wrapperspb.Int64(int64(i)))
			time.Sleep(time.Minute) // simulated
			if failure := <-f.asked; failure.Restarts != i || failure.Last != (i == 2) {
				t.Errorf("failure %d: %+v", i, failure)
			}
		}
		if err := p.ExpectEnded(relative(2), time.Minute); status.CodeOf(err) != status.OutOfRange {
			t.Errorf("2 ended with %v", err)
		}
		f.wantMade(t, "2 2")
		for _, i := range []int{1, 0} {
			p.Watch(relative(i))
			p.Send(relative(i), wrapperspb.Int64(0))
			if err := p.ExpectEnded(relative(i), time.Minute); status.CodeOf(err) != status.OutOfRange {
				t.Errorf("%d ended with %v", i, err)
			}
		}
		f.wantMade(t, "")
	})
}

func TestDecisionText(t *testing.T) {
	if got := fmt.Sprint(troupe.DecideRestart, troupe.DecideEnd, troupe.DecideEscalate, troupe.ActorDecision(7)); got != "restart end escalate ActorDecision(7)" {
		t.Error(got)
	}
	if _, err := troupe.NewLocalServer(t.Context(), troupe.WithActor("x", newSum, troupe.OnFailure(nil))); status.CodeOf(err) != status.InvalidArgument {
		t.Error(err)
	}
}
