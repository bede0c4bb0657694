package cast

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
)

// performer is one actor of a program. The actor system runs it. It has its own queue, which is
// bounded, and whose messages are accounted for when the actor ends.
type performer struct {
	cast      *Cast
	ref       Ref
	number    uint64 // its number among all actors of the cast
	kind      string
	since     time.Time
	maker     Maker
	virtual   *Virtual // nil if it was spawned
	always    bool     // a virtual actor that lives without messages
	arguments *wire.Content
	parent    *life // nil if it is no child
	mailbox   mailbox
	// Guarded by cast.mu: the unanswered requests, with the life that has kept each, or nil; and whether it has ended, so that there are no more.
	pending map[Ref]*life
	settled bool

	// Owned by the actor's goroutine.
	life     *life       // set with mu held
	enders   []Ref       // the requesters of the end that it has reached
	taken    *piece      // part of the queue, to be handled before the rest; may be nil
	next     int         // index in taken
	handling *Context    // of the message that is being handled; nil between messages
	message  any         // that is being handled
	size     int32       // its bytes
	notice   bool        // it is of one of the actor's own sources
	aside    bool        // it has been put into the stash
	resting  bool        // it has failed and will restart
	failures []time.Time // after which it was recently restarted
	stash    *stash      // nil if it is empty

	// Waiting messages. Messages that were taken from the queue count as handled.
	messages, bytes  atomic.Int64
	begun            atomic.Uint64 // messages that it has handled, or is handling
	panics, restarts atomic.Uint64
	ahead            atomic.Int64 // messages that have left the queue but have not begun
	waiting          atomic.Bool  // a sender waits for room
	stopping         atomic.Bool
	unlaunched       atomic.Bool             // a virtual actor that the actor system does not run yet
	answering        atomic.Pointer[Request] // the request that is being handled

	// Owned by the placer's goroutine: the messages that a virtual actor had begun at the last sweep, and how long it has been idle.
	swept uint64
	idle  time.Duration

	mu       sync.Mutex // guards the rest: senders queue messages on their own goroutines
	pid      *actor.PID // nil until the actor system has assigned it
	queue    queue
	turning  bool // a turn is scheduled, or a restart
	ended    bool
	retired  bool                // a virtual actor that has ended because it was idle
	moves    bool                // a virtual actor that ends because it moves
	closed   bool                // it has ended, and so has all that belonged to it
	started  bool                // its maker has returned it
	closing  bool                // its end is in the queue
	ensuring []ensuring          // requests that wait until it has started or ended; nil if there are none
	backoff  *time.Timer         // restarts it; nil unless it rests
	room     chan struct{}       // closed when there is room again; nil if no sender waits
	stop     error               // why it must end before its next message
	watchers map[string]watching // by task
	gone     chan struct{}       // closed with closed; nil until that is waited for
	// outsiders are the actors outside the cluster that watch it.
	outsiders map[Ref]struct{}
}

// item is an entry of an actor's queue.
type item struct {
	sender  Ref
	content content
	notice  any  // instead of a message: a *notice, a *taskNotice or a nudge
	end     bool // the actor ends here, and sender is notified
	size    int  // bytes
	room    Room // set for messages from another task that needed room; otherwise nil
	lane    *lane
}

// isMessage reports whether the item is a message rather than a notice. Only messages are bounded: subscribers bound their own
// notices.
func (i *item) isMessage() bool { return i.notice == nil && !i.end }

// free reports that a message from another task no longer takes room.
func (i *item) free() {
	if i.room != nil {
		i.room.Handled(1, i.size)
	}
}

// ensuring is a request for an actor that is to exist.
type ensuring struct {
	request *wire.Spawn
	asker   Ref
	anew    bool // another actor is to be created when this one has ended
}

