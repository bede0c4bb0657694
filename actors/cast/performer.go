package cast

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// performer is one actor of a program. The actor system runs it; its queue is its own, so that it is
// bounded, and so that nothing of it is lost unnoticed when the actor ends.
type performer struct {
	cast      *Cast
	ref       Ref
	number    uint64 // of all that the cast has had
	kind      string
	create    Make
	arguments *wire.Content
	maker     Ref // who is told when it is there
	life      context.Context
	die       context.CancelFunc
	gone      chan struct{}    // closed when it has ended
	pending   map[Ref]struct{} // requests that it has not answered; cast.mu

	// These belong to the actor's goroutine.
	context Context
	self    Actor
	enders  []Ref // who asked for the end that it has come to

	mu       sync.Mutex
	pid      *actor.PID // nil until the actor system has told it
	queue    []item
	bytes    int
	turns    int // turns that are due since before pid was known
	ended    bool
	stop     error // why it has to end before its next message
	stopping bool
	watchers map[string]uint64    // ids of watches by the tasks that have them
	held     map[*func()]struct{} // what cancels its own watches
}

// item is what waits for an actor.
type item struct {
	sender  Ref
	message any           // a proto.Message, or a notice
	content *wire.Content // in place of a message: it came from another task
	size    int           // bytes
	end     bool          // the actor ends here, and sender is told
}

// turn lets an actor handle the first of its queue.
type turn struct{}

func newPerformer(s *Cast, name string, q *wire.Spawn, create Make, maker Ref) *performer {
	p := &performer{cast: s, ref: Ref{s.config.Self, name}, number: s.born, kind: q.GetKind(), create: create, arguments: q.GetArguments(), maker: maker,
		gone: make(chan struct{}), pending: map[Ref]struct{}{}, watchers: map[string]uint64{}, held: map[*func()]struct{}{}}
	p.life, p.die = context.WithCancel(s.life)
	p.context.performer = p
	return p
}

// found is told the actor's address, and gives it the turns that have gathered.
func (p *performer) found(pid *actor.PID) {
	p.mu.Lock()
	p.pid = pid
	due := p.turns
	p.mu.Unlock()
	for range due {
		p.cast.config.System.Root.Send(pid, turn{})
	}
}

// post puts something into the queue. A notice finds room always: what asks for notices bounds them.
func (p *performer) post(i item) error {
	notice := i.end || i.size == 0 && i.content == nil && !isMessage(i.message)
	p.mu.Lock()
	switch {
	case p.ended:
		p.mu.Unlock()
		return status.Errorf(status.NotFound, "There is no actor %s on %s: it has ended", p.ref.Name, p.ref.Task)
	case notice:
	case len(p.queue) >= MaxQueued, p.bytes+i.size > MaxQueuedBytes:
		n, bytes := len(p.queue), p.bytes
		p.mu.Unlock()
		return status.Errorf(status.ResourceExhausted, "The queue of the actor %s on %s is full: %d messages of %d bytes wait for it", p.ref.Name, p.ref.Task, n, bytes)
	case p.cast.bytes.Load()+int64(i.size) > MaxBytes:
		p.mu.Unlock()
		return status.Errorf(status.ResourceExhausted, "%d bytes of messages wait for the actors of %s, which is the limit", p.cast.bytes.Load(), p.ref.Task)
	}
	p.queue = append(p.queue, i)
	p.bytes += i.size
	p.cast.bytes.Add(int64(i.size))
	pid := p.pid
	if pid == nil {
		p.turns++
	}
	p.mu.Unlock()
	if pid != nil {
		p.cast.config.System.Root.Send(pid, turn{})
	}
	return nil
}

func isMessage(m any) bool { _, ok := m.(proto.Message); return ok }

// dismiss ends the actor before its next message.
func (p *performer) dismiss(why error) {
	p.mu.Lock()
	p.stopping, p.stop = true, why
	p.mu.Unlock()
	p.die()
	// The actor may have ended already; a notice finds room always.
	_ = p.post(item{message: turn{}})
}

// letGo forgets a watch of its own that is over.
func (p *performer) letGo(watch *func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, watch)
}

