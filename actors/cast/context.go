package cast

import (
	"context"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
)

// Context is an actor's view of itself and of the message that it handles. A message with a sender has its own
// Context, which may be kept. Only Cast, Self, Life, Context, Reply and Fail may be called on other goroutines than the actor's.
type Context struct {
	life *life
	from *origin // nil if the message has neither a sender nor a trace
}

// origin is where a message comes from.
type origin struct {
	sender  Ref
	request *Request // nil if the message is not a request
	traced  *traced  // nil if the message belongs to no trace
}

// ctx returns the context of the life, with the span of the message.
func (c *Context) ctx() context.Context {
	if c.from != nil && c.from.traced != nil {
		return c.from.traced.ctx
	}
	return c.life.ctx()
}

// sender returns the sender of the message; the zero Ref if it has none.
func (c *Context) sender() Ref {
	if c.from == nil {
		return Ref{}
	}
	return c.from.sender
}

// request returns the request that is being handled; nil if the message is none.
func (c *Context) request() *Request {
	if c.from == nil {
		return nil
	}
	return c.from.request
}

// Cast returns the task's cast.
func (c *Context) Cast() *Cast { return c.life.performer.cast }

// Self returns the actor's own address.
func (c *Context) Self() Ref {
	p := c.life.performer
	if p.kind.Virtual != nil {
		return p.cast.virtualize(p.ref())
	}
	return p.ref()
}

// Sender returns the sender of the message that is being handled; the zero Ref if it cannot be answered.
func (c *Context) Sender() Ref { return c.Cast().virtualize(c.sender()) }

// Life returns a context that ends when the actor restarts or ends, or when its server stops.
func (c *Context) Life() context.Context { return c.life.ctx() }

// Context returns a context for what is done to handle the message: Life, or that of the request.
func (c *Context) Context() context.Context {
	if r := c.request(); r != nil {
		return r.Context()
	}
	return c.ctx()
}

// Send sends a message from this actor.
func (c *Context) Send(to Ref, message proto.Message) error {
	// An actor that waited for room in its own queue would wait forever.
	return c.send(to, message, to != c.life.performer.ref() && to != c.Self())
}

// TrySend is Send that does not wait for room: RESOURCE_EXHAUSTED.
func (c *Context) TrySend(to Ref, message proto.Message) error {
	return c.send(to, message, false)
}

func (c *Context) send(to Ref, message proto.Message, wait bool) error {
	if c.life.unsent.Load() {
		if err := c.life.await(to.Task); err != nil {
			return err
		}
	}
	return c.Cast().send(c.ctx(), c.life.performer.ref(), to, message, wait)
}

var errNoSender = status.New(status.FailedPrecondition, "the message that is being handled has no sender")

// Reply sends a message to the sender. For a request, it is the one answer.
func (c *Context) Reply(message proto.Message) error {
	if r := c.request(); r != nil {
		return r.Reply(message)
	}
	if c.sender() == (Ref{}) {
		return errNoSender
	}
	return c.Send(c.Sender(), message)
}

// Fail answers a request with an error.
//
// A requester outside the cluster receives a dead letter instead: its protocol has no errors.
func (c *Context) Fail(err error) error {
	switch {
	case err == nil:
		return status.InvalidArgumentf("a request cannot fail without an error")
	case Outside(c.sender().Task):
		c.Cast().deadLetter(c.Self().Name, c.sender())
		return nil //nolint:nilerr // err is the answer, and no failure to give it
	case c.request() == nil:
		return status.New(status.FailedPrecondition, "the message that is being handled is not a request")
	}
	return c.request().Fail(err)
}

// Conclude answers the message with what its handler returned. A request receives the answer or, if err is not nil or the answer cannot be sent,
// an error. For another message, err is logged.
func (c *Context) Conclude(answer proto.Message, err error) {
	if r := c.request(); r != nil {
		if err == nil {
			err = r.Reply(answer)
		}
		if err == nil {
			return
		}
		if r.Fail(err) == nil {
			return
		}
	}
	if err != nil {
		p := c.life.performer
		p.cast.refuse(p.ref(), c.sender(), err)
	}
}

// Keep returns the request that is being handled, to be answered after Receive has returned. It is nil for other messages.
func (c *Context) Keep() *Request {
	r := c.request()
	if r != nil && r.state.CompareAndSwap(unanswered, kept) {
		c.Cast().keep(r)
	}
	return r
}

// Request is a request that an actor has received. It has one answer. A request that is neither answered nor kept when Receive returns
// fails; a kept one fails when its actor restarts or ends. All methods may be called concurrently.
type Request struct {
	life       *life
	asker      Ref
	traced     *traced // nil if it belongs to no trace
	state      atomic.Int32
	contextual atomic.Bool // a context was made for it
}

// ctx returns the context of the life, with the span of the request.
func (r *Request) ctx() context.Context {
	if r.traced != nil {
		return r.traced.ctx
	}
	return r.life.ctx()
}

// States of a request.
const (
	unanswered int32 = iota // while it is being handled
	kept
	putAside  // in the stash; it is another Request when it is handled again
	answered  // or forwarded
	abandoned // its handler returned without an answer or failed, and so has the request
)

