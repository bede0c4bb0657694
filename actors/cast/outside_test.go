package cast

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// street is the connection to processes outside the cluster. It keeps what is sent.
type street struct{ sent chan string }

func (s street) Reach(context.Context, string) (Way, error) { return s, nil }
func (s street) Watch(func(string, error))                  {}
func (s street) Break(string, string)                       {}

func (s street) Post(_ context.Context, m *Letter) error {
	s.sent <- fmt.Sprintf("%s %s", m.To, m.Message.ProtoReflect().Descriptor().FullName())
	return nil
}
func (s street) Ended() bool { return false }

func (s street) TryPost(ctx context.Context, m *Letter) error { return s.Post(ctx, m) }

// stuck is an actor that blocks in its first message until released.
type stuck struct {
	handled int
	letGo   <-chan struct{}
}

func (s *stuck) Receive(*Context, any) {
	s.handled++
	<-s.letGo
}
func (s *stuck) Close() error { return nil }

// TestOutsiderMeetsAFullQueue checks that a process outside the cluster can fill an actor's queue up to its bound and no further: it is
// then not read for a while, and messages without room are refused.
func TestOutsiderMeetsAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
		defer system.Shutdown()
		letGo, out := make(chan struct{}), street{make(chan string, 10)}
		slow := &stuck{letGo: letGo}
		var refused []string
		s := New(Config{System: system, Self: "/job:a/task:0", Tasks: []string{"/job:a/task:0"}, Transport: out, Log: log,
			Kinds:     map[string]Maker{"stuck": {Make: func(*Context, proto.Message) (Actor, error) { return slow, nil }}},
			Outsiders: true, Address: "here:1", Refused: func(target, message, from string) { refused = append(refused, target+" "+message+" "+from) }})
		ctx := t.Context()
		if _, err := s.Spawn(ctx, "stuck", Ref{Name: "slow"}, nil); err != nil {
			t.Fatal(err)
		}
		send := func(n int, m proto.Message) time.Duration {
			kind := kindOf(m)
			switch m.(type) {
			case *actor.Stop, *actor.PoisonPill:
				kind.System = true
			}
			begun := time.Now()
			for range n {
				s.ReceiveOutside(ctx, "there:2", []Letter{{To: "slow", From: "asker", Kind: kind}})
			}
			return time.Since(begun)
		}
		send(1, &emptypb.Empty{})
		synctest.Wait() // the actor has it
		if took := send(MaxQueued, &emptypb.Empty{}); took != 0 {
			t.Errorf("a queue of %d was filled after %v", MaxQueued, took)
		}
		if took := send(1, &emptypb.Empty{}); took != outsiderPatience {
			t.Errorf("one too many waited for %v, not %v", took, outsiderPatience)
		}
		synctest.Wait()
		if told := <-out.sent; told != "asker actor.DeadLetterResponse" {
			t.Errorf("its sender was told %s", told)
		}
		send(1, &actor.Stop{})
		send(1, &actor.PoisonPill{})
		if want := []string{"slow actor.Stop there:2", "slow actor.PoisonPill there:2"}; !slices.Equal(refused, want) {
			t.Errorf("refused were %q, not %q", refused, want)
		}
		close(letGo)
		if err := s.End(ctx, Ref{Name: "slow"}); err != nil {
			t.Fatal(err)
		}
		if slow.handled != 1+MaxQueued {
			t.Errorf("the actor handled %d messages of %d", slow.handled, 1+MaxQueued)
		}
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}
