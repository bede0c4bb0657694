package troupe

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// restingActors are counters, and actors that keep the requests they get.
var restingActors = []Option{counters, WithActor("keeper", func(*ActorContext, any) (Actor, error) {
	var kept []*ActorRequest
	return ActorFunc(func(c *ActorContext, message any) {
		if _, keep := message.(*emptypb.Empty); keep {
			kept = append(kept, c.Keep())
			return
		}
		for _, q := range kept {
			if err := q.Reply(wrapperspb.Bool(true)); err != nil {
				panic(err)
			}
		}
		kept = nil
		if err := c.Reply(wrapperspb.Bool(true)); err != nil {
			panic(err)
		}
	}), nil
})}

// actorsThatRest are actors of both tasks, which are sent to and asked from the other one.
func actorsThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, from := range r.tasks {
		on := ActorAt(r.tasks[1-i].Task(), "c")
		_, err := from.Spawn(r.bounded(), "counter", on, nil)
		r.check(err)
		want := int64(0)
		all = append(all, restOperation{fmt.Sprintf("a message from task %d", i), func() {
			r.check(from.Send(r.bounded(), on, wrapperspb.Int64(1)))
			want++
		}}, restOperation{fmt.Sprintf("a question from task %d", i), func() {
			if got := sum(r.T, from, on); got != want {
				r.Errorf("the sum is %d, want %d", got, want)
			}
		}}, restOperation{fmt.Sprintf("an actor made by task %d", i), func() {
			ref, err := from.Spawn(r.bounded(), "counter", ActorAt(on.Task(), ""), nil)
			r.check(err)
			r.check(from.EndActor(r.bounded(), ref))
		}})
	}
	return all
}

// virtualIdle is how long a virtual actor lives without messages.
const virtualIdle = 30 * time.Second

// restingVirtualActors count their messages.
var restingVirtualActors = WithActor("virtual", func(*ActorContext, any) (Actor, error) {
	var n int64
	return ActorFunc(func(c *ActorContext, message any) {
		n++
		if _, asks := message.(*emptypb.Empty); asks {
			if err := c.Reply(wrapperspb.Int64(n)); err != nil {
				panic(err)
			}
		}
	}), nil
}, Virtual{Idle: virtualIdle})

// virtualActorsThatRest are virtual actors of either task, which end when nobody uses them, and begin again with their next message.
func virtualActorsThatRest(r *resting) []restOperation {
	type virtual struct {
		ref  ActorRef
		n    int64
		used time.Time
	}
	var actors []*virtual
	for i := range 4 { // some on each task
		actors = append(actors, &virtual{ref: VirtualActor("virtual", fmt.Sprint("v", i))})
	}
	pass(10 * time.Second) // until the tasks agree
	// use is called after a message to an actor, of which the actor says that it is the n-th; 0 if it says nothing.
	use := func(a *virtual, n int64) {
		idle := time.Since(a.used)
		a.n, a.used = a.n+1, time.Now()
		if idle > virtualIdle+restMargin {
			a.n = 1
		}
		if n != 0 && n != a.n {
			if n != 1 || idle < virtualIdle {
				r.Errorf("%v has %d messages after %v, want %d", a.ref, n, idle, a.n)
			}
			a.n = n
		}
	}
	var all []restOperation
	for i, from := range r.tasks {
		all = append(all, restOperation{fmt.Sprintf("messages from task %d", i), func() {
			for _, a := range actors {
				r.check(from.Send(r.bounded(), a.ref, wrapperspb.Int64(1)))
				use(a, 0)
			}
			r.idle(100 * time.Millisecond) // until they have arrived: there is no order between the tasks' messages
		}}, restOperation{fmt.Sprintf("questions from task %d", i), func() {
			for _, a := range actors {
				n, err := Ask[*wrapperspb.Int64Value](r.bounded(), from, a.ref, &emptypb.Empty{})
				r.check(err)
				use(a, n.Value)
			}
		}})
	}
	return all
}

