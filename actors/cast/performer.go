package cast

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/roles"
)

// performer is one actor of a program. The actor system runs it; its queue is its own, so that it is
// bounded, and so that nothing of it is lost unnoticed when the actor ends.
type performer struct {
	cast      *Cast
	ref       Ref
	number    uint64 // of all that the cast has had
	kind      string
	since     time.Time
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
	enders  []Ref  // who asked for the end that it has come to
	taken   *piece // of the queue, to be handled before the rest of it; nil: nothing
	next    int    // of taken

	// What waits in the queue. What is taken counts as handled.
	messages, bytes atomic.Int64
	begun           atomic.Uint64 // messages that it has handled, or is handling
	ahead           atomic.Int64  // messages that have left the queue and not begun
	waiting         atomic.Bool   // somebody waits for room
	stopping        atomic.Bool

	mu       sync.Mutex
	pid      *actor.PID // nil until the actor system has told it
	queue    queue
	turning  bool // a turn is due
	ended    bool
	room     chan struct{}        // closed when there is room again; nil: nobody waits
	stop     error                // why it has to end before its next message
	watchers map[string]uint64    // ids of watches by the tasks that have them
	held     map[*func()]struct{} // what cancels its own watches
	// outsiders are the actors outside the cluster that watch it.
	outsiders map[Ref]struct{}
}

// item is what waits for an actor.
type item struct {
	sender  Ref
	content content
	notice  any  // in place of a message: an Ended, a *taskNotice or a nudge
	end     bool // the actor ends here, and sender is told
	size    int  // bytes
	room    Room // of a message that came from another task; nil: of none that waits for room
	lane    *lane
}

// isMessage tells whether it is a message, and no notice. Only messages are bounded: who asks for notices
// bounds them.
func (i *item) isMessage() bool { return i.notice == nil && !i.end }

// free tells that a message from another task takes no room any more.
func (i *item) free() {
	if i.room != nil {
		i.room.Handled(1, i.size)
	}
}

// nudge makes an actor see that it is to end.
type nudge struct{}

// turn lets an actor handle what waits for it.
type turn struct{}

// perTurn is how many messages an actor handles before others get the goroutine.
const perTurn = 256

func newPerformer(s *Cast, name string, q *wire.Spawn, create Make, maker Ref) *performer {
	p := &performer{cast: s, ref: Ref{s.config.Self, name}, number: s.born, kind: q.GetKind(), since: time.Now(), create: create, arguments: q.GetArguments(), maker: maker,
		gone: make(chan struct{}), pending: map[Ref]struct{}{}, watchers: map[string]uint64{}, held: map[*func()]struct{}{}}
	p.life, p.die = context.WithCancel(s.life)
	p.context.performer = p
	return p
}

// found is told the actor's address, and lets it begin with what has gathered.
func (p *performer) found(pid *actor.PID) {
	p.mu.Lock()
	p.pid = pid
	p.wake()
}

// wake lets the actor handle its queue. mu is held, and is not afterwards.
func (p *performer) wake() {
	pid := p.pid
	due := pid != nil && !p.turning && !p.queue.empty()
	if due {
		p.turning = true
	}
	p.mu.Unlock()
	if due {
		p.cast.config.System.Root.Send(pid, turn{})
	}
}

func (p *performer) over() error {
	return status.Errorf(status.NotFound, "There is no actor %s on %s: it has ended", p.ref.Name, p.ref.Task)
}

