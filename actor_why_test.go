package troupe

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestWhyOfActors has actors of two tasks ask each other in a circle. The explanation follows their requests over both tasks.
func TestWhyOfActors(t *testing.T) {
	asker := WithActor("asker", func(*ActorContext, any) (Actor, error) {
		return Handlers(Answer(func(c *ActorContext, way *wrapperspb.StringValue) (*emptypb.Empty, error) {
			next, rest, _ := strings.Cut(way.Value, " ")
			task, name, _ := strings.Cut(next, "/")
			return Ask[*emptypb.Empty](c.Context(), c.Node(), ActorAt(task, name), wrapperspb.String(rest))
		})), nil
	})
	all := company(t, 2, asker)
	first, err := all[0].Spawn(deadline(t), "asker", ActorAt("", "one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].Spawn(deadline(t), "asker", ActorAt("w:1", "two"), nil); err != nil {
		t.Fatal(err)
	}
	node, err := all[0].running()
	if err != nil {
		t.Fatal(err)
	}
	answered, ctx := make(chan error, 1), deadline(t)
	go func() {
		_, err := Ask[*emptypb.Empty](ctx, all[0], first, wrapperspb.String("w:1/two w:0/one"))
		answered <- err
	}()
	var why []view.Reason
	for len(why) != 1 || !why[0].Deadlock {
		why = view.WhyAsks(node.See(ctx, view.ForAllWhy()), 0)
		select {
		case err := <-answered:
			t.Fatalf("the circle has ended, with %v; the last explanation is %+v", err, why)
		default:
		}
	}
	want := "one on /job:w/replica:0/task:0, two on /job:w/replica:0/task:1, one on /job:w/replica:0/task:0: a deadlock"
	if r := why[0]; !strings.HasSuffix(r.Text, want) || !strings.Contains(r.Text, "one is answering it, and has asked two") || !strings.HasPrefix(r.Actor, "a program") {
		t.Errorf("the explanation is %+v", r)
	}
}