// watchesThatRest are watches of actors on the other task, which end by a panic.
func watchesThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, by := range r.tasks {
		on := ActorAt(r.tasks[1-i].Task(), "ward")
		var watch <-chan ActorEnded
		set := func() {
			if watch == nil {
				_, err := by.Spawn(r.bounded(), "counter", on, nil)
				r.check(err)
				watch, err = by.WatchActor(r.Context(), on)
				r.check(err)
			}
		}
		all = append(all, restOperation{fmt.Sprintf("a watch of task %d", i), set}, restOperation{fmt.Sprintf("the end of what task %d watches", i), func() {
			set()
			r.check(r.tasks[1-i].Send(r.bounded(), on, wrapperspb.String("panic")))
			select {
			case e := <-watch:
				if e.Actor != on || status.CodeOf(e.Err) != status.Internal {
					r.Errorf("%v ended with %v", e.Actor, e.Err)
				}
			case <-time.After(time.Second):
				r.Error("the watcher was not told")
			}
			watch = nil
		}}, restOperation{fmt.Sprintf("a watch of task %d that is taken back", i), func() {
			ctx, cancel := context.WithCancel(r.Context())
			_, err := by.WatchActor(ctx, on)
			r.check(err)
			cancel()
		}})
	}
	return all
}

// topicsThatRest are topics that each task publishes to, with subscribers on the other one that stay, and some that do not.
func topicsThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, from := range r.tasks {
		topic, other, sent := fmt.Sprint("topic", i), r.tasks[1-i], int64(0)
		subscribe := func(ctx context.Context) <-chan any {
			messages, err := other.Subscribe(ctx, topic)
			r.check(err)
			return messages
		}
		publish := func() {
			sent++
			r.check(from.Publish(r.bounded(), topic, wrapperspb.Int64(sent)))
		}
		expect := func(messages <-chan any) {
			select {
			case m := <-messages:
				if got := m.(*wrapperspb.Int64Value).Value; got != sent {
					r.Errorf("message %d has arrived, not %d", got, sent)
				}
			case <-time.After(time.Second):
				r.Errorf("message %d has not arrived", sent)
			}
		}
		ctx, cancel := context.WithCancel(r.Context())
		r.Cleanup(cancel)
		messages := subscribe(ctx)
		all = append(all, restOperation{fmt.Sprintf("a message of task %d to a topic", i), func() {
			publish()
			expect(messages)
		}}, restOperation{fmt.Sprintf("a new subscriber to what task %d publishes", i), func() {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			more := subscribe(ctx)
			publish()
			expect(messages)
			expect(more)
			cancel()
			if _, open := <-more; open {
				r.Error("a message has arrived twice")
			}
		}})
	}
	return all
}

// asksThatRest are requests whose answers come later.
func asksThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, from := range r.tasks {
		on := ActorAt(r.tasks[1-i].Task(), "keeper")
		_, err := from.Spawn(r.bounded(), "keeper", on, nil)
		r.check(err)
		var waiting []chan error
		all = append(all, restOperation{fmt.Sprintf("a request of task %d", i), func() {
			done := make(chan error, 1)
			waiting = append(waiting, done)
			go func() {
				_, err := Ask[*wrapperspb.BoolValue](context.WithoutCancel(r.Context()), from, on, &emptypb.Empty{})
				done <- err
			}()
			synctest.Wait()
		}}, restOperation{fmt.Sprintf("the answers to task %d", i), func() {
			_, err := Ask[*wrapperspb.BoolValue](r.bounded(), from, on, wrapperspb.Bool(true))
			r.check(err)
			for _, done := range waiting {
				select {
				case err := <-done:
					r.check(err)
				case <-time.After(time.Second):
					r.Fatal("a request was not answered")
				}
			}
			waiting = nil
		}})
	}
	return all
}