// post puts a message of this task into the queue. Where that is full it waits until ctx ends, or is
// RESOURCE_EXHAUSTED.
func (p *performer) post(ctx context.Context, i item, wait bool) error {
	for {
		p.mu.Lock()
		if p.ended {
			p.mu.Unlock()
			return p.over()
		}
		if waiting := p.cast.bytes.Load(); waiting+int64(i.size)+Overhead > MaxBytes {
			p.mu.Unlock()
			return status.Errorf(status.ResourceExhausted, "%d bytes of messages wait for the actors of %s, and the limit is %d", waiting, p.ref.Task, MaxBytes)
		}
		n, bytes := p.messages.Load(), p.bytes.Load()
		if n < MaxQueued && bytes+int64(i.size) <= MaxQueuedBytes {
			p.add(1, i.size)
			p.queue.push(&i)
			p.wake()
			return nil
		}
		if !wait {
			p.mu.Unlock()
			return status.Errorf(status.ResourceExhausted, "The queue of the actor %s on %s is full: %d messages of %d bytes wait for it", p.ref.Name, p.ref.Task, n, bytes)
		}
		if p.room == nil {
			p.room = make(chan struct{})
			p.waiting.Store(true)
		}
		room := p.room
		p.mu.Unlock()
		if p.messages.Load() != n { // somebody was handled before waiting was seen
			p.makeRoom()
		}
		select {
		case <-room:
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
}

// makeRoom lets those who wait for room try again.
func (p *performer) makeRoom() {
	p.mu.Lock()
	room := p.room
	p.room = nil
	p.waiting.Store(false)
	p.mu.Unlock()
	if room != nil {
		close(room)
	}
}

func (p *performer) add(messages, bytes int) {
	p.messages.Add(int64(messages))
	p.bytes.Add(int64(bytes))
	p.cast.bytes.Add(int64(bytes + messages*Overhead))
}

// take puts messages of another task into the queue, which has room for them: the sender has kept within its
// windows.
func (p *performer) take(l *lane, items *queue) error {
	var all tally
	for i := range items.all {
		all.add(i.size)
	}
	size := int64(all.bytes + all.messages*Overhead)
	if l.waiting.Load()+size > maxLane {
		return status.Errorf(status.ResourceExhausted, "%d bytes of messages of one task wait for the actors of %s, which is the limit", l.waiting.Load(), p.ref.Task)
	}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return p.over()
	}
	l.waiting.Add(size)
	p.add(all.messages, all.bytes)
	p.queue.append(items)
	p.wake()
	return nil
}

// notify puts a notice into the queue.
func (p *performer) notify(i item) error {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return p.over()
	}
	p.queue.push(&i)
	p.wake()
	return nil
}

// tell puts a notice into the queue that an actor which has ended can do without.
func (p *performer) tell(notice any) {
	_ = p.notify(item{notice: notice}) // It fails only because the actor has ended.
}

// dismiss ends the actor before its next message.
func (p *performer) dismiss(why error) {
	p.mu.Lock()
	p.stop = why
	p.stopping.Store(true)
	p.mu.Unlock()
	p.die()
	p.tell(nudge{})
}

// status is the actor in the list of its task. It waits for nothing that the actor does.
func (p *performer) status() roles.Status {
	s := roles.Status{Name: p.ref.Name, Kind: KindPrefix + p.kind, State: "idle", Handled: p.begun.Load(), Waiting: p.queued(), Since: p.since}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turning {
		s.State = "running"
	}
	return s
}

// queued is how many messages wait for the actor.
func (p *performer) queued() int { return int(p.messages.Load() + p.ahead.Load()) }

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
		p.cast.answer(p.maker, nil)
	case turn:
		if over, why := p.run(); over {
			p.finish(why)
			c.Stop(c.Self())
		}
	case *actor.Stopping: // the actor system goes down
		p.finish(p.cast.stopping())
	}
}

// begin makes the program's actor.
func (p *performer) begin() (err error) {
	given, err := arguments(p.arguments)
	if err != nil {
		return err
	}
	p.arguments = nil
	if crash := p.guard(func() { p.self, err = p.create(&p.context, given) }); crash != nil {
		return crash
	}
	if err == nil && p.self == nil {
		err = status.Internalf("The program made no actor of kind %q", p.kind)
	}
	return err
}

