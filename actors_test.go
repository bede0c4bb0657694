package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// company starts n tasks of the job w in this process, all with the same options.
func company(t *testing.T, tasks int, opts ...Option) []*Server {
	t.Helper()
	return companyEach(t, tasks, func(int) []Option { return opts })
}

// companyEach is company with options for each task.
func companyEach(t *testing.T, tasks int, opts func(task int) []Option) []*Server {
	t.Helper()
	cluster := ClusterSpec{"w": spectest.Addresses(t, tasks)}
	var all []*Server
	for i := range tasks {
		s, err := NewServer(t.Context(), cluster, append([]Option{WithTask(i), WithStart(false), silent}, opts(i)...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, s) })
		all = append(all, s)
	}
	startAtOnce(t, all)
	return all
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(30*time.Second))
	t.Cleanup(cancel)
	return ctx
}

// counters add up numbers and answers each request with the sum so far. The texts "panic", "stop" and "fail" make it do
// that.
var counters = WithActor("counter", func(c *ActorContext, arguments any) (Actor, error) {
	var sum int64
	if start, ok := arguments.(*wrapperspb.Int64Value); ok {
		if sum = start.Value; sum < 0 {
			return nil, status.InvalidArgumentf("a sum of %d is impossible", sum)
		}
	}
	return ActorFunc(func(c *ActorContext, message any) {
		switch m := message.(type) {
		case *wrapperspb.Int64Value:
			sum += m.Value
		case *emptypb.Empty:
			if err := c.Reply(wrapperspb.Int64(sum)); err != nil {
				panic(err)
			}
		case *wrapperspb.StringValue:
			switch m.Value {
			case "panic":
				panic("as it was told")
			case "stop":
				c.Stop()
			case "fail":
				if err := c.Fail(status.Errorf(status.OutOfRange, "no text")); err != nil {
					panic(err)
				}
			}
		}
	}), nil
})

func sum(t *testing.T, s *Server, ref ActorRef) int64 {
	t.Helper()
	v, err := Ask[*wrapperspb.Int64Value](deadline(t), s, ref, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	return v.Value
}

// Each task spawns an actor on each task, which receives messages in order and answers.
func TestActorsOfTheProgram(t *testing.T) {
	parallel(t)
	all := company(t, 3, counters)
	for i, from := range all {
		for j, on := range all {
			ref, err := from.Spawn(deadline(t), "counter", ActorAt(fmt.Sprintf("/job:w/task:%d", j), fmt.Sprintf("of %d", i)), nil)
			if status.CodeOf(err) != status.InvalidArgument {
				t.Fatalf("a name with a space: %v, %v", ref, err)
			}
			ref, err = from.Spawn(deadline(t), "counter", ActorAt(fmt.Sprintf("/job:w/task:%d", j), fmt.Sprintf("of%d", i)), wrapperspb.Int64(5))
			if err != nil {
				t.Fatal(err)
			}
			if !ref.Equal(ActorAt(on.Task(), ref.Name())) {
				t.Errorf("it is %v", ref)
			}
			for n := range 100 {
				if err := from.Send(deadline(t), ref, wrapperspb.Int64(int64(n))); err != nil {
					t.Fatal(err)
				}
			}
			if got := sum(t, from, ref); got != 5+4950 {
				t.Errorf("the sum on %s from %s is %d", on.Task(), from.Task(), got)
			}
			if again, err := ParseActorRef(ref.String()); err != nil || again != ref {
				t.Errorf("%v became %v, %v", ref, again, err)
			}
		}
	}
	if got := sum(t, all[2], ActorAt(all[1].Task(), "of0")); got != 4955 {
		t.Errorf("through a third task the sum is %d", got)
	}
	for text, want := range map[string]string{"fail": "no text", "panic": "panicked: as it was told", "stop": "has ended"} {
		ref, err := all[0].Spawn(deadline(t), "counter", ActorAt(all[1].Task(), ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Ask[*emptypb.Empty](deadline(t), all[0], ref, wrapperspb.String(text))
		if err == nil || !strings.Contains(err.Error(), want) || (status.CodeOf(err) == status.OutOfRange) != (text == "fail") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Ask[*emptypb.Empty](deadline(t), all[0], ActorAt(all[1].Task(), "of0"), &emptypb.Empty{}); status.CodeOf(err) != status.InvalidArgument ||
		!strings.Contains(err.Error(), "*wrapperspb.Int64Value, not a *emptypb.Empty") {
		t.Errorf("an answer of another type: %v", err)
	}
}

func TestActorsThatCannotBe(t *testing.T) {
	parallel(t)
	all := company(t, 2, counters)
	at := func(task int, name string) ActorRef { return ActorAt(all[task].Task(), name) }
	for task := range all {
		if _, err := all[0].Spawn(deadline(t), "counter", at(task, "a"), nil); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			kind string
			at   ActorRef
			args proto.Message
			code status.Code
			want string
		}{
			{"counter", at(task, "a"), nil, status.AlreadyExists, "There is an actor a already on " + all[task].Task() + `, of kind "counter"`},
			{"painter", at(task, "b"), nil, status.NotFound, `no actors of kind "painter"; it has counter`},
			{"counter", at(task, "b"), wrapperspb.Int64(-1), status.InvalidArgument, "a sum of -1 is impossible"},
			{"counter", at(task, "?b"), nil, status.InvalidArgument, "is not a name"},
			{"counter", at(task, strings.Repeat("x", 257)), nil, status.InvalidArgument, "is not a name"},
			{"counter", at(task, "b"), wrapperspb.String(strings.Repeat("x", MaxActorMessage)), status.ResourceExhausted, "the limit is 1048576"},
			{"counter", ActorAt("/job:x/task:0", "b"), nil, status.InvalidArgument, "not a task of the cluster"},
			{"counter", ActorAt("w", "b"), nil, status.InvalidArgument, "as a task name"},
		} {
			if _, err := all[0].Spawn(deadline(t), c.kind, c.at, c.args); status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s at %v: %v: %v", c.kind, c.at, status.CodeOf(err), err)
			}
		}
		if _, err := Ask[*emptypb.Empty](deadline(t), all[0], at(task, "b"), &emptypb.Empty{}); status.CodeOf(err) != status.NotFound {
			t.Errorf("an actor that is not there: %v", err)
		}
		if err := all[0].EndActor(deadline(t), at(task, "b")); status.CodeOf(err) != status.NotFound {
			t.Errorf("the end of one that is not there: %v", err)
		}
		large := wrapperspb.String(strings.Repeat("x", MaxActorMessage))
		if err := all[0].Send(deadline(t), at(task, "a"), large); status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("a message that is too large: %v", err)
		}
		if err := all[0].Send(deadline(t), at(task, "a"), nil); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("no message: %v", err)
		}
		// Its name is free once it has ended.
		if err := all[0].EndActor(deadline(t), at(task, "a")); err != nil {
			t.Fatal(err)
		}
		if _, err := all[0].Spawn(deadline(t), "counter", at(task, "a"), wrapperspb.Int64(7)); err != nil {
			t.Fatal(err)
		}
		if got := sum(t, all[1], at(task, "a")); got != 7 {
			t.Errorf("the new one has %d", got)
		}
	}
}