// join answers a request for the actor when it has started. If it is ending, another one is created afterwards. It returns false if it has ended.
func (p *performer) join(q *wire.Spawn, asker Ref) bool {
	p.mu.Lock()
	ending := p.ended || p.closing || p.stopping.Load()
	exists, full := p.started && !ending, len(p.ensuring) >= MaxQueued
	if p.closed {
		p.mu.Unlock()
		return false
	}
	if !exists && !full {
		p.ensuring = append(p.ensuring, ensuring{q, asker, ending})
	}
	p.mu.Unlock()
	switch {
	case exists:
		p.cast.answer(asker, nil)
	case full:
		p.cast.answer(asker, status.Errorf(status.ResourceExhausted, "%d requests wait until the actor %s on %s has started or ended, which is the limit", MaxQueued, p.ref.Name, p.ref.Task))
	}
	return true
}

// exists answers the requests for the actor, which has started.
func (p *performer) exists() {
	p.mu.Lock()
	p.started = true
	waiting := p.ensuring
	p.ensuring = nil
	for _, e := range waiting {
		if e.anew {
			p.ensuring = append(p.ensuring, e)
		}
	}
	p.mu.Unlock()
	for _, e := range waiting {
		if !e.anew {
			p.cast.answer(e.asker, nil)
		}
	}
}

// done returns a channel that is closed when the actor has ended.
func (p *performer) done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone == nil {
		p.gone = make(chan struct{})
		if p.closed {
			close(p.gone)
		}
	}
	return p.gone
}

// succeed is called when the actor has ended. It creates another one for the requests that wait for that, and fails the others with the reason.
func (p *performer) succeed(reason error) {
	p.mu.Lock()
	p.closed = true
	if p.gone != nil {
		close(p.gone)
	}
	left := p.ensuring
	p.ensuring = nil
	p.mu.Unlock()
	for _, e := range left {
		if e.anew {
			p.cast.spawn(p.ref.Name, e.request, e.asker, nil)
			continue
		}
		p.cast.answer(e.asker, reason)
	}
}

// nudge makes an actor notice that it must end.
type nudge struct{}

// turn makes an actor handle its queue.
type turn struct{}

// revival restarts an actor that rests after a failure.
type revival struct{}

// perTurn is how many messages an actor handles before it yields the goroutine to others.
const perTurn = 256

func newPerformer(s *Cast, name string, q *wire.Spawn, maker Maker, spawner Ref, parent *life) *performer {
	p := &performer{cast: s, ref: Ref{s.config.Self, name}, number: s.born, kind: q.GetKind(), since: time.Now(), maker: maker, arguments: q.GetArguments(),
		parent: parent}
	if spawner != (Ref{}) {
		p.ensuring = []ensuring{{asker: spawner}}
	}
	p.mailbox.owner = p
	p.life = newLife(p)
	return p
}

// found sets the actor's address, and starts it on the messages that have arrived.
func (p *performer) found(pid *actor.PID) {
	p.mu.Lock()
	p.pid = pid
	p.wake()
}

// wake schedules the actor to handle its queue. The caller holds mu, which wake releases.
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
	if p.virtual != nil {
		return elsewhere("The virtual actor %s on %s has just ended", p.ref.Name, p.ref.Task)
	}
	return notBegun(status.Errorf(status.NotFound, "There is no actor %s on %s: it has ended", p.ref.Name, p.ref.Task))
}

// post enqueues a message of this task. If the queue is full, it waits until ctx ends or fails with
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
		if p.messages.Load() != n { // a message was handled before waiting was visible
			p.makeRoom()
		}
		select {
		case <-room:
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
}

// makeRoom wakes the senders that wait for room.
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

// take enqueues messages of another task. The queue has room for them, since the sender keeps within its
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

// notify enqueues a notice.
func (p *performer) notify(i item) error {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return p.over()
	}
	p.closing = p.closing || i.end
	p.queue.push(&i)
	p.wake()
	return nil
}

// tell enqueues a notice that an ended actor does not need.
func (p *performer) tell(notice any) {
	_ = p.notify(item{notice: notice}) // It fails only because the actor has ended.
}

