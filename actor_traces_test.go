package troupe

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// chained are actors that pass a message on to the actor of their argument, in the way that the message asks for. The last one, which has no argument, reports
// what it gets to done.
func chained(done chan<- struct{}) Option {
	return WithActor("chained", func(c *ActorContext, arguments any) (Actor, error) {
		next, last := arguments.(*wrapperspb.StringValue)
		to, stashed := ActorAt("w:1", next.GetValue()), false
		if c.Self().Name() == "subscriber" {
			if err := c.Subscribe("topic"); err != nil {
				return nil, err
			}
		}
		return ActorFunc(func(c *ActorContext, message any) {
			var err error
			how, _ := message.(*wrapperspb.StringValue)
			replies := last && how != nil
			switch {
			case !last:
				if asked := c.Keep(); asked != nil {
					err = asked.Reply(&emptypb.Empty{})
				}
				done <- struct{}{}
			case how == nil: // the answer to an Ask
			case how.Value == "ask":
				_, err = Ask[*emptypb.Empty](c.Context(), c.Node(), to, message)
			case how.Value == "ask later":
				c.Ask(to, message, time.Minute, nil)
			case how.Value == "send":
				err = c.Send(to, message)
			case how.Value == "stash" && !stashed:
				stashed, replies = true, false
				err = c.Stash()
				c.Unstash()
			case how.Value == "stash":
				err = c.Send(to, message)
			case how.Value == "publish":
				err = c.Publish("topic", message)
			case how.Value == "forward":
				replies = false
				err = c.Forward(to)
			case how.Value == "keep":
				replies = false
				kept := c.Keep()
				go func() {
					if _, err := Ask[*emptypb.Empty](kept.Context(), c.Node(), to, message); err != nil {
						panic(err)
					}
					if err := kept.Reply(&emptypb.Empty{}); err != nil {
						panic(err)
					}
				}()
			case how.Value == "fail":
				replies = false
				done <- struct{}{}
				err = c.Fail(status.New(status.DataLoss, "lost"))
			}
			if err == nil && replies {
				err = c.Reply(&emptypb.Empty{})
			}
			if err != nil {
				panic(err)
			}
		}), nil
	})
}

// newProvider returns a provider that records all traces, and where their spans are.
func newProvider(t *testing.T) (*tracetest.InMemoryExporter, *sdk.TracerProvider) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return exporter, provider
}