// Reply answers the request. If the answer cannot be sent, the request stays unanswered.
func (r *Request) Reply(message proto.Message) error {
	return r.answer(func() error {
		p := r.life.performer
		return p.cast.send(r.ctx(), p.ref(), r.asker, message, true)
	})
}

// Fail answers the request with an error.
func (r *Request) Fail(err error) error {
	if err == nil {
		return status.InvalidArgumentf("a request cannot fail without an error")
	}
	return r.answer(func() error {
		s := r.life.performer.cast
		s.withdraw(r.asker)
		s.answer(r.asker, outcome{error: err, own: true})
		return nil
	})
}

func (r *Request) answer(send func() error) error {
	for {
		before := r.state.Load()
		switch before {
		case answered:
			return status.New(status.FailedPrecondition, "the request has been answered already")
		case putAside:
			return status.New(status.FailedPrecondition, "the request has been stashed, and is to be answered when it is handled again")
		case abandoned:
			return status.New(status.FailedPrecondition, "the request has failed, because Receive returned without an answer: a request that is answered later has to be kept")
		}
		if !r.state.CompareAndSwap(before, answered) {
			continue
		}
		err := send()
		if err != nil {
			r.state.Store(before)
		}
		return err
	}
}

// handled fails a request whose handler has returned, unless the request was answered or kept.
func (r *Request) handled(message string) {
	if !r.state.CompareAndSwap(unanswered, abandoned) {
		return
	}
	p := r.life.performer
	if p.cast.withdraw(r.asker) { // otherwise another actor has answered it, or the requester no longer waits
		err := status.Unimplementedf("the actor %s on %s, of kind %q, neither answered nor kept a request of type %s", p.name, p.cast.config.Self, p.kind.name, message)
		p.cast.answer(r.asker, outcome{error: err, own: true})
	}
}

// abandon fails a request whose handler has failed, unless the request was answered.
func (r *Request) abandon(why error) {
	if !r.state.CompareAndSwap(unanswered, abandoned) && !r.state.CompareAndSwap(kept, abandoned) {
		return
	}
	if s := r.life.performer.cast; s.withdraw(r.asker) {
		s.answer(r.asker, why)
	}
}

// Watch sends the actor an Ended, which names the other actor as, when that actor ends. It does nothing if the actor watches the other one
// already.
func (c *Context) Watch(ref, as Ref) error {
	l := c.life
	ref, err := c.Cast().resolve(ref)
	if err != nil {
		return err
	}
	if l.tied().watches[ref] != nil {
		return nil
	}
	s := &source{life: l}
	w, cancel, err := c.Cast().watch(ref, func(e Ended) { s.send(Ended{as, e.Err}, true) })
	if err != nil {
		return err
	}
	select {
	case <-w.sent:
	default:
		if !l.sendLater(ref.Task, func(context.Context) { <-w.sent }) {
			cancel()
			return queueFull(ref.Task)
		}
	}
	t := l.needTies()
	if t.watches == nil {
		t.watches = map[Ref]*source{}
	}
	t.watches[ref] = s
	l.hold(s, func() {
		delete(t.watches, ref)
		cancel()
	})
	return nil
}

// Unwatch ends a watch: the actor receives no Ended of it, even if one waits already.
func (c *Context) Unwatch(ref Ref) error {
	ref, err := c.Cast().resolve(ref)
	if err != nil {
		return err
	}
	if s := c.life.tied().watches[ref]; s != nil {
		s.end()
	}
	return nil
}

// WatchTasks subscribes the actor to changes of the cluster's tasks. A second call does nothing.
func (c *Context) WatchTasks() {
	l := c.life
	if l.tasks() != nil {
		return
	}
	tasks := c.Cast().Subscribe(func(s *Subscription) { l.performer.tell(&taskNotice{s}) })
	l.needTies().tasks = tasks
	l.hold(&source{life: l}, tasks.Cancel)
}

// Spawn creates an actor of this task that ends with the life of this one: when it ends or restarts.
func (c *Context) Spawn(kind, name string, arguments proto.Message) (Ref, error) {
	s := c.Cast()
	return s.create(c.life.ctx(), kind, Ref{Name: name}, arguments, c.life)
}

// Drop logs that the actor does not know the message that is being handled. A request fails anyway, and is not logged.
func (c *Context) Drop(message any) {
	if c.request() == nil {
		p := c.life.performer
		p.cast.refuse(p.ref(), c.sender(), status.Unimplementedf("actors of kind %q have no handler of %s", p.kind.name, nameOf(message)))
	}
}

// Actor returns the actor; nil while it is being made.
func (c *Context) Actor() Actor { return c.life.self }

// Stop ends the actor after the message that is being handled.
func (c *Context) Stop() {
	c.life.performer.stopping.Store(true)
}

// Crash makes the actor fail with err, as with a panic, after the message that is being handled.
func (c *Context) Crash(err error) {
	if err == nil {
		err = status.Internalf("the actor %s crashed without an error", c.Self().Name)
	}
	c.life.needTies().failure = status.From(err)
}
