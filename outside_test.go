package troupe

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// outsiderEnv, set to the address of a task, makes the test binary a program that only knows protoactor-go.
const outsiderEnv = "TROUPE_TEST_OUTSIDER"

// runOutsider executes the commands on the lines of its input. It prints a line for each, and what its watcher
// receives.
func runOutsider(task string) {
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	remote.NewRemote(system, remote.Configure("127.0.0.1", 0)).Start()
	props := actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *wrapperspb.StringValue:
			c.Respond(wrapperspb.String(m.Value + " back"))
		case *actor.PID:
			c.Watch(m)
		case *actor.Terminated:
			fmt.Println("terminated", m.Who.Id, m.Why)
		}
	})
	echo, err := system.Root.SpawnNamed(props, "echo")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(system.Address())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		pid := actor.NewPID(task, words[1])
		switch words[0] {
		case "ask":
			answer, err := system.Root.RequestFuture(pid, &emptypb.Empty{}, 5*time.Second).Result()
			if m, ok := answer.(*wrapperspb.Int64Value); ok {
				answer = m.Value
			}
			fmt.Println("answer", answer, err)
		case "send":
			n, _ := strconv.Atoi(words[2])
			for range n {
				system.Root.Send(pid, wrapperspb.Int64(1))
			}
			fmt.Println("sent")
		case "watch":
			system.Root.Send(echo, pid)
			fmt.Println("watching")
		case "stop":
			system.Root.Stop(pid)
			system.Root.Poison(pid)
			fmt.Println("stopped")
		case "end":
			system.Root.Stop(echo)
			fmt.Println("ended")
		}
	}
}

// outsider is a process that runs runOutsider.
type outsider struct {
	t       *testing.T
	address string
	cmd     *exec.Cmd
	say     func(line string)
	lines   chan string
}

func startOutsider(t *testing.T, task string) *outsider {
	t.Helper()
	o := &outsider{t: t, lines: make(chan string, 100)}
	o.cmd = exec.Command(os.Args[0])
	o.cmd.Env = append(os.Environ(), outsiderEnv+"="+task)
	o.cmd.Stderr = os.Stderr
	in, err := o.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o.say = func(line string) {
		if _, err := fmt.Fprintln(in, line); err != nil {
			t.Error(err)
		}
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			o.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		o.kill()
		<-read
	})
	o.address = o.next()
	if _, _, err := net.SplitHostPort(o.address); err != nil {
		t.Fatal(o.address)
	}
	return o
}

func (o *outsider) kill() {
	if o.cmd.ProcessState == nil {
		_ = o.cmd.Process.Kill() // it may have ended
		_ = o.cmd.Wait()         // it was killed
	}
}

func (o *outsider) next() string {
	o.t.Helper()
	select {
	case line := <-o.lines:
		return line
	case <-deadline(o.t).Done():
		o.t.Fatal("the process outside says nothing")
		panic("unreachable")
	}
}

func (o *outsider) expect(say, want string) {
	o.t.Helper()
	if say != "" {
		o.say(say)
	}
	if got := o.next(); got != want {
		o.t.Errorf("%s: %q, want %q", say, got, want)
	}
}

// A program that only knows protoactor-go's remoting exchanges messages with the program's actors if outsiders are
// allowed, and with nothing else.
func TestOutsidersMeetActors(t *testing.T) {
	s := company(t, 1, counters, WithOutsiders(true))[0]
	ref := spawnTest(t, s, "counter", "counter")
	o := startOutsider(t, s.Address())
	o.expect("ask counter", "answer 0 <nil>")
	o.expect("send counter 5000", "sent")
	o.expect("ask counter", "answer 5000 <nil>")
	if got := sum(t, s, ref); got != 5000 {
		t.Errorf("%d is counted", got)
	}
	// It reaches neither the runtime's own actors nor the actor system's, nor actors that do not exist.
	for _, name := range []string{"nobody", "master", "worker", "directory", "cast", "cast/1", "eventstream"} {
		o.expect("ask "+name, "answer <nil> future: dead letter")
	}
	o.expect("stop counter", "stopped")
	o.expect("stop worker", "stopped")
	o.expect("ask counter", "answer 5000 <nil>")
	// Watching, in both directions.
	o.expect("watch nobody", "watching")
	o.expect("", "terminated nobody Stopped") // the library's watcher always gets the same reason
	o.expect("watch counter", "watching")
	o.expect("ask counter", "answer 5000 <nil>") // it arrives after the watch
	if err := s.EndActor(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	o.expect("", "terminated counter Stopped")
	there := ActorAt(o.address, "echo")
	answer, err := Ask[*wrapperspb.StringValue](deadline(t), s, there, wrapperspb.String("there and"))
	if err != nil || answer.Value != "there and back" {
		t.Errorf("%v, %v", answer, err)
	}
	if _, err := Ask[*wrapperspb.StringValue](deadline(t), s, ActorAt(o.address, "nobody"), wrapperspb.String("")); status.CodeOf(err) != status.NotFound {
		t.Errorf("asking nobody: %v", err)
	}
	if _, err := s.Spawn(deadline(t), "counter", there, nil); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("spawning: %v", err)
	}
	ended, err := s.WatchActor(deadline(t), there)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ask[*wrapperspb.StringValue](deadline(t), s, there, wrapperspb.String("behind the watch")); err != nil {
		t.Error(err)
	}
	o.expect("end echo", "ended")
	if e := told(t, ended); e.Err != nil || e.Actor != there {
		t.Errorf("%v", e)
	}
	if ended, err = s.WatchActor(deadline(t), there); err != nil {
		t.Fatal(err)
	}
	if e := told(t, ended); status.CodeOf(e.Err) != status.NotFound {
		t.Errorf("the second watch: %v", e)
	}
}