// run handles what waits, for a turn; over tells that the actor ends, and why.
func (p *performer) run() (over bool, why error) {
	for range perTurn {
		if p.taken == nil && !p.refill() {
			return false, nil
		}
		if p.stopping.Load() {
			return p.leaving()
		}
		i := &p.taken.items[p.next]
		p.next++
		if i.isMessage() {
			p.begun.Add(1)
			p.ahead.Add(-1)
		}
		if over, why = p.step(i); over {
			return over, why
		}
		i.content = content{} // the rest of the piece may take long
		if p.next == len(p.taken.items) {
			p.taken.free()
			p.taken = nil
		}
	}
	p.mu.Lock()
	pid := p.pid
	p.mu.Unlock()
	p.cast.config.System.Root.Send(pid, turn{}) // behind the actors that wait for a goroutine
	return false, nil
}

// refill takes what comes next off the queue; without it the turn is over.
func (p *performer) refill() bool {
	p.mu.Lock()
	p.taken, p.next = p.queue.take(), 0
	if p.taken == nil || p.ended {
		p.turning = false
	}
	p.mu.Unlock()
	if p.taken == nil {
		return false
	}
	p.handled(p.taken.items)
	return true
}

// handled counts what leaves the queue, and makes room for others.
func (p *performer) handled(items []item) {
	var all, some tally // some: of the messages from one stream that follow each other
	var room Room
	settle := func() {
		if room != nil {
			room.Handled(some.messages, some.bytes)
		}
	}
	for i := range items {
		m := &items[i]
		if !m.isMessage() {
			continue
		}
		all.add(m.size)
		if m.room == nil {
			continue
		}
		if m.room != room {
			settle()
			room, some = m.room, tally{}
		}
		some.add(m.size)
		m.lane.waiting.Add(-int64(m.size + Overhead))
	}
	settle()
	p.ahead.Add(int64(all.messages))
	p.add(-all.messages, -all.bytes)
	if p.waiting.Load() {
		p.makeRoom()
	}
}

// tally counts messages and their bytes.
type tally struct{ messages, bytes int }

func (t *tally) add(size int) {
	t.messages++
	t.bytes += size
}

// step handles one of the queue; over tells that the actor ends, and why.
func (p *performer) step(i *item) (over bool, why error) {
	var message any
	switch notice := i.notice.(type) {
	case nil:
		if i.end {
			p.enders = append(p.enders, i.sender)
			return true, nil
		}
		m, err := i.content.open()
		if err != nil {
			p.cast.refuse(p.ref, i.sender, err)
			return false, nil
		}
		message = m
	case nudge:
		return p.leaving()
	case *taskNotice:
		for _, change := range notice.subscription.Take() {
			if why := p.handle(change, Ref{}); why != nil {
				return true, why
			}
		}
		return p.leaving()
	default:
		message = notice
	}
	if why := p.handle(message, i.sender); why != nil {
		return true, why
	}
	return p.leaving()
}

// leaving tells whether the actor has asked for its end, or somebody else has.
func (p *performer) leaving() (bool, error) {
	if !p.stopping.Load() {
		return false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return true, p.stop
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
	var left []item
	for i := range p.queue.all {
		left = append(left, *i)
	}
	p.queue.clear()
	watchers, outsiders := p.watchers, p.outsiders
	p.watchers, p.outsiders = nil, nil
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
	p.handled(left)
	if p.taken != nil {
		left = append(p.taken.items[p.next:], left...)
		p.taken = nil
	}
	p.makeRoom() // for who will find it ended
	s.mu.Lock()
	delete(s.actors, p.ref.Name)
	s.countEndedLocked(p)
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
		s.answer(p.maker, reason)
	}
	for _, i := range left {
		if i.end {
			p.enders = append(p.enders, i.sender)
		} else if i.isMessage() {
			s.deadLetter(p.ref.Name, i.sender)
		}
	}
	for _, asker := range p.enders {
		s.answer(asker, nil)
	}
	for asker := range waiting {
		s.answer(asker, reason)
	}
	for task, id := range watchers {
		s.announce(task, p.ref, id, why)
	}
	s.terminated(p.ref.Name, outsiders)
	close(p.gone)
}