// dismiss ends the actor before its next message.
func (p *performer) dismiss(why error) {
	p.mu.Lock()
	p.stop = why
	p.stopping.Store(true)
	l, pid := p.life, p.pid
	rests := p.backoff != nil && p.backoff.Stop()
	p.mu.Unlock()
	l.cancel()
	p.tell(nudge{})
	if rests {
		p.cast.config.System.Root.Send(pid, revival{})
	}
}

// status returns the actor's entry in the list of its task. It does not wait for the actor.
func (p *performer) status() roles.Status {
	s := roles.Status{Name: p.ref.Name, Kind: KindPrefix + p.kind, State: "idle", Handled: p.begun.Load(), Panics: p.panics.Load(), Restarts: p.restarts.Load(),
		Waiting: p.queued(), Since: p.since}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.backoff != nil:
		s.State = "suspended"
	case p.turning:
		s.State = "running"
	}
	return s
}

// queued returns how many messages wait for the actor.
func (p *performer) queued() int { return int(p.messages.Load() + p.ahead.Load()) }

// Receive is called by the actor system, on one goroutine at a time.
func (p *performer) Receive(c actor.Context) {
	var over bool
	var why error
	switch c.Message().(type) {
	case *actor.Started:
		if why = p.begin(); why != nil {
			over = true
			break
		}
		p.exists()
	case turn:
		over, why = p.run()
	case revival:
		over, why = p.revive()
	case *actor.Stopping: // the actor system is shutting down
		p.finish(p.cast.stopping())
	}
	if over {
		p.finish(why)
		c.Stop(c.Self())
	}
}

// broken ends the actor after a panic that is not the program's.
func (p *performer) broken(why error) {
	p.mu.Lock()
	pid := p.pid
	p.mu.Unlock()
	p.finish(why)
	if pid != nil {
		p.cast.config.System.Root.Stop(pid)
	}
}

// begin creates the program's actor.
func (p *performer) begin() (err error) {
	if err := p.lapsed(); err != nil {
		return err
	}
	given, err := arguments(p.arguments)
	if err != nil {
		return err
	}
	l := p.life
	if crash := p.guard(func() { l.self, err = p.maker.Make(&l.context, given) }); crash != nil {
		return crash
	}
	switch {
	case err != nil:
		return err
	case l.self == nil:
		return status.Internalf("The program made no actor of kind %q", p.kind)
	}
	if p.maker.Restart == nil {
		p.arguments = nil
	}
	return l.failure
}

// failAt is fail at a message. It is a call of its own, since a Failure would take stack for each message.
//
//go:noinline
func (p *performer) failAt(c *Context, message any, why error) (over bool, _ error) {
	return p.fail(c, Failure{Err: why, Message: message})
}

// fail does what the kind decides for a failure: the life of the actor ends, and another one begins later, or the actor ends. c is the Context of the message that it
// failed with; nil if there is none.
func (p *performer) fail(c *Context, f Failure) (over bool, _ error) {
	why := f.Err
	if p.life.failure != nil { // guard has logged a panic
		p.cast.log.Error("an actor of the program failed", "actor", p.ref.Name, "kind", p.kind, "error", why)
	}
	if p.stopping.Load() {
		return true, why
	}
	recent, wait, decision := p.decide(f)
	switch decision {
	case Escalate:
		p.escalate(why)
		return true, why
	case End:
		return true, why
	}
	p.failures = recent
	p.restarts.Add(1)
	p.cast.log.Warn("an actor of the program failed and restarts", "actor", p.ref.Name, "kind", p.kind, "restarts", len(recent), "wait", wait, "error", why)
	if err := p.life.end(why); err != nil {
		p.cast.log.Warn("an actor of the program that restarts could not be closed", "actor", p.ref.Name, "kind", p.kind, "error", err)
	}
	if c != nil && c.request != nil {
		c.request.abandon(why)
	}
	p.cast.failKept(p.life, why)
	p.restash()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping.Load() {
		return true, p.stop
	}
	pid := p.pid
	p.resting = true
	p.backoff = time.AfterFunc(wait, contain.Func(p.cast.log, "The restart of an actor", func() { p.cast.config.System.Root.Send(pid, revival{}) }, nil))
	return false, nil
}

