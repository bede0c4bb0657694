//go:build unix

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	roleActors = "actors" // a worker with the program's actors, which joins the cluster of roleSeeds
	roleSeeds  = "TROUPE_E2E_SEEDS"
)

// players are actors that add up the numbers they receive. Text names an actor to watch, and is answered when that one
// knows. They answer Empty with the sum, and BoolValue when the actor that they watch has ended. UInt64Value stops them.
func players() troupe.Option {
	return troupe.WithActor("player", func(*troupe.ActorContext, any) (troupe.Actor, error) {
		var sum int64
		var asked *troupe.ActorRequest
		return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
			switch m := message.(type) {
			case *wrapperspb.Int64Value:
				sum += m.Value
			case *wrapperspb.BytesValue:
				sum += int64(len(m.Value))
			case *emptypb.Empty:
				c.Reply(wrapperspb.Int64(sum))
			case *wrapperspb.StringValue:
				ref, err := troupe.ParseActorRef(m.Value)
				if err == nil {
					err = c.Watch(ref)
				}
				if err != nil {
					c.Fail(err)
					return
				}
				// The answer comes after the watch has arrived, which takes a connection.
				asked = c.Keep()
				c.Ask(ref, &emptypb.Empty{}, 20*time.Second, nil)
			case troupe.ActorAnswer:
				if m.Err != nil {
					asked.Fail(m.Err)
					return
				}
				asked.Reply(&emptypb.Empty{})
			case *wrapperspb.BoolValue:
				asked = c.Keep()
			case *wrapperspb.UInt64Value:
				c.Stop()
			case troupe.ActorEnded:
				asked.Reply(wrapperspb.String(fmt.Sprint(m.Actor.Name(), ": ", m.Err)))
			}
		}), nil
	})
}

// playActors is a worker in a process of its own.
func playActors() error {
	s, err := troupe.JoinCluster(context.Background(), []string{os.Getenv(roleSeeds)}, troupe.WithJob("worker"), players(),
		troupe.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	fmt.Println(s.Task())
	return s.Join(context.Background())
}

// player starts a worker with actors and returns its process and task.
func player(t *testing.T, seed string) (*process, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+roleActors, roleSeeds+"="+seed)
	r, w := io.Pipe()
	cmd.Stdout = w
	p, err := launch("worker with actors", cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of a worker:\n%s", p.log.tail())
		}
	})
	go func() {
		<-p.done
		_ = w.Close()
	}()
	task, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, p.log.tail())
	}
	return p, strings.TrimSpace(task)
}

