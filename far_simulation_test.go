package troupe

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/network/simnet"
	"github.com/troupe-run/troupe/remote/access"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// far is a cluster of two tasks that are far from each other and have no link.
type far struct {
	*testing.T
	*simulation
	ctx     context.Context
	arrived chan time.Time // when each message to an actor has arrived
}

// farTime bounds a contact, which takes far less.
const farTime = time.Minute

// Context returns a context that bounds a contact.
func (f *far) Context() context.Context { return f.ctx }

// arrival waits for the next message to an actor, and returns when it has arrived.
func (f *far) arrival() time.Time {
	f.Helper()
	select {
	case at := <-f.arrived:
		return at
	case <-f.ctx.Done():
		f.Fatal("a message has not arrived")
		return time.Time{}
	}
}

const (
	nearTask = "/job:w/replica:0/task:0"
	farTask  = "/job:w/replica:0/task:1"
)

// The actors of both tasks are called noting. They note when messages arrive, answer requests, and answer a text with a message.
const noting = "noting"

// farProtections are the ways in which tasks know each other: what each gives a task.
var farProtections = []struct {
	name    string
	options func(t *testing.T) func(task int) []Option
}{
	{"open", func(*testing.T) func(int) []Option { return func(int) []Option { return nil } }},
	{"with a secret", func(t *testing.T) func(int) []Option {
		p := newPapers(t)
		p.write("secret", access.NewSecret())
		return func(int) []Option { return []Option{WithSecretFile(p.path("secret"))} }
	}},
	{"with certificates", func(t *testing.T) func(int) []Option {
		p := newPapers(t)
		p.certify(2, time.Now().Add(10*24*time.Hour))
		p.write("secret", access.NewSecret())
		all := []*access.Credentials{p.of(0), p.of(1)}
		return func(task int) []Option { return []Option{WithCredentials(all[task]), WithSecretFile(p.path("secret"))} }
	}},
}

// farContacts are the ways in which two tasks come into contact. Each returns when it has what it wants, and has a bound in half round trips, for tasks that
// gossip has found and for those that do not know each other yet.
var farContacts = []struct {
	name          string
	known, unseen int
	do            func(f *far) time.Time
}{
	{"a message to an actor", 9, 9, func(f *far) time.Time {
		f.check(f.tasks[0].Send(f.Context(), ActorAt(farTask, noting), wrapperspb.Int64(2)))
		return f.arrival()
	}},
	{"a message back", 10, 10, func(f *far) time.Time {
		f.check(f.tasks[0].Send(f.Context(), ActorAt(farTask, noting), wrapperspb.String("answer")))
		f.arrival()
		return f.arrival()
	}},
	{"an answer to a request", 10, 10, func(f *far) time.Time {
		_, err := Ask[*wrapperspb.Int64Value](f.Context(), f.tasks[0], ActorAt(farTask, noting), &emptypb.Empty{})
		f.check(err)
		return time.Now()
	}},
	{"messages in both directions at once", 9, 9, func(f *far) time.Time {
		sent := make(chan error, 1)
		go func() { sent <- f.tasks[1].Send(f.Context(), ActorAt(nearTask, noting), wrapperspb.Int64(2)) }()
		f.check(f.tasks[0].Send(f.Context(), ActorAt(farTask, noting), wrapperspb.Int64(2)))
		f.check(<-sent)
		f.arrival()
		return f.arrival()
	}},
	{"an ensured actor", 10, 10, func(f *far) time.Time {
		_, err := f.tasks[0].Ensure(f.Context(), "counter", ActorAt(farTask, "ensured"), nil)
		f.check(err)
		return time.Now()
	}},
	{"a message to a topic", 11, 11, func(f *far) time.Time { // which tasks subscribe is asked first
		f.check(f.tasks[0].Publish(f.Context(), "topic", wrapperspb.Int64(1)))
		return f.arrival()
	}},
	{"a step", 10, 10, func(f *far) time.Time { // until its end
		s, start, _ := counting("/job:w/task:1", "far")
		_, err := sessionOf(f.T, f.tasks[0], s).Eval(f.Context(), nil, start)
		f.check(err)
		return time.Now()
	}},
	{"a step whose small tensors cross tasks", 10, 10, func(f *far) time.Time { return f.cross(4) }},
	{"a step whose large tensors cross tasks", 16, 16, func(f *far) time.Time { return f.cross(1 << 16) }},
	{"a variable of no task", 18, 10, func(f *far) time.Time {
		s := op.NewScope()
		v := op.VariableV2(s, shape.Of(), tensor.Int64, attr.SharedName("v0"))
		start := op.Assign(s, v, op.Const(s, int64(0))).Op
		_, err := sessionOf(f.T, f.tasks[0], s).Eval(f.Context(), nil, start)
		f.check(err)
		return time.Now()
	}},
}