// revive restarts the actor, whose life has ended, and handles its queue for one turn. over reports that it ends; the error is the reason.
func (p *performer) revive() (over bool, why error) {
	p.mu.Lock()
	p.backoff, p.resting = nil, false
	if p.stopping.Load() {
		defer p.mu.Unlock()
		return true, p.stop
	}
	p.life = newLife(p)
	p.mu.Unlock()
	if err := p.begin(); err != nil {
		return p.fail(nil, Failure{Err: err})
	}
	return p.run()
}

// run handles the queue for one turn. over reports that the actor ends; the error is the reason.
func (p *performer) run() (over bool, why error) {
	for range perTurn {
		repeats := p.repeats()
		if !repeats && p.taken == nil && !p.refill() {
			return false, nil
		}
		if p.stopping.Load() {
			return p.leaving()
		}
		if err := p.lapsed(); err != nil {
			return true, err
		}
		if repeats {
			if over, why = p.repeat(); over || p.resting {
				return over, why
			}
			continue
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
		i.content = content{} // do not keep it while the rest of the piece is handled
		if p.next == len(p.taken.items) {
			p.taken.free()
			p.taken = nil
		}
		if p.resting {
			return false, nil
		}
	}
	p.mu.Lock()
	pid := p.pid
	p.mu.Unlock()
	p.cast.config.System.Root.Send(pid, turn{}) // queued behind the actors that wait for a goroutine
	return false, nil
}

// refill takes the next piece off the queue. If there is none, the turn is over.
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

// handled counts messages that leave the queue, and makes room for others.
func (p *performer) handled(items []item) {
	var all, some tally // some counts consecutive messages from one stream
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

// step handles one item of the queue. over reports that the actor ends; the error is the reason.
func (p *performer) step(i *item) (over bool, why error) {
	var message any
	p.size, p.notice = int32(i.size), i.notice != nil // at most MaxMessage
	switch n := i.notice.(type) {
	case nil:
		if i.end {
			p.enders = append(p.enders, i.sender)
			return true, nil
		}
		if t, ok := p.life.self.(*topicActor); ok {
			t.pass(p, i)
			return p.leaving()
		}
		m, err := i.content.open()
		if err == nil {
			message, err = Disclose(m)
		}
		if err != nil {
			p.cast.refuse(p.ref, i.sender, err)
			return false, nil
		}
	case nudge:
		return p.leaving()
	case passivate:
		return p.retire()
	case *taskNotice:
		if n.subscription != p.life.tasks {
			return p.leaving() // of the life before
		}
		for _, change := range n.subscription.Take() {
			if why := p.handle(change, &p.life.context); why != nil {
				return p.failAt(&p.life.context, change, why)
			}
		}
		return p.leaving()
	case *escalation:
		if n.to != p.life {
			return p.leaving() // of the life before
		}
		return p.fail(nil, n.failure())
	case *notice:
		m, ok := n.open()
		if !ok {
			return p.leaving()
		}
		message = m
	}
	return p.perform(message, i.sender)
}

// perform passes a message to the program. over reports that the actor ends; the error is the reason.
func (p *performer) perform(message any, sender Ref) (over bool, why error) {
	c := p.contextOf(sender)
	if c.request != nil {
		p.answering.Store(c.request)
		defer c.request.leave()
	}
	if why := p.handle(message, c); why != nil {
		return p.failAt(c, message, why)
	}
	over, why = p.leaving()
	if !over && c.request != nil { // otherwise the actor's end answers it
		c.request.handled(nameOf(message))
	}
	return over, why
}

// contextOf returns the Context of a message from a sender.
func (p *performer) contextOf(sender Ref) *Context {
	switch {
	case sender == (Ref{}):
		return &p.life.context
	case !isAsk(sender.Name):
		return &Context{life: p.life, sender: sender}
	}
	c := &struct {
		Context
		request Request
	}{Context: Context{life: p.life, sender: sender}}
	c.request.life, c.request.asker = p.life, sender
	c.Context.request = &c.request
	return &c.Context
}

// nameOf returns the name of a message's type.
func nameOf(message any) string {
	if m, ok := message.(proto.Message); ok {
		return string(m.ProtoReflect().Descriptor().FullName())
	}
	if name, ok := registeredName(reflect.TypeOf(message)); ok {
		return name
	}
	return fmt.Sprintf("%T", message)
}

// leaving reports whether the actor's end has been requested, by itself or by others.
func (p *performer) leaving() (bool, error) {
	if !p.stopping.Load() {
		return false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return true, p.stop
}

// handle passes a message to the program. The error is a panic, or was given to Crash.
func (p *performer) handle(message any, c *Context) error {
	p.handling, p.message, p.aside = c, message, false
	err := p.guard(func() { p.life.self.Receive(c, message) })
	p.handling, p.message = nil, nil
	if err == nil {
		err = p.life.failure
	}
	return err
}

// guard turns a panic of the program into an error.
func (p *performer) guard(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.panics.Add(1)
			p.cast.log.Error("an actor of the program panicked", "actor", p.ref.Name, "kind", p.kind, "panic", r, "stack", string(debug.Stack()))
			err = status.Internalf("The actor %s on %s panicked: %v", p.ref.Name, p.ref.Task, fmt.Sprint(r))
			if tell := p.cast.config.Panicked; tell != nil {
				tell(p.ref.Name, p.kind, err)
			}
		}
	}()
	f()
	return nil
}

// finish ends the actor, once: it frees the name, answers open requests, and notifies the
// watchers.
func (p *performer) finish(why error) {
	p.mu.Lock()
	if p.ended && !p.retired {
		p.mu.Unlock()
		return
	}
	p.ended, p.retired = true, false
	var left []item
	for i := range p.queue.all {
		left = append(left, *i)
	}
	p.queue.clear()
	watchers, outsiders := p.watchers, p.outsiders
	p.watchers, p.outsiders = nil, nil
	if p.backoff != nil {
		p.backoff.Stop()
	}
	p.mu.Unlock()
	p.makeRoom() // for senders, which will find it ended; its children may be among them
	if err := p.life.end(why); why == nil && err != nil {
		why = status.From(err)
	}
	s := p.cast
	p.handled(left)
	if p.taken != nil {
		left = append(p.taken.items[p.next:], left...)
		p.taken = nil
	}
	left = append(p.discardStash(), left...)
	s.mu.Lock()
	if s.actors[p.ref.Name] == p {
		delete(s.actors, p.ref.Name)
	}
	s.countEndedLocked(p)
	waiting := p.pending
	p.pending, p.settled = nil, true
	for asker := range waiting {
		delete(s.asked, asker)
		s.endContextLocked(asker)
	}
	s.mu.Unlock()
	reason := why
	if reason == nil {
		reason = status.Errorf(status.NotFound, "The actor %s on %s has ended", p.ref.Name, p.ref.Task)
	}
	for _, i := range left {
		if i.end {
			p.enders = append(p.enders, i.sender)
			continue
		}
		if !i.isMessage() {
			continue
		}
		if _, waits := waiting[i.sender]; waits {
			delete(waiting, i.sender)
			if p.virtual != nil {
				s.answer(i.sender, p.over())
				continue
			}
			s.answer(i.sender, notBegun(plain(reason)))
		}
		s.deadLetter(p.ref.Name, i.sender)
	}
	for _, asker := range p.enders {
		s.answer(asker, nil)
	}
	for asker := range waiting {
		s.answer(asker, begun(reason))
	}
	for task, w := range watchers {
		s.announce(task, p.ref, w.id, why)
	}
	s.terminated(p.ref.Name, outsiders)
	if p.parent != nil {
		p.parent.release(p)
	}
	p.succeed(reason)
	if p.virtual != nil {
		p.moved()
	}
}