// told waits for the report of a watch.
func told(t *testing.T, ended <-chan ActorEnded) ActorEnded {
	t.Helper()
	select {
	case e, ok := <-ended:
		if !ok {
			t.Fatal("the watch ended without a word")
		}
		return e
	case <-deadline(t).Done():
		t.Fatal("nobody told of the end")
	}
	return ActorEnded{}
}

func TestWatchingActors(t *testing.T) {
	parallel(t)
	all := company(t, 3, counters)
	for task, on := range all[:2] {
		for _, c := range []struct {
			end  func(ref ActorRef) error
			code status.Code
		}{
			{func(ref ActorRef) error { return all[0].EndActor(deadline(t), ref) }, status.OK},
			{func(ref ActorRef) error { return all[0].Send(deadline(t), ref, wrapperspb.String("stop")) }, status.OK},
			{func(ref ActorRef) error { return all[2].Send(deadline(t), ref, wrapperspb.String("panic")) }, status.Internal},
		} {
			ref, err := all[0].Spawn(deadline(t), "counter", ActorAt(on.Task(), "a"), nil)
			if err != nil {
				t.Fatal(err)
			}
			var watches []<-chan ActorEnded
			for _, by := range []int{0, 0, 1, 2} {
				w, err := all[by].WatchActor(deadline(t), ref)
				if err != nil {
					t.Fatal(err)
				}
				sum(t, all[by], ref) // the watch was sent before
				watches = append(watches, w)
			}
			if err := c.end(ref); err != nil {
				t.Fatal(err)
			}
			for i, w := range watches {
				if e := told(t, w); e.Actor != ref || status.CodeOf(e.Err) != c.code {
					t.Errorf("task %d, watcher %d: %v", task, i, e)
				}
				if _, more := <-w; more {
					t.Errorf("watcher %d was told twice", i)
				}
			}
		}
		w, err := all[2].WatchActor(deadline(t), ActorAt(on.Task(), "nobody"))
		if err != nil {
			t.Fatal(err)
		}
		if e := told(t, w); status.CodeOf(e.Err) != status.NotFound {
			t.Errorf("an actor that is not there: %v", e)
		}
	}
	// A watch that is given up reports nothing.
	ctx, cancel := context.WithCancel(t.Context())
	ref, err := all[0].Spawn(deadline(t), "counter", ActorAt(all[1].Task(), "a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := all[0].WatchActor(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if e, more := <-w; more {
		t.Errorf("%v", e)
	}
	// A task's actors end when it stops.
	if w, err = all[0].WatchActor(deadline(t), ref); err != nil {
		t.Fatal(err)
	}
	sum(t, all[0], ref)
	stop(t, all[1])
	if e := told(t, w); e.Err == nil {
		t.Errorf("%v", e)
	}
	if _, err := Ask[*emptypb.Empty](deadline(t), all[0], ref, &emptypb.Empty{}); status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "/job:w/replica:0/task:1") {
		t.Errorf("an actor of a stopped task: %v", err)
	}
	if _, err := all[1].Spawn(deadline(t), "counter", ActorRef{}, nil); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("on a stopped server: %v", err)
	}
}