func (f *far) check(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// cross runs a step that sends a tensor of some elements to the other task and gets one back.
func (f *far) cross(elements int64) time.Time {
	s := op.NewScope()
	x := op.Placeholder(s.WithDevice("/job:w/task:0"), tensor.Float32, attr.Shape(shape.Of(elements)))
	y := op.Neg(s.WithDevice("/job:w/task:1"), x)
	z := op.Neg(s.WithDevice("/job:w/task:0"), y)
	v, err := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{elements})
	f.check(err)
	clear(v.Data())
	defer v.Release()
	got, err := sessionOf(f.T, f.tasks[0], s).Eval(f.Context(), Feeds{x: v}, z)
	f.check(err)
	for _, v := range got {
		v.Release()
	}
	return time.Now()
}

// newFar starts the tasks, in a synctest bubble. If they are unseen, they have started while no traffic passed between them.
func newFar(t *testing.T, options func(task int) []Option, trip time.Duration, unseen bool) *far {
	f := &far{T: t, arrived: make(chan time.Time, 4)}
	f.simulation = &simulation{net: simnet.New(1), cluster: ClusterSpec{"w": {"10.0.0.1:2222", "10.0.0.2:2222"}}}
	note := WithActor(noting, func(*ActorContext, any) (Actor, error) {
		return ActorFunc(func(c *ActorContext, m any) {
			f.arrived <- time.Now()
			var err error
			switch m.(type) {
			case *emptypb.Empty:
				err = c.Reply(wrapperspb.Int64(1))
			case *wrapperspb.StringValue:
				err = c.Send(ActorAt(nearTask, noting), wrapperspb.Int64(2))
			}
			if err != nil {
				t.Error(err)
			}
		}), nil
	})
	f.options = func(task int) []Option { return append(options(task), counters, note) }
	f.net.Delay(trip / 2)
	f.net.Cut(f.host(0), f.host(1), unseen)
	for i, task := range f.startAll(t) {
		_, err := task.Spawn(t.Context(), noting, ActorAt([]string{nearTask, farTask}[i], noting), nil)
		f.check(err)
	}
	messages, err := f.tasks[1].Subscribe(t.Context(), "topic")
	f.check(err)
	go func() {
		for range messages {
			f.arrived <- time.Now()
		}
	}()
	pass(20 * time.Second) // gossip passes on what it knows, or the tasks rest between two attempts to find each other
	f.net.Cut(f.host(0), f.host(1), false)
	var cancel context.CancelFunc
	f.ctx, cancel = context.WithTimeout(t.Context(), farTime)
	t.Cleanup(cancel)
	for i, task := range f.tasks {
		if got := task.Status()[1-i].State; (got == "never seen") != unseen {
			t.Fatalf("task %d believes that the other one is %s", i, got)
		}
	}
	return f
}

// TestRoundTrips counts the round trips that the first contact of two tasks takes, for each way of it, protection and distance.
func TestRoundTrips(t *testing.T) {
	trips := []time.Duration{time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	for i, contact := range farContacts {
		for j, protection := range farProtections {
			for k, trip := range trips {
				for l, unseen := range []bool{false, true} {
					if !extent.Check() && (i+j+k+l)%4 != 0 { // the short form has each of them
						continue
					}
					name, most := "known", contact.known
					if unseen {
						name, most = "unseen", contact.unseen
					}
					t.Run(strings.Join([]string{contact.name, protection.name, name, trip.String()}, "/"), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							f := newFar(t, protection.options(t), trip, unseen)
							began := time.Now()
							took := contact.do(f).Sub(began)
							t.Logf("it took %.1f round trips", float64(took)/float64(trip))
							if took > time.Duration(most)*trip/2 {
								t.Errorf("it took %.1f round trips, of %.1f at most", float64(took)/float64(trip), float64(most)/2)
							}
						})
					})
				}
			}
		}
	}
}

// TestRoundTripsWithLosses checks that contacts between tasks that are far from each other come about although packets are lost.
func TestRoundTripsWithLosses(t *testing.T) {
	for i, contact := range farContacts {
		for j, protection := range farProtections {
			if !extent.Check() && (i+j)%3 != 0 {
				continue
			}
			t.Run(contact.name+"/"+protection.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFar(t, protection.options(t), 400*time.Millisecond, i%2 == 0)
					f.net.Lose(0.05)
					began := time.Now()
					if took := contact.do(f).Sub(began); took > 15*time.Second {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}
