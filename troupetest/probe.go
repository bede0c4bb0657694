package troupetest

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// probeKind is the kind of probes among a server's actors.
const probeKind = "troupetest.probe"

// patience bounds the calls that take no time themselves: it passes only if something hangs.
const patience = 30 * time.Second

// Probe is an actor that the test controls. It receives whatever other actors send it, and keeps it until the test expects it; it sends,
// watches and answers for the test.
type Probe struct {
	c      *Cluster
	task   *task
	server *troupe.Server
	ref    troupe.ActorRef
	last   letter // what the test has got last

	arrived chan struct{}   // signals that letters has grown
	life    context.Context // ends with the actor

	mu      sync.Mutex // guards letters: the actor appends them, and the test removes them
	letters []letter
}

// letter is something that a probe has received, with what is needed to answer it.
type letter struct {
	message any
	sender  troupe.ActorRef
	context *troupe.ActorContext
	request *troupe.ActorRequest // nil unless a caller of Ask waits
}

func (l letter) String() string {
	if e, ok := l.message.(troupe.ActorEnded); ok {
		return fmt.Sprintf("the end of %v (%v)", e.Actor, e.Err)
	}
	text := fmt.Sprintf("a %T {%v}", l.message, l.message)
	switch {
	case l.request != nil:
		text += " from a caller of Ask"
	case l.sender != (troupe.ActorRef{}):
		text += fmt.Sprintf(" from %v", l.sender)
	}
	return text
}

// command is a message of the test to its own probe, which does something on the actor's goroutine.
type command struct {
	*emptypb.Empty
	do func(*troupe.ActorContext)
}

// Probe makes a probe on a task. With an empty name, it gets a unique one.
func (c *Cluster) Probe(task, name string) *Probe {
	c.t.Helper()
	p := &Probe{c: c, task: c.task(task), arrived: make(chan struct{}, 1)}
	p.server = c.present(p.task).server
	number := c.number.Add(1)
	c.probes.Store(number, p)
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	c.labelled(func() {
		var err error
		if p.ref, err = p.server.Spawn(ctx, probeKind, troupe.ActorAt(p.server.Task(), name), wrapperspb.Int64(number)); err != nil {
			c.t.Fatalf("troupetest: no probe on %s: %v", p.task, err)
		}
	})
	return p
}

// makeProbe makes the actor of a probe, on the probe's task.
func (c *Cluster) makeProbe(a *troupe.ActorContext, arguments any) (troupe.Actor, error) {
	number, _ := arguments.(*wrapperspb.Int64Value)
	found, ok := c.probes.LoadAndDelete(number.GetValue())
	if !ok {
		return nil, status.InvalidArgumentf("probes are made with Cluster.Probe")
	}
	p := found.(*Probe)
	p.life = a.Context()
	return troupe.ActorFunc(p.receive), nil
}

// receive runs on the actor's goroutine.
func (p *Probe) receive(a *troupe.ActorContext, message any) {
	if c, ok := message.(command); ok {
		c.do(a)
		return
	}
	p.mu.Lock()
	p.letters = append(p.letters, letter{message, a.Sender(), a, a.Keep()})
	p.mu.Unlock()
	select {
	case p.arrived <- struct{}{}:
	default: // signalled already
	}
}

// next takes the next letter, for which it waits.
func (p *Probe) next(within time.Duration) (l letter, ok bool) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		if len(p.letters) > 0 {
			l, p.letters = p.letters[0], p.letters[1:]
			p.mu.Unlock()
			p.last = l
			return l, true
		}
		p.mu.Unlock()
		select {
		case <-p.arrived:
		case <-timeout.C:
			return letter{}, false
		}
	}
}