// receive is what the actor system calls, on one goroutine at a time.
func (p *performer) receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		if err := p.begin(); err != nil {
			p.finish(err)
			c.Stop(c.Self())
			return
		}
		p.cast.answer(p.maker, nil, nil)
	case turn:
		if over, why := p.step(); over {
			p.finish(why)
			c.Stop(c.Self())
		}
	case *actor.Stopping: // the actor system goes down
		p.finish(p.cast.stopping())
	}
}

// begin makes the program's actor.
func (p *performer) begin() (err error) {
	arguments, err := open(p.arguments)
	if err != nil {
		return err
	}
	p.arguments = nil
	if crash := p.guard(func() { p.self, err = p.create(&p.context, arguments) }); crash != nil {
		return crash
	}
	if err == nil && p.self == nil {
		err = status.Internalf("The program made no actor of kind %q", p.kind)
	}
	return err
}

// step handles the first of the queue; over tells that the actor ends, and why.
func (p *performer) step() (over bool, why error) {
	p.mu.Lock()
	if p.ended || len(p.queue) == 0 {
		p.mu.Unlock()
		return false, nil
	}
	if p.stopping {
		why = p.stop
		p.mu.Unlock()
		return true, why
	}
	i := p.queue[0]
	p.queue[0], p.queue = item{}, p.queue[1:]
	p.bytes -= i.size
	p.mu.Unlock()
	p.cast.bytes.Add(-int64(i.size))
	if i.end {
		p.enders = append(p.enders, i.sender)
		return true, nil
	}
	if i.content != nil {
		m, err := open(i.content)
		if err != nil {
			p.cast.refuse(p.ref, i.sender, err)
			return false, nil
		}
		i.message = m
	}
	if t, ok := i.message.(*taskNotice); ok {
		for _, change := range t.subscription.Take() {
			if why := p.handle(change, Ref{}); why != nil {
				return true, why
			}
		}
		return p.leaving()
	}
	if why := p.handle(i.message, i.sender); why != nil {
		return true, why
	}
	return p.leaving()
}

// leaving tells whether the actor has asked for its end, or somebody else has.
func (p *performer) leaving() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping, p.stop
}

// handle gives the program a message. The error is a panic, with which the actor ends.
func (p *performer) handle(message any, sender Ref) error {
	p.context.sender = sender
	err := p.guard(func() { p.self.Receive(&p.context, message) })
	p.context.sender = Ref{}
	return err
}

// guard makes a panic of the program's an error.
func (p *performer) guard(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.cast.log.Error("an actor of the program panicked, and ends", "actor", p.ref.Name, "kind", p.kind, "panic", r, "stack", string(debug.Stack()))
			err = status.Internalf("The actor %s on %s panicked: %v", p.ref.Name, p.ref.Task, fmt.Sprint(r))
		}
	}()
	f()
	return nil
}

// finish ends the actor, once: its name is free, who asked it something is answered, and who watches it
// is told.
func (p *performer) finish(why error) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended = true
	left, bytes, watchers := p.queue, p.bytes, p.watchers
	p.queue, p.bytes, p.watchers = nil, 0, nil
	var cancels []func()
	for cancel := range p.held {
		cancels = append(cancels, *cancel)
	}
	p.mu.Unlock()
	p.die()
	for _, cancel := range cancels {
		cancel()
	}
	if p.self != nil {
		var err error
		if crash := p.guard(func() { err = p.self.Close() }); crash != nil {
			err = crash
		}
		if why == nil && err != nil {
			why = status.From(err)
		}
	}
	s := p.cast
	s.bytes.Add(-int64(bytes))
	s.mu.Lock()
	delete(s.actors, p.ref.Name)
	waiting := p.pending
	p.pending = nil
	for asker := range waiting {
		delete(s.asked, asker)
	}
	s.mu.Unlock()
	reason := why
	if reason == nil {
		reason = status.Errorf(status.NotFound, "The actor %s on %s has ended", p.ref.Name, p.ref.Task)
	}
	if p.self == nil { // it never was there
		s.answer(p.maker, nil, reason)
	}
	for _, i := range left {
		if i.end {
			p.enders = append(p.enders, i.sender)
		}
	}
	for _, asker := range p.enders {
		s.answer(asker, nil, nil)
	}
	for asker := range waiting {
		s.answer(asker, nil, reason)
	}
	for task, id := range watchers {
		s.announce(task, p.ref, id, why)
	}
	close(p.gone)
}