// playingServer returns a server in this process, in a cluster whose two workers have not started yet, and a function that spawns players
// on its tasks.
func playingServer(t *testing.T) (ps *troupe.Server, spawn func(task, name string) troupe.ActorRef) {
	t.Helper()
	addresses := spectest.Addresses(t, 3)
	ps, err := troupe.NewServer(t.Context(), troupe.ClusterSpec{"ps": addresses[:1], "worker": addresses[1:]}, troupe.WithJob("ps"), players(),
		troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ps.Stop(patient(t)); err != nil {
			t.Error(err)
		}
	})
	return ps, func(task, name string) troupe.ActorRef {
		t.Helper()
		ref, err := ps.Spawn(patient(t), "player", troupe.ActorAt(task, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
}

// TestActorsAcrossProcesses runs programs' actors in separate processes, which are killed, frozen and replaced.
func TestActorsAcrossProcesses(t *testing.T) {
	t.Parallel()
	ps, spawn := playingServer(t)
	first, firstTask := player(t, ps.Address())
	second, secondTask := player(t, ps.Address())
	watch := func(ref troupe.ActorRef) <-chan troupe.ActorEnded {
		t.Helper()
		ended, err := ps.WatchActor(patient(t), ref)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	waits := func(ref troupe.ActorRef) <-chan error {
		asked := make(chan error, 1)
		go func() {
			text, err := troupe.Ask[*wrapperspb.StringValue](patient(t), ps, ref, wrapperspb.Bool(true))
			if err == nil {
				err = fmt.Errorf("told of %s", text.Value)
			}
			asked <- err
		}()
		// Later messages arrive after this one, so the question is pending by then.
		if _, err := troupe.Ask[*wrapperspb.Int64Value](patient(t), ps, ref, &emptypb.Empty{}); err != nil {
			t.Fatal(err)
		}
		return asked
	}

	a, b := spawn(firstTask, "a"), spawn(secondTask, "b")
	const many = 20_000
	for i := range many {
		if err := ps.Send(patient(t), a, wrapperspb.Int64(int64(i))); err != nil {
			t.Fatal(err)
		}
		if i%500 == 499 { // keep the queue within its bound
			sum, err := troupe.Ask[*wrapperspb.Int64Value](patient(t), ps, a, &emptypb.Empty{})
			if err != nil || sum.Value != int64(i)*int64(i+1)/2 {
				t.Fatalf("after %d messages: %v, %v", i+1, sum, err)
			}
		}
	}

	// An actor on the second task watches one on the first, which is killed.
	if _, err := troupe.Ask[*emptypb.Empty](patient(t), ps, b, wrapperspb.String(a.String())); err != nil {
		t.Fatal(err)
	}
	ended, toldB, waitsA := watch(a), waits(b), waits(a)
	began := time.Now()
	first.kill()
	if e := <-ended; status.CodeOf(e.Err) != status.Unavailable || !strings.Contains(e.Err.Error(), firstTask) {
		t.Errorf("the watch: %v", e)
	}
	if err := <-waitsA; status.CodeOf(err) != status.Unavailable {
		t.Errorf("who asked the lost actor: %v", err)
	}
	if err := <-toldB; err == nil || !strings.HasPrefix(err.Error(), "told of a: worker "+firstTask) {
		t.Errorf("the actor that watches: %v", err)
	}
	if d := time.Since(began); d > extent.Slack(5*time.Second) {
		t.Errorf("it took %v to tell of the loss", d)
	}

	// Another process claims the task, with fresh actors.
	_, again := player(t, ps.Address())
	if again != firstTask {
		t.Fatalf("the next worker is %s", again)
	}
	if a = spawn(again, "a"); a.Task() != firstTask {
		t.Errorf("%v", a)
	}
	sum, err := troupe.Ask[*wrapperspb.Int64Value](patient(t), ps, a, &emptypb.Empty{})
	if err != nil || sum.Value != 0 {
		t.Errorf("the new actor has %v, %v", sum, err)
	}

	// A frozen process is noticed within seconds.
	ended, waitsB := watch(b), waits(b)
	second.freeze()
	if e := <-ended; status.CodeOf(e.Err) != status.Unavailable {
		t.Errorf("the watch of a frozen one: %v", e)
	}
	if err := <-waitsB; status.CodeOf(err) != status.Unavailable {
		t.Errorf("who asked a frozen actor: %v", err)
	}
	second.signal(syscall.SIGCONT)
}

// TestActorsLeaveRoomToSteps checks that steps go on however many messages are sent to programs' actors.
func TestActorsLeaveRoomToSteps(t *testing.T) {
	addresses := spectest.Addresses(t, 2)
	ps, err := troupe.NewServer(t.Context(), troupe.ClusterSpec{"ps": addresses[:1], "worker": addresses[1:]}, troupe.WithJob("ps"),
		troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ps.Stop(patient(t)); err != nil {
			t.Error(err)
		}
	})
	_, task := player(t, ps.Address())
	session, err := ps.NewSession(t.Context(), graphOf(two(), on(node("there", "Neg", float, "two"), "/job:worker/task:0")), nil)
	if err != nil {
		t.Fatal(err)
	}
	slowest := func() (worst time.Duration) {
		for range 200 {
			began := time.Now()
			out, err := session.Run(patient(t), nil, []string{"there:0"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			out[0].Release()
			worst = max(worst, time.Since(began))
		}
		return worst
	}
	before := slowest()
	ref, err := ps.Spawn(patient(t), "player", troupe.ActorAt(task, ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int)
	go func() {
		n := 0
		for large := wrapperspb.Bytes(make([]byte, 512<<10)); ctx.Err() == nil; n++ {
			if err := ps.Send(ctx, ref, large); err != nil && ctx.Err() == nil {
				t.Errorf("message %d: %v", n, err)
				break
			}
		}
		sent <- n
	}()
	beside := slowest()
	cancel()
	n := <-sent
	t.Logf("the slowest of 200 steps took %v, and %v beside %d messages of 512 KiB", before, beside, n)
	if beside > extent.Slack(time.Second) || n == 0 {
		t.Errorf("a step took %v beside %d messages", beside, n)
	}
}