// act runs do on the actor's goroutine, and fails the test with its error.
func (p *Probe) act(what string, do func(a *troupe.ActorContext) error) {
	p.c.t.Helper()
	ctx, cancel := context.WithTimeout(p.c.t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	err := p.server.Send(ctx, p.ref, command{&emptypb.Empty{}, func(a *troupe.ActorContext) { done <- do(a) }})
	if err == nil {
		select {
		case err = <-done:
		case <-p.life.Done():
			err = status.Errorf(status.NotFound, "the probe has ended")
		case <-ctx.Done():
			err = status.From(ctx.Err())
		}
	}
	if err != nil {
		p.c.t.Fatalf("troupetest: %v cannot %s: %v", p, what, err)
	}
}

// String returns the probe's name and task, as failures show them.
func (p *Probe) String() string { return fmt.Sprintf("probe %s on %s", p.ref.Name(), p.task) }

// Ref returns the probe's address, which can be sent to other actors. EndActor ends the probe like any other actor.
func (p *Probe) Ref() troupe.ActorRef { return p.ref }

// Send sends a message from the probe. It waits while the queue of the receiver is full.
func (p *Probe) Send(to troupe.ActorRef, message any) {
	p.c.t.Helper()
	p.act(fmt.Sprintf("send to %v", to), func(a *troupe.ActorContext) error { return a.Send(to, message) })
}

// Watch watches an actor, whose end ExpectEnded expects.
func (p *Probe) Watch(ref troupe.ActorRef) {
	p.c.t.Helper()
	p.act(fmt.Sprintf("watch %v", ref), func(a *troupe.ActorContext) error { return a.Watch(ref) })
}

// WatchTasks makes the probe receive a troupe.TaskStatus of each task that comes, goes, or is another process than before.
func (p *Probe) WatchTasks() {
	p.c.t.Helper()
	p.act("watch tasks", func(a *troupe.ActorContext) error { a.WatchTasks(); return nil })
}

// Sender returns the sender of the message that the test has got last: an actor, a caller of Ask, or the zero ActorRef if there is none.
func (p *Probe) Sender() troupe.ActorRef { return p.last.sender }

// Reply answers the message that the test has got last: it sends a message to its sender, which gets it as the answer if it has called Ask.
func (p *Probe) Reply(message any) {
	p.c.t.Helper()
	var err error
	switch {
	case p.last.request != nil:
		err = p.last.request.Reply(message)
	case p.last.context != nil:
		err = p.last.context.Reply(message)
	default:
		err = status.Errorf(status.FailedPrecondition, "it has received nothing")
	}
	if err != nil {
		p.c.t.Fatalf("troupetest: %v cannot reply: %v", p, err)
	}
}

// Fail answers the message that the test has got last, which must be of a caller of Ask, with an error.
func (p *Probe) Fail(err error) {
	p.c.t.Helper()
	if p.last.request == nil {
		p.c.t.Fatalf("troupetest: %v has nobody to fail: no caller of Ask waits for an answer to its last message", p)
	}
	if err := p.last.request.Fail(err); err != nil {
		p.c.t.Fatalf("troupetest: %v cannot fail a request: %v", p, err)
	}
}

// Expect returns the probe's next message, which must arrive within a time and be an M: a message that was sent to it, or a
// troupe.TaskStatus. It ends the test if another message comes first, or none. Expect[proto.Message] takes any protocol buffer that was sent.
func Expect[M any](p *Probe, within time.Duration) M {
	p.c.t.Helper()
	want := fmt.Sprintf("a %v", reflect.TypeFor[M]())
	l, ok := p.next(within)
	m, is := l.message.(M)
	switch {
	case !ok:
		p.c.t.Fatalf("troupetest: %v got nothing within %v, want %s", p, within, want)
	case !is:
		p.c.t.Fatalf("troupetest: %v got %v, want %s", p, l, want)
	}
	return m
}

// ExpectEnded waits for the end of an actor that the probe watches, and returns ActorEnded.Err: nil if the actor was ended on purpose. It
// ends the test if the end does not come within a time, or something else comes first.
func (p *Probe) ExpectEnded(ref troupe.ActorRef, within time.Duration) error {
	p.c.t.Helper()
	l, ok := p.next(within)
	e, is := l.message.(troupe.ActorEnded)
	switch {
	case !ok:
		p.c.t.Fatalf("troupetest: %v got nothing within %v, want the end of %v", p, within, ref)
	case !is || !e.Actor.Equal(ref):
		p.c.t.Fatalf("troupetest: %v got %v, want the end of %v", p, l, ref)
	}
	return e.Err
}

// ExpectNothing waits for a time, and ends the test if the probe receives something meanwhile or has received something that the test has
// not expected yet. In real time it makes the test wait.
func (p *Probe) ExpectNothing(d time.Duration) {
	p.c.t.Helper()
	if l, ok := p.next(d); ok {
		p.c.t.Fatalf("troupetest: %v got %v, want nothing within %v", p, l, d)
	}
}

// Ask sends a message to an actor from the probe's task, and returns the answer, which must come within a time. It ends the test with the
// error if there is none; use troupe.Ask to test for errors. Meanwhile the probe goes on receiving messages.
func Ask[A any](p *Probe, to troupe.ActorRef, message any, within time.Duration) A {
	p.c.t.Helper()
	ctx, cancel := context.WithTimeout(p.c.t.Context(), within)
	defer cancel()
	answer, err := troupe.Ask[A](ctx, p.server, to, message)
	if err != nil {
		p.c.t.Fatalf("troupetest: %v asked %v: %v", p, to, err)
	}
	return answer
}