// Actors that ask or watch a process outside are notified when it is gone.
func TestOutsidersThatDie(t *testing.T) {
	asked := make(chan struct{}, 1)
	s := company(t, 1, counters, WithOutsiders(true))[0]
	o := startOutsider(t, s.Address())
	there := ActorAt(o.address, "echo")
	if _, err := Ask[*wrapperspb.StringValue](deadline(t), s, there, wrapperspb.String("")); err != nil {
		t.Fatal(err)
	}
	ended, err := s.WatchActor(deadline(t), there)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		asked <- struct{}{}
		_, err := Ask[*emptypb.Empty](deadline(t), s, there, wrapperspb.Int64(1)) // which it does not answer
		failed <- err
	}()
	<-asked
	o.kill()
	if e := told(t, ended); status.CodeOf(e.Err) != status.Unavailable {
		t.Errorf("%v", e)
	}
	if err := <-failed; status.CodeOf(err) != status.Unavailable {
		t.Errorf("%v", err)
	}
	// A connection that is broken may still accept a message until the break is noticed.
	ctx := deadline(t)
	for err = nil; err == nil; {
		err = s.Send(ctx, there, wrapperspb.Int64(1))
	}
	if status.CodeOf(err) != status.Unavailable {
		t.Errorf("%v", err)
	}
}

// Without the option outsiders are refused, and nothing is sent to them.
func TestOutsidersAreTurnedAway(t *testing.T) {
	parallel(t)
	s := company(t, 1, counters)[0]
	ref := spawnTest(t, s, "counter", "counter")
	o := startOutsider(t, s.Address())
	o.expect("send counter 10", "sent")
	o.say("ask counter")
	if got := o.next(); !strings.HasPrefix(got, "answer <nil> future: ") { // timeout, or dead letter
		t.Error(got)
	}
	if got := sum(t, s, ref); got != 0 {
		t.Errorf("%d is counted", got)
	}
	if err := s.Send(deadline(t), ActorAt(o.address, "echo"), wrapperspb.Int64(1)); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("%v", err)
	}
}

// With a policy, an outside process exchanges messages with actors only while its rule has the action.
func TestPolicyDecidesAboutOutsiders(t *testing.T) {
	parallel(t)
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(may string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("rules:\n  - {who: loopback, may: ["+may+"]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("open")
	quiet := slog.New(slog.DiscardHandler)
	policy, err := access.LoadPolicy(access.PolicyConfig{File: path, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(policy.Close)
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	audit, err := access.OpenAudit(log, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := audit.Close(); err != nil {
			t.Error(err)
		}
	})
	s := company(t, 1, counters, WithOutsiders(true), WithPolicy(policy), WithAudit(audit))[0]
	ref := spawnTest(t, s, "counter", "counter")
	refused := func(o *outsider) {
		t.Helper()
		o.say("ask counter")
		if got := o.next(); !strings.HasPrefix(got, "answer <nil> future: ") { // timeout, or dead letter
			t.Error(got)
		}
	}
	refused(startOutsider(t, s.Address()))
	write("open, actors")
	if err := policy.Reload(); err != nil {
		t.Fatal(err)
	}
	o := startOutsider(t, s.Address())
	o.expect("ask counter", "answer 0 <nil>")
	write("open")
	if err := policy.Reload(); err != nil {
		t.Fatal(err)
	}
	o.expect("send counter 10", "sent")
	refused(o)
	if got := sum(t, s, ref); got != 0 {
		t.Errorf("%d is counted", got)
	}
	lines, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if want := "loopback may not exchange messages with actors: the rule at policy.yaml:2"; strings.Count(string(lines), want) < 2 {
		t.Errorf("the audit log does not say %q twice:\n%s", want, lines)
	}
}

func spawnTest(t *testing.T, s *Server, kind, name string) ActorRef {
	t.Helper()
	ref, err := s.Spawn(context.WithoutCancel(deadline(t)), kind, ActorAt("", name), proto.Message(nil))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}