// TestTracesOfActors checks which spans messages to actors have that belong to a trace, and that they are below the right ones, for each way in which an actor
// passes a message on to one of another task. Messages that belong to none have no spans.
func TestTracesOfActors(t *testing.T) {
	exporter, provider := newProvider(t)
	done := make(chan struct{}, 10)
	all := company(t, 2, chained(done), WithTraces(provider))
	spawn := func(name, at, next string) ActorRef {
		var arguments any
		if next != "" {
			arguments = wrapperspb.String(next)
		}
		ref, err := all[0].Spawn(deadline(t), "chained", ActorAt(at, name), arguments)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	spawn("second", "w:1", "")
	spawn("subscriber", "w:1", "")
	first := spawn("first", "w:0", "second")
	for how, want := range map[string][]string{ // each span below those before it with one letter less
		"ask":       {"ask first", " handle first", "  ask second", "   handle second"},
		"ask later": {"ask first", " handle first", "  ask second", "   handle second"},
		"keep":      {"ask first", " handle first", "  ask second", "   handle second"},
		"send":      {"ask first", " handle first", "  handle second"},
		"forward":   {"ask first", " handle first", "  handle second"},
		"publish":   {"ask first", " handle first", "  handle subscriber"},
		"stash":     {"ask first", " handle first", " handle first", "  handle second"},
		"fail":      {"ask first: lost", " handle first"},
	} {
		t.Run(how, func(t *testing.T) {
			exporter.Reset()
			ask := func(ctx context.Context) error {
				_, err := Ask[*emptypb.Empty](ctx, all[0], first, wrapperspb.String(how))
				<-done
				if how == "fail" && status.CodeOf(err) == status.DataLoss {
					err = nil
				}
				return err
			}
			ctx, span := provider.Tracer("a program").Start(deadline(t), "program")
			err := errors.Join(ask(ctx), ask(deadline(t))) // the second one belongs to no trace
			span.End()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for over := time.Now().Add(20 * time.Second); len(got) < len(want) && time.Now().Before(over); runtime.Gosched() { // handlers go on when they have answered
				got = tree(exporter.GetSpans())
			}
			if !slices.Equal(got, want) {
				t.Errorf("the spans are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if n := len(exporter.GetSpans()); n != len(want)+1 {
				t.Errorf("there are %d spans, not %d and the program's", n, len(want))
			}
		})
	}
}

// tree returns the spans of actors below that of the program, each after the one that it is below and with a space more.
func tree(all tracetest.SpanStubs) (lines []string) {
	var list func(parent tracetest.SpanStub, indent string)
	list = func(parent tracetest.SpanStub, indent string) {
		var children []string
		for _, s := range all {
			if !below(s, parent) {
				continue
			}
			line := indent + strings.TrimPrefix(s.Name, "troupe.") + " " + attributeOf(s, "troupe.actor").(string)
			if s.Status.Code == codes.Error {
				line += ": " + s.Status.Description
			}
			before := len(lines)
			lines = append(lines, line)
			list(s, indent+" ")
			children = append(children, strings.Join(lines[before:], "\n"))
			lines = lines[:before]
		}
		slices.Sort(children)
		lines = append(lines, children...)
	}
	for _, s := range all {
		if s.Name == "program" {
			list(s, "")
		}
	}
	return strings.Split(strings.Join(lines, "\n"), "\n")
}

// TestTracesOfPools checks that requests that wait in a pool go on to a worker within their own traces.
func TestTracesOfPools(t *testing.T) {
	exporter, provider := newProvider(t)
	gate, done := make(chan struct{}), make(chan struct{}, 2)
	worker := WithActor("worker", func(*ActorContext, any) (Actor, error) {
		return Handlers(Answer(func(*ActorContext, *emptypb.Empty) (*emptypb.Empty, error) {
			<-gate
			return &emptypb.Empty{}, nil
		})), nil
	})
	pool := ActorAt("w:0", "pool")
	asker := WithActor("asker", func(*ActorContext, any) (Actor, error) {
		return ActorFunc(func(c *ActorContext, message any) {
			switch message.(type) {
			case *emptypb.Empty:
				for range 2 {
					c.Ask(pool, &emptypb.Empty{}, time.Minute, nil)
				}
				close(gate) // both requests have arrived in the pool, and one of them is with its worker
			case ActorAnswer:
				done <- struct{}{}
			}
		}), nil
	})
	s := company(t, 1, worker, asker, WithActor("pool", Pool{Kind: "worker", Total: 1, InFlight: 1}.Make), WithTraces(provider))[0]
	for _, kind := range []string{"pool", "asker"} {
		if _, err := s.Spawn(deadline(t), kind, ActorAt("w:0", kind), nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, span := provider.Tracer("a program").Start(deadline(t), "program")
	if err := s.Send(ctx, ActorAt("w:0", "asker"), &emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	<-done
	<-done
	span.End()
	one := []string{" ask pool", "  handle pool", "   ask worker", "    handle worker"}
	want := append([]string{"handle asker"}, append(one, one...)...)
	var got []string
	for over := time.Now().Add(20 * time.Second); len(got) < len(want) && time.Now().Before(over); runtime.Gosched() {
		got = tree(exporter.GetSpans())
	}
	for i, line := range got {
		if strings.Contains(line, " pool-") { // the pool has named it
			got[i] = line[:strings.LastIndex(line, " ")] + " worker"
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the spans are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