// gate is an actor that waits until it may go on, or ends.
func gate(entered chan<- string, pass <-chan struct{}) Option {
	return WithActor("gate", func(c *ActorContext, _ any) (Actor, error) {
		return ActorFunc(func(c *ActorContext, message any) {
			entered <- c.Self().Name()
			select {
			case <-pass:
			case <-c.Context().Done():
			}
			if c.Sender() != (ActorRef{}) {
				c.Reply(&emptypb.Empty{})
			}
		}), nil
	})
}

// The messages that wait for an actor are bounded, and a busy actor does not delay others.
func TestFullQueues(t *testing.T) {
	parallel(t)
	for index := range 2 {
		entered, pass := make(chan string, 2*MaxActorQueue), make(chan struct{})
		all := company(t, 2, gate(entered, pass), counters)
		on := all[index]
		ref, err := all[0].Spawn(deadline(t), "gate", ActorAt(on.Task(), "g"), nil)
		if err != nil {
			t.Fatal(err)
		}
		counter, err := all[0].Spawn(deadline(t), "counter", ActorAt(on.Task(), "c"), nil)
		if err != nil {
			t.Fatal(err)
		}
		first := make(chan error, 1)
		go func() {
			_, err := Ask[*emptypb.Empty](deadline(t), all[0], ref, &emptypb.Empty{})
			first <- err
		}()
		<-entered
		for range MaxActorQueue {
			if err := all[0].Send(deadline(t), ref, &emptypb.Empty{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := all[0].TrySend(deadline(t), ref, &emptypb.Empty{}); status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), fmt.Sprint(MaxActorQueue, " messages")) {
			t.Errorf("one too many: %v", err)
		}
		ctx, cancel := context.WithCancel(deadline(t))
		waits := make(chan error, 2)
		go func() { waits <- all[0].Send(ctx, ref, &emptypb.Empty{}) }()
		go func() {
			_, err := Ask[*emptypb.Empty](ctx, all[0], ref, &emptypb.Empty{})
			waits <- err
		}()
		if got := sum(t, all[1], counter); got != 0 {
			t.Errorf("beside it %d is counted", got)
		}
		cancel()
		for range cap(waits) {
			if err := <-waits; status.CodeOf(err) != status.Cancelled {
				t.Errorf("who waited for room: %v", err)
			}
		}
		// The same for bytes.
		bytes, err := all[0].Spawn(deadline(t), "gate", ActorAt(on.Task(), "b"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := all[0].Send(deadline(t), bytes, &emptypb.Empty{}); err != nil {
			t.Fatal(err)
		}
		<-entered
		large := wrapperspb.String(strings.Repeat("x", MaxActorMessage/2))
		for range MaxActorQueueBytes / proto.Size(large) {
			if err := all[0].Send(deadline(t), bytes, large); err != nil {
				t.Fatal(err)
			}
		}
		if err := all[0].TrySend(deadline(t), bytes, large); status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("one too large: %v", err)
		}
		sent := make(chan error, 1)
		go func() { sent <- all[0].Send(deadline(t), ref, &emptypb.Empty{}) }() // until there is room
		select {
		case err := <-first:
			t.Errorf("the first was answered early: %v", err)
		default:
		}
		pass <- struct{}{} // to one of the two, which are both closed by the end of the test
		pass <- struct{}{}
	drain:
		for n := 0; n < MaxActorQueue+1; {
			select {
			case <-entered:
			case pass <- struct{}{}:
				n++
			case <-deadline(t).Done():
				break drain
			}
		}
		if err := <-first; err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := <-sent; err != nil {
			t.Errorf("who waited for room: %v", err)
		}
	}
}

// A server that stops ends its actors: their contexts end, they are closed, and those that wait for them are notified.
func TestStopEndsActors(t *testing.T) {
	parallel(t)
	closed := make(chan string, 10)
	entered := make(chan string, 10)
	all := company(t, 2, gate(entered, nil), WithActor("closer", func(c *ActorContext, _ any) (Actor, error) {
		return &closer{c.Self().Name(), closed}, nil
	}))
	ref, err := all[0].Spawn(deadline(t), "gate", ActorAt(all[1].Task(), "g"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].Spawn(deadline(t), "closer", ActorAt(all[1].Task(), "c"), nil); err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := Ask[*emptypb.Empty](deadline(t), all[0], ref, &emptypb.Empty{})
		asked <- err
	}()
	<-entered
	if err := all[0].Send(deadline(t), ActorAt(all[1].Task(), "c"), wrapperspb.String("panic")); err != nil {
		t.Fatal(err)
	}
	if name := <-closed; name != "c" {
		t.Errorf("%s was closed", name)
	}
	stop(t, all[1])
	select {
	case <-asked: // with the answer that it gave when its context ended, or with the loss of the task
	case <-deadline(t).Done():
		t.Error("who asked was not told")
	}
}

// closer panics at every message, and reports that it was closed.
type closer struct {
	name   string
	closed chan<- string
}

func (c *closer) Receive(*ActorContext, any) { panic("no messages") }
func (c *closer) Close() error {
	c.closed <- c.name
	return errors.New("nobody hears this")
}

// An actor watches others and the cluster's tasks, and answers later than it is asked.
func TestActorsThatWatch(t *testing.T) {
	parallel(t)
	supervisor := WithActor("supervisor", func(c *ActorContext, arguments any) (Actor, error) {
		ward, err := ParseActorRef(arguments.(*wrapperspb.StringValue).Value)
		if err != nil {
			return nil, err
		}
		c.WatchTasks()
		var asked *ActorRequest
		tasks := map[string]string{}
		ended := ""
		return ActorFunc(func(c *ActorContext, message any) {
			switch m := message.(type) {
			case TaskStatus:
				tasks[m.Task] = m.State
			case ActorEnded:
				ended = m.Actor.String() + ": " + m.Err.Error()
			case *emptypb.Empty:
				asked = c.Keep()
			}
			if asked != nil && ended != "" && len(tasks) == 2 {
				if err := asked.Reply(wrapperspb.String(ended)); err != nil {
					panic(err)
				}
				asked = nil
			}
		}), c.Watch(ward)
	})
	all := company(t, 2, counters, supervisor)
	ward, err := all[0].Spawn(deadline(t), "counter", ActorAt(all[1].Task(), "ward"), nil)
	if err != nil {
		t.Fatal(err)
	}
	boss, err := all[1].Spawn(deadline(t), "supervisor", ActorAt(all[0].Task(), "boss"), wrapperspb.String(ward.String()))
	if err != nil {
		t.Fatal(err)
	}
	// A task watches an actor once for all of its own: when this returns, the boss's watch is set too.
	if _, err := all[0].WatchActor(deadline(t), ward); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		text, err := Ask[*wrapperspb.StringValue](deadline(t), all[1], boss, &emptypb.Empty{})
		if err == nil && !strings.Contains(text.Value, "/task:1/actor:ward: The actor ward") {
			err = fmt.Errorf("it answered %q", text.Value)
		}
		answer <- err
	}()
	sum(t, all[1], ward)
	if err := all[1].Send(deadline(t), ward, wrapperspb.String("panic")); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// An actor asks, forwards, waits, watches and has children on its own behalf.
func TestActorsOnTheirOwn(t *testing.T) {
	parallel(t)
	type tick struct{}
	// A boss does what the text of a request says, with the actor that it names.
	bosses := WithActor("boss", func(c *ActorContext, _ any) (Actor, error) {
		var kept *ActorRequest
		var stop func()
		done := func(message any, err error) {
			if err != nil {
				kept.Fail(err)
				return
			}
			kept.Reply(message)
		}
		return ActorFunc(func(c *ActorContext, message any) {
			switch m := message.(type) {
			case *wrapperspb.StringValue:
				what, text, _ := strings.Cut(m.Value, " ")
				task, name, _ := strings.Cut(text, "/actor:")
				ref := ActorAt(task, name)
				if what == "forward" {
					if err := c.Forward(ref); err != nil {
						c.Fail(err)
					}
					return
				}
				kept = c.Keep()
				switch what {
				case "ask":
					c.Ask(ref, &emptypb.Empty{}, 20*time.Second, what)
				case "after":
					c.After(time.Millisecond, tick{})
				case "every":
					left := 3
					stop = c.Every(time.Millisecond, &left)
				case "watch":
					if err := c.Watch(ref); err != nil {
						done(nil, err)
					}
				case "unwatch":
					done(&emptypb.Empty{}, c.Unwatch(ref))
				case "spawn":
					child, err := c.Spawn("counter", name, wrapperspb.Int64(7))
					done(wrapperspb.String(child.String()), err)
				}
			case ActorAnswer:
				if m.Tag != "ask" || !strings.Contains(m.From.Task(), "/replica:0/task:") {
					m.Err = status.Internalf("%+v", m)
				}
				done(m.Message, m.Err)
			case tick:
				done(&emptypb.Empty{}, nil)
			case *int:
				if *m--; *m == 0 {
					stop()
					done(&emptypb.Empty{}, nil)
				}
			case ActorEnded:
				done(wrapperspb.String(m.Actor.String()), m.Err)
			}
		}), nil
	})
	all := company(t, 2, counters, bosses)
	boss, err := all[1].Spawn(deadline(t), "boss", ActorAt(all[0].Task(), "boss"), nil)
	if err != nil {
		t.Fatal(err)
	}
	do := func(text string) (proto.Message, error) {
		return Ask[proto.Message](deadline(t), all[1], boss, wrapperspb.String(text))
	}
	check := func(text string, want proto.Message, code status.Code) {
		t.Helper()
		if got, err := do(text); status.CodeOf(err) != code || code == status.OK && !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for i := range all {
		task := fmt.Sprintf("w:%d", i)
		if _, err := all[0].Spawn(deadline(t), "counter", ActorAt(task, "c"), wrapperspb.Int64(5)); err != nil {
			t.Fatal(err)
		}
		check("ask "+task+"/actor:c", wrapperspb.Int64(5), status.OK)
		check("ask "+task+"/actor:nobody", nil, status.NotFound)
		check("forward "+task+"/actor:c", nil, status.Unimplemented) // the counter does not know the message
		check("forward "+task+"/actor:nobody", nil, status.NotFound)
		check("watch "+task+"/actor:nobody", nil, status.NotFound)
		check("unwatch "+task+"/actor:c", &emptypb.Empty{}, status.OK)
	}
	for _, what := range []string{"ask", "forward", "watch", "unwatch"} {
		check(what+" /job:x/task:7/actor:c", nil, status.InvalidArgument)
	}
	check("after", &emptypb.Empty{}, status.OK)
	check("every", &emptypb.Empty{}, status.OK)
	child := ActorAt(all[0].Task(), "child")
	check("spawn /actor:child", wrapperspb.String(child.String()), status.OK)
	check("spawn /actor:child", nil, status.AlreadyExists)
	if got := sum(t, all[1], child); got != 7 {
		t.Errorf("the child has %d", got)
	}
	ended, err := all[1].WatchActor(deadline(t), child)
	if err != nil {
		t.Fatal(err)
	}
	if err := all[1].EndActor(deadline(t), boss); err != nil {
		t.Fatal(err)
	}
	if e := told(t, ended); e.Err != nil || e.Actor != child {
		t.Errorf("%+v", e)
	}
}

// A program learns of the tasks as they come, go and come back.
func TestWatchTasks(t *testing.T) {
	parallel(t)
	cluster := ClusterSpec{"w": spectest.Addresses(t, 2)}
	start := func(task int) *Server {
		t.Helper()
		s, err := NewServer(t.Context(), cluster, WithTask(task), silent)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, s) })
		return s
	}
	first := start(0)
	ctx, cancel := context.WithCancel(deadline(t))
	events := make(chan TaskStatus)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer close(events)
		for e := range first.WatchTasks(ctx) {
			events <- e
		}
	})
	until := func(task int, state string) TaskStatus {
		t.Helper()
		for e := range events {
			if e.Task == fmt.Sprintf("/job:w/replica:0/task:%d", task) && e.State == state {
				return e
			}
		}
		t.Fatalf("task %d was never %s", task, state)
		return TaskStatus{}
	}
	until(0, "up")
	second := start(1)
	boot := until(1, "up").Boot
	stop(t, second)
	if e := until(1, "down"); e.Reason == "" || e.Target() != "grpc://"+cluster["w"][1] {
		t.Errorf("%+v", e)
	}
	start(1)
	if e := until(1, "up"); e.Boot == boot {
		t.Errorf("%+v is the first process", e)
	}
	cancel()
	for range events {
	}
	watching.Wait()
}

