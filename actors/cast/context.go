package cast

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// Context is what an actor knows of itself and does. It is for the actor's own goroutine, but for Cast,
// Self and Life.
type Context struct {
	performer *performer
	sender    Ref
	tasks     *Subscription
}

// Cast is the task's cast.
func (c *Context) Cast() *Cast { return c.performer.cast }

// Self is the actor's own address.
func (c *Context) Self() Ref { return c.performer.ref }

// Sender is who sent the message that is being handled; the zero Ref where that is nobody to answer.
func (c *Context) Sender() Ref { return c.sender }

// Life ends when the actor does, or when its server stops.
func (c *Context) Life() context.Context { return c.performer.life }

// Send sends a message from this actor.
func (c *Context) Send(to Ref, message proto.Message) error {
	// An actor that waited for room in its own queue would make none.
	return c.performer.cast.send(c.performer.life, c.Self(), to, message, to != c.Self())
}

// TrySend is Send that does not wait for room: RESOURCE_EXHAUSTED.
func (c *Context) TrySend(to Ref, message proto.Message) error {
	return c.performer.cast.send(c.performer.life, c.Self(), to, message, false)
}

var errNoSender = status.New(status.FailedPrecondition, "The message that is being handled has no sender")

// Reply sends a message to the sender.
func (c *Context) Reply(message proto.Message) error {
	if c.sender == (Ref{}) {
		return errNoSender
	}
	return c.Send(c.sender, message)
}

// Fail answers a request with an error.
//
// To one outside the cluster it is a dead letter: their protocol has no errors.
func (c *Context) Fail(err error) error {
	if Outside(c.sender.Task) && err != nil {
		c.performer.cast.deadLetter(c.Self().Name, c.sender)
		return nil //nolint:nilerr // err is the answer, and no failure to give it
	}
	if !isAsk(c.sender.Name) {
		return status.New(status.FailedPrecondition, "The message that is being handled is no request")
	}
	if err == nil {
		return status.InvalidArgumentf("A request cannot fail without an error")
	}
	c.performer.cast.withdraw(c.sender)
	c.performer.cast.answer(c.sender, err)
	return nil
}

// Watch lets the actor get an Ended when another one ends.
func (c *Context) Watch(ref Ref) error {
	p := c.performer
	key := new(func())
	p.mu.Lock()
	p.held[key] = struct{}{}
	p.mu.Unlock()
	_, cancel, err := p.cast.Watch(ref, func(e Ended) {
		p.letGo(key)
		p.tell(e)
	})
	if err != nil {
		p.letGo(key)
		return err
	}
	p.mu.Lock()
	*key = cancel
	p.mu.Unlock()
	return nil
}

// WatchTasks lets the actor be told of the cluster's tasks; the second time it does nothing.
func (c *Context) WatchTasks() {
	if c.tasks != nil {
		return
	}
	p := c.performer
	c.tasks = p.cast.Subscribe(func(s *Subscription) { p.tell(&taskNotice{s}) })
	context.AfterFunc(p.life, contain.Func(p.cast.log, "The end of an actor", c.tasks.Cancel, nil))
}

// Stop ends the actor after the message that is being handled.
func (c *Context) Stop() {
	c.performer.stopping.Store(true)
}