// MeasureActor measures Ask of a counter, and Send to it.
func MeasureActor(b *testing.B, s *Server, name string, ref ActorRef) {
	b.Run("Ask/"+name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Ask[*wrapperspb.Int64Value](b.Context(), s, ref, &emptypb.Empty{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Send/"+name, func(b *testing.B) { // with an answer to every 500th
		b.ReportAllocs()
		one := wrapperspb.Int64(1)
		for i := 0; b.Loop(); i++ {
			if err := s.Send(b.Context(), ref, one); err != nil {
				b.Fatal(err)
			}
			if i%500 == 0 {
				if _, err := Ask[*wrapperspb.Int64Value](b.Context(), s, ref, &emptypb.Empty{}); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkSpawn makes actors, which stay.
func BenchmarkSpawn(b *testing.B) {
	s, err := NewLocalServer(b.Context(), silent, counters, WithActorLimit(math.MaxInt))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop(context.Background())
	for b.Loop() {
		if _, err := s.Spawn(b.Context(), "counter", ActorRef{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkActors(b *testing.B) {
	cluster := ClusterSpec{"w": spectest.Addresses(b, 2)}
	var all []*Server
	for i := range 2 {
		s, err := NewServer(b.Context(), cluster, WithTask(i), WithStart(false), WithLending(false), silent, counters)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Stop(context.Background())
		all = append(all, s)
	}
	for _, s := range all {
		if err := s.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for name, on := range map[string]*Server{"same task": all[0], "other task": all[1]} {
		ref, err := all[0].Spawn(b.Context(), "counter", ActorAt(on.Task(), "c"), nil)
		if err != nil {
			b.Fatal(err)
		}
		MeasureActor(b, all[0], name, ref)
		b.Run("Ask of a client/"+name, func(b *testing.B) {
			c, err := client.Dial(b.Context(), all[0].Target())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(context.Background())
			actor := c.Actor(ref.Task(), ref.Name())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Ask[*wrapperspb.Int64Value](b.Context(), actor, &emptypb.Empty{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// actorsOf returns the list of a task's actors, as a client gets it.
func actorsOf(t *testing.T, s *Server) *client.TaskActors {
	t.Helper()
	c, err := client.Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	list, err := c.Actors(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The list of a task's actors includes the program's, and the state of each device with its executor.
func TestActorsAreListed(t *testing.T) {
	s := company(t, 1, counters)[0]
	ref, err := s.Spawn(deadline(t), "counter", ActorAt("", "sum"), nil)
	if err != nil {
		t.Fatal(err)
	}
	sum(t, s, ref)
	list := actorsOf(t, s)
	program, device := 0, 0
	for _, a := range list.Actors {
		switch a.Kind {
		case "program/counter":
			if program++; a.Name != "sum" || a.Handled != 1 || a.Waiting != 0 || a.Device != nil {
				t.Errorf("%+v", a)
			}
		case "device":
			if device++; a.Device == nil || a.Device.Incarnation == 0 || a.Device.Lost != "" {
				t.Errorf("%+v", a)
			}
		}
	}
	if program != 1 || device != 1 {
		t.Errorf("%+v", list.Actors)
	}
}

// However the task of an actor is written, and wherever a reference to it comes from, it is the same value, and works.
func TestReferencesAreEqualHoweverTheyAreWritten(t *testing.T) {
	parallel(t)
	type selves struct{ Self, Sender ActorRef }
	type card struct {
		To    ActorRef
		Named map[ActorRef]string
	}
	told := make(chan any, 4)
	all := company(t, 2, counters, WithActor("mirror", func(c *ActorContext, _ any) (Actor, error) {
		return ActorFunc(func(c *ActorContext, message any) {
			switch m := message.(type) {
			case *wrapperspb.StringValue: // asks an actor, and watches it
				ref, err := ParseActorRef(m.Value)
				if err == nil {
					err = c.Watch(ref)
				}
				if err == nil {
					err = c.Send(ref, wrapperspb.Bool(true))
				}
				if err != nil {
					c.Crash(err)
					return
				}
				c.Ask(ref, &emptypb.Empty{}, 20*time.Second, nil)
			case *wrapperspb.BoolValue:
				told <- selves{c.Self(), c.Sender()}
			case *emptypb.Empty:
				c.Reply(&emptypb.Empty{})
			case ActorAnswer:
				told <- m.From
			case ActorEnded:
				told <- m.Actor
			}
		}), nil
	}))
	forms := []string{"/job:w/replica:0/task:1", "/job:w/task:1", "w:1"}
	for i, form := range forms {
		name := fmt.Sprint("c", i)
		want := ActorAt(all[1].Task(), name)
		same := func(how string, got ActorRef, err error) {
			t.Helper()
			if err != nil || got != want || !got.Equal(want) || got.Task() != all[1].Task() || got.Name() != name || map[ActorRef]bool{want: true}[got] != true {
				t.Errorf("%s, %s: %v is not %v: %v", form, how, got, want, err)
			}
		}
		ref := ActorAt(form, name)
		same("made", ref, nil)
		for _, other := range []ActorRef{ActorAt(form, "c"), ActorAt(all[0].Task(), name), ActorAt("w:10", name), ActorAt("", name), {}} {
			if other == want || other.Equal(want) {
				t.Errorf("%v is %v", other, want)
			}
		}
		parsed, err := ParseActorRef(form + "/actor:" + name)
		same("parsed", parsed, err)
		parsed, err = ParseActorRef(ref.String())
		same("parsed again", parsed, err)
		var read card
		text := fmt.Sprintf(`{"To":"%s/actor:%s","Named":{"%[1]s/actor:%[2]s":"x"}}`, form, name)
		err = json.Unmarshal([]byte(text), &read)
		same("in JSON", read.To, err)
		if read.Named[want] != "x" {
			t.Errorf("%s is no key of %v", form, read.Named)
		}
		b, err := json.Marshal(card{ref, map[ActorRef]string{ref: "x"}})
		if written := strings.ReplaceAll(text, form, all[1].Task()); err != nil || string(b) != written {
			t.Errorf("%s is written as %s, not %s: %v", form, b, written, err)
		}
		for _, s := range all {
			ended, err := s.WatchActor(deadline(t), ref) // which does not exist yet
			e := <-ended
			if same("ended", e.Actor, err); status.CodeOf(e.Err) != status.NotFound {
				t.Error(e.Err)
			}
		}
		made, err := all[0].Spawn(deadline(t), "mirror", ref, nil)
		same("spawned", made, err)
		made, err = all[1].Ensure(deadline(t), "mirror", ref, nil)
		same("there", made, err)
		asking, err := all[0].Spawn(deadline(t), "mirror", ActorAt("", "asking"+name), nil)
		if err != nil || asking != ActorAt("w:0", "asking"+name) {
			t.Errorf("an actor of the own task is %v: %v", asking, err)
		}
		if err := all[0].Send(deadline(t), asking, wrapperspb.String(form+"/actor:"+name)); err != nil {
			t.Fatal(err)
		}
		met := (<-told).(selves)
		same("itself", met.Self, nil)
		if met.Sender != asking {
			t.Errorf("the sender is %v, not %v", met.Sender, asking)
		}
		same("answering", (<-told).(ActorRef), nil)
		if err := all[0].EndActor(deadline(t), ref); err != nil {
			t.Error(err)
		}
		same("watched", (<-told).(ActorRef), nil)
	}
	for _, ref := range []ActorRef{{}, ActorAt("", "c"), VirtualActor("account", "alice"), ActorAt("10.0.0.9:8090", "echo"), ActorAt("[::1]:80", "echo")} {
		b, err := json.Marshal(ref)
		var got ActorRef
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || got != ref {
			t.Errorf("%v became %v in %s: %v", ref, got, b, err)
		}
	}
	for _, text := range []string{"w:1", "w:1/actor:", "w/actor:c", "/job:w/task:x/actor:c"} {
		if err := new(ActorRef).UnmarshalText([]byte(text)); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A request fails when its handler has neither answered nor kept it. A kept request may be answered once, from any goroutine.
func TestEveryRequestEnds(t *testing.T) {
	parallel(t)
	kept := make(chan *ActorRequest, 4)
	context := make(chan *ActorContext, 4)
	waiter := WithActor("waiter", func(*ActorContext, any) (Actor, error) {
		return ActorFunc(func(c *ActorContext, message any) {
			switch m := message.(type) {
			case *wrapperspb.StringValue:
				kept <- c.Keep()
			case *wrapperspb.BoolValue: // answers from another goroutine, which has no right to
				context <- c
			case *wrapperspb.Int64Value:
				if err := c.Reply(m); err != nil {
					t.Error(err)
				}
				if err := c.Reply(m); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "answered already") {
					t.Errorf("a second answer: %v", err)
				}
			}
		}), nil
	})
	all := company(t, 2, waiter)
	for i, on := range all {
		ref, err := all[0].Spawn(deadline(t), "waiter", ActorAt(on.Task(), "w"), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Ask[*emptypb.Empty](t.Context(), all[0], ref, &emptypb.Empty{})
		if status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), `of kind "waiter", neither answered nor kept a request of type google.protobuf.Empty`) {
			t.Errorf("task %d: a message that the actor ignores: %v", i, err)
		}
		if v, err := Ask[*wrapperspb.Int64Value](t.Context(), all[0], ref, wrapperspb.Int64(3)); err != nil || v.Value != 3 {
			t.Errorf("task %d: %v, %v", i, v, err)
		}
		if _, err = Ask[*emptypb.Empty](t.Context(), all[0], ref, wrapperspb.Bool(true)); status.CodeOf(err) != status.Unimplemented {
			t.Errorf("task %d: a request whose context was kept, but not itself: %v", i, err)
		}
		if err := (<-context).Reply(&emptypb.Empty{}); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "has to be kept") {
			t.Errorf("task %d: an answer that is too late: %v", i, err)
		}
		got := make(chan string, 2)
		for _, text := range []string{"a", "b"} {
			go func() {
				v, err := Ask[*wrapperspb.StringValue](t.Context(), all[0], ref, wrapperspb.String(text))
				got <- fmt.Sprintf("%v %v", v.GetValue(), status.CodeOf(err))
			}()
		}
		first, second := <-kept, <-kept
		if err := first.Reply(wrapperspb.String("answer")); err != nil {
			t.Error(err)
		}
		if v := <-got; v != "answer OK" {
			t.Errorf("task %d: %s", i, v)
		}
		if err := first.Fail(status.Errorf(status.Aborted, "no")); status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("task %d: a second answer: %v", i, err)
		}
		if err := all[0].EndActor(deadline(t), ref); err != nil {
			t.Error(err)
		}
		if v := <-got; v != " NOT_FOUND" {
			t.Errorf("task %d: a request that its actor kept when it ended: %s", i, v)
		}
		if err := second.Reply(wrapperspb.String("late")); err != nil && status.CodeOf(err) != status.Cancelled {
			t.Errorf("task %d: an answer of an actor that has ended: %v", i, err)
		}
	}
}

// A message that ends an actor does not overtake the watch that its sender set before.
func TestWatchBeforeEnd(t *testing.T) {
	parallel(t)
	kinds := []Option{
		WithActor("mortal", func(*ActorContext, any) (Actor, error) {
			return Handlers(Handle(func(c *ActorContext, _ *emptypb.Empty) { c.Stop() })), nil
		}),
		WithActor("watcher", func(c *ActorContext, arguments any) (Actor, error) {
			ref, err := ParseActorRef(arguments.(*wrapperspb.StringValue).Value)
			if err != nil {
				return nil, err
			}
			var asked *ActorRequest
			return Handlers(
				Handle(func(c *ActorContext, _ *emptypb.Empty) {
					asked = c.Keep()
					if err := errors.Join(c.Watch(ref), c.Send(ref, &emptypb.Empty{})); err != nil {
						t.Error(err)
					}
				}),
				Handle(func(_ *ActorContext, e ActorEnded) {
					text := "nil"
					if e.Err != nil {
						text = e.Err.Error()
					}
					if err := asked.Reply(wrapperspb.String(text)); err != nil {
						t.Error(err)
					}
				}),
			), nil
		}),
	}
	servers := company(t, 2, kinds...)
	for range 100 {
		for _, s := range servers {
			mortal, err := s.Spawn(deadline(t), "mortal", ActorRef{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			watcher, err := servers[0].Spawn(deadline(t), "watcher", ActorRef{}, wrapperspb.String(mortal.String()))
			if err != nil {
				t.Fatal(err)
			}
			why, err := Ask[*wrapperspb.StringValue](deadline(t), servers[0], watcher, &emptypb.Empty{})
			if err != nil || why.Value != "nil" {
				t.Fatalf("the actor on %s ended with %v, %v", s.Task(), why, err)
			}
		}
	}
}

// An actor that watches another one, and then sends it what ends it, hears that it ended, and not that it is not there: the messages are in order, though
// a flood to the same task makes what cannot wait go other ways than what can.
func TestWatchesBesideAFlood(t *testing.T) {
	parallel(t)
	const watches = 300
	ended := make(chan ActorEnded, watches)
	all := company(t, 2, counters, WithActor("mourner", func(c *ActorContext, _ any) (Actor, error) {
		return ActorFunc(func(c *ActorContext, message any) {
			switch m := message.(type) {
			case *wrapperspb.StringValue:
				ref, err := ParseActorRef(m.Value)
				if err == nil {
					err = c.Watch(ref)
				}
				if err == nil {
					err = c.Send(ref, wrapperspb.String("stop"))
				}
				if err != nil {
					c.Crash(err)
				}
			case ActorEnded:
				ended <- m
			}
		}), nil
	}))
	sink, err := all[0].Spawn(deadline(t), "counter", ActorAt("w:1", "sink"), nil)
	if err != nil {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(t.Context())
	var floods sync.WaitGroup
	for range 8 {
		floods.Go(func() {
			large := wrapperspb.Bytes(make([]byte, 16<<10))
			for over.Err() == nil {
				if err := all[0].Send(over, sink, large); err != nil && over.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer floods.Wait()
	defer stop()
	mourners := make([]ActorRef, 4)
	for i := range mourners {
		if mourners[i], err = all[0].Spawn(deadline(t), "mourner", ActorAt("", ""), nil); err != nil {
			t.Fatal(err)
		}
	}
	due := map[ActorRef]bool{}
	for i := range watches {
		ward, err := all[0].Spawn(deadline(t), "counter", ActorAt("w:1", fmt.Sprint("ward", i)), nil)
		if err != nil {
			t.Fatal(err)
		}
		due[ward] = true
		if err := all[0].Send(deadline(t), mourners[i%len(mourners)], wrapperspb.String(ward.String())); err != nil {
			t.Fatal(err)
		}
	}
	for late := deadline(t); len(due) > 0; {
		select {
		case e := <-ended:
			if e.Err != nil || !due[e.Actor] {
				t.Errorf("%v ended with %v", e.Actor, e.Err)
			}
			delete(due, e.Actor)
		case <-late.Done():
			t.Fatalf("nobody hears of the ends of %d actors", len(due))
		}
	}
}
