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
// There may be a million idle ones, so what few of them need is apart (rare, ties), and the order of the fields leaves no gaps.
type performer struct {
	cast      *Cast
	kind      *actorKind
	name      string
	since     int64 // Unix time in nanoseconds
	arguments *wire.Content
	parent    *life // nil if it is no child
	invoker   actor.MessageInvoker
	rare      atomic.Pointer[rare] // nil until it is needed

	// Waiting messages. Messages that were taken from the queue count as handled.
	messages  atomic.Int32
	ahead     atomic.Int32 // messages that have left the queue but have not begun
	bytes     atomic.Int64
	begun     atomic.Uint64           // messages that it has handled, or is handling
	answering atomic.Pointer[Request] // the request that is being handled

	// Owned by the placer's goroutine: the messages that a virtual actor had begun at the last sweep (the lower bits), and at how many sweeps it has been
	// idle.
	swept, idleSweeps uint32

	held *held // the first of its unanswered requests; guarded by cast.mu

	// Owned by the actor's goroutine.
	life     *life    // set with mu held
	taken    *piece   // part of the queue, to be handled before the rest; may be nil
	handling *Context // of the message that is being handled; nil between messages
	message  any      // that is being handled
	size     int32    // its bytes
	next     int32    // index in taken

	mu       sync.Mutex // guards the rest: senders queue messages on their own goroutines
	pid      *actor.PID // nil until the actor system has assigned it
	queue    queue
	posted   *posted   // what waits in its mailbox; nil if it is nothing but turns and the like
	ensuring *requests // that wait until it has started or ended; nil if there are none

	waiting    atomic.Bool // a sender waits for room
	stopping   atomic.Bool
	unlaunched atomic.Bool // a virtual actor that the actor system does not run yet

	turning bool // a turn is scheduled, or a restart
	ended   bool
	retired bool // a virtual actor that has ended because it was idle
	moves   bool // a virtual actor that ends because it moves
	closed  bool // it has ended, and so has all that belonged to it
	started bool // its maker has returned it
	closing bool // its end is in the queue

	// What waits in its mailbox beside posted: at most one each of *actor.Started, a turn and a revival.
	begins, turns, revives bool
	running, suspended     bool

	settled bool  // it has no more requests, since it has ended; guarded by cast.mu
	counted uint8 // the last round of the cast's that has counted it; guarded by cast.mu
	always  bool  // a virtual actor that lives without messages; never changes

	// Owned by the actor's goroutine.
	notice  bool // what is being handled is of one of the actor's own sources
	aside   bool // it has been put into the stash
	resting bool // the actor has failed and will restart
}

// rare is what few actors have.
type rare struct {
	client string // that has spawned it, or begun it by a message; empty if none has. It never changes.

	// Owned by the actor's goroutine.
	enders   []Ref       // the requesters of the end that it has reached
	failures []time.Time // after which it was recently restarted
	stash    *stash      // nil if it is empty

	panics, restarts atomic.Uint64

	// Guarded by performer.mu.
	backoff  *time.Timer         // restarts it; nil unless it rests
	room     chan struct{}       // closed when there is room again; nil if no sender waits
	stop     error               // why it must end before its next message
	watchers map[string]watching // by task
	gone     chan struct{}       // closed with closed; nil until that is waited for
	// outsiders are the actors outside the cluster that watch it.
	outsiders map[Ref]struct{}
}

// needRare returns the actor's rare, which it makes if there is none.
func (p *performer) needRare() *rare { return made(&p.rare) }

// made returns what p points to, which it makes if there is nothing.
func made[T any](p *atomic.Pointer[T]) *T {
	if v := p.Load(); v != nil {
		return v
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}

// ref returns the actor's address.
func (p *performer) ref() Ref { return Ref{p.cast.config.Self, p.name} }

// actorKind is a kind of actors.
type actorKind struct {
	name string
	Maker
}

// item is an entry of an actor's queue.
type item struct {
	sender  Ref
	content content
	notice  any  // instead of a message: a *notice, a *taskNotice or a nudge
	end     bool // the actor ends here, and sender is notified
	size    int  // bytes
	room    Room // set for messages from another task that needed room; otherwise nil
	trace   *Trace
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

// requests are those for an actor that is to exist: nearly always the one that has spawned it. nil has none.
type requests struct {
	first ensuring
	more  []ensuring
}

func (r *requests) count() int {
	if r == nil {
		return 0
	}
	return 1 + len(r.more)
}

// all yields the requests in their order.
func (r *requests) all(yield func(ensuring) bool) {
	if r == nil || !yield(r.first) {
		return
	}
	for _, e := range r.more {
		if !yield(e) {
			return
		}
	}
}

// join answers a request for the actor when it has started. If it is ending, another one is created afterwards. It returns false if it has ended.
func (p *performer) join(q *wire.Spawn, asker Ref) bool {
	p.mu.Lock()
	ending := p.ended || p.closing || p.stopping.Load()
	exists, full := p.started && !ending, p.ensuring.count() >= MaxQueued
	if p.closed {
		p.mu.Unlock()
		return false
	}
	if !exists && !full {
		p.ensureLocked(ensuring{q, asker, ending})
	}
	p.mu.Unlock()
	switch {
	case exists:
		p.cast.answer(asker, nil)
	case full:
		p.cast.answer(asker, status.Errorf(status.ResourceExhausted, "%d requests wait until the actor %s on %s has started or ended, which is the limit", MaxQueued, p.name, p.cast.config.Self))
	}
	return true
}

func (p *performer) ensureLocked(e ensuring) {
	if p.ensuring == nil {
		p.ensuring = &requests{first: e}
		return
	}
	p.ensuring.more = append(p.ensuring.more, e)
}

// ensuredLocked returns the requests that wait until the actor has started or ended, and forgets them.
func (p *performer) ensuredLocked() *requests {
	waiting := p.ensuring
	p.ensuring = nil
	return waiting
}

// exists answers the requests for the actor, which has started.
func (p *performer) exists() {
	p.mu.Lock()
	p.started = true
	waiting := p.ensuredLocked()
	for e := range waiting.all {
		if e.anew {
			p.ensureLocked(e)
		}
	}
	p.mu.Unlock()
	for e := range waiting.all {
		if !e.anew {
			p.cast.answer(e.asker, nil)
		}
	}
}

// done returns a channel that is closed when the actor has ended.
func (p *performer) done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.needRare()
	if r.gone == nil {
		r.gone = make(chan struct{})
		if p.closed {
			close(r.gone)
		}
	}
	return r.gone
}

// succeed is called when the actor has ended. It creates another one for the requests that wait for that, and fails the others with the reason.
func (p *performer) succeed(reason error) {
	p.mu.Lock()
	p.closed = true
	if r := p.rare.Load(); r != nil && r.gone != nil {
		close(r.gone)
	}
	left := p.ensuredLocked()
	p.mu.Unlock()
	for e := range left.all {
		if e.anew {
			p.cast.spawn(p.name, e.request, e.asker, nil)
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

func newPerformer(s *Cast, name string, arguments *wire.Content, kind *actorKind, spawner Ref, parent *life) *performer {
	p := &performer{cast: s, kind: kind, name: name, since: time.Now().UnixNano(), arguments: arguments, parent: parent}
	if spawner != (Ref{}) {
		p.ensureLocked(ensuring{asker: spawner})
	}
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
	if p.kind.Virtual != nil {
		return elsewhere("The virtual actor %s on %s has just ended", p.name, p.cast.config.Self)
	}
	return notBegun(status.Errorf(status.NotFound, "There is no actor %s on %s: it has ended", p.name, p.cast.config.Self))
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
			return status.Errorf(status.ResourceExhausted, "%d bytes of messages wait for the actors of %s, and the limit is %d", waiting, p.cast.config.Self, MaxBytes)
		}
		n, bytes := p.messages.Load(), p.bytes.Load()
		if n < MaxQueued && bytes+int64(i.size) <= MaxQueuedBytes {
			p.add(tally{1, i.size, i.trace.bytes()})
			p.queue.push(&i)
			p.wake()
			return nil
		}
		if !wait {
			p.mu.Unlock()
			return status.Errorf(status.ResourceExhausted, "The queue of the actor %s on %s is full: %d messages of %d bytes wait for it", p.name, p.cast.config.Self, n, bytes)
		}
		r := p.needRare()
		if r.room == nil {
			r.room = make(chan struct{})
			p.waiting.Store(true)
		}
		room := r.room
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
	r := p.rare.Load()
	if r == nil {
		return
	}
	p.mu.Lock()
	room := r.room
	r.room = nil
	p.waiting.Store(false)
	p.mu.Unlock()
	if room != nil {
		close(room)
	}
}

// add counts messages that begin to wait.
func (p *performer) add(t tally) {
	p.messages.Add(int32(t.messages))
	p.bytes.Add(int64(t.bytes))
	p.cast.bytes.Add(int64(t.bytes + t.messages*Overhead + t.traces))
}

// take enqueues messages of another task. The queue has room for them, since the sender keeps within its
// windows.
func (p *performer) take(l *lane, items *queue) error {
	var all tally
	for i := range items.all {
		all.add(i)
	}
	size := int64(all.bytes + all.messages*Overhead)
	if l.waiting.Load()+size > maxLane {
		return status.Errorf(status.ResourceExhausted, "%d bytes of messages of one task wait for the actors of %s, which is the limit", l.waiting.Load(), p.cast.config.Self)
	}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return p.over()
	}
	l.waiting.Add(size)
	p.add(all)
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
	r := p.needRare()
	r.stop = why
	p.stopping.Store(true)
	l, pid := p.life, p.pid
	rests := r.backoff != nil && r.backoff.Stop()
	p.mu.Unlock()
	l.cancel()
	p.tell(nudge{})
	if rests {
		p.cast.config.System.Root.Send(pid, revival{})
	}
}

// status returns the actor's entry in the list of its task. It does not wait for the actor.
func (p *performer) status() roles.Status {
	panics, restarts := p.failed()
	s := roles.Status{Name: p.name, Kind: KindPrefix + p.kind.name, State: "idle", Handled: p.begun.Load(), Panics: panics, Restarts: restarts,
		Waiting: p.queued(), Since: time.Unix(0, p.since)}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rare.Load()
	switch {
	case r != nil && r.backoff != nil:
		s.State = "suspended"
	case p.turning:
		s.State = "running"
	}
	return s
}

// failed returns how often the actor has panicked and has restarted.
func (p *performer) failed() (panics, restarts uint64) {
	if r := p.rare.Load(); r != nil {
		return r.panics.Load(), r.restarts.Load()
	}
	return 0, 0
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
		p.finish(p.cast.stopping)
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
	if crash := p.guard(func() { l.self, err = p.kind.Make(&l.context, given) }); crash != nil {
		return crash
	}
	switch {
	case err != nil:
		return err
	case l.self == nil:
		return status.Internalf("The program made no actor of kind %q", p.kind.name)
	}
	if p.kind.Restart == nil {
		p.arguments = nil
	}
	return l.failure()
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
	if p.life.failure() != nil { // guard has logged a panic
		p.cast.log.Error("an actor of the program failed", "actor", p.name, "kind", p.kind.name, "error", why)
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
	r := p.needRare()
	r.failures = recent
	r.restarts.Add(1)
	p.cast.log.Warn("an actor of the program failed and restarts", "actor", p.name, "kind", p.kind.name, "restarts", len(recent), "wait", wait, "error", why)
	if err := p.life.end(why); err != nil {
		p.cast.log.Warn("an actor of the program that restarts could not be closed", "actor", p.name, "kind", p.kind.name, "error", err)
	}
	if c != nil && c.request() != nil {
		c.request().abandon(why)
	}
	p.cast.failKept(p.life, why)
	p.restash()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping.Load() {
		return true, p.stopLocked()
	}
	pid := p.pid
	p.resting = true
	r.backoff = time.AfterFunc(wait, contain.Func(p.cast.log, "The restart of an actor", func() { p.cast.config.System.Root.Send(pid, revival{}) }, nil))
	return false, nil
}

// revive restarts the actor, whose life has ended, and handles its queue for one turn. over reports that it ends; the error is the reason.
func (p *performer) revive() (over bool, why error) {
	p.mu.Lock()
	p.needRare().backoff, p.resting = nil, false
	if p.stopping.Load() {
		defer p.mu.Unlock()
		return true, p.stopLocked()
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
		if int(p.next) == len(p.taken.items) {
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
		all.add(m)
		if m.room == nil {
			continue
		}
		if m.room != room {
			settle()
			room, some = m.room, tally{}
		}
		some.add(m)
		m.lane.waiting.Add(-int64(m.size + Overhead))
	}
	settle()
	p.ahead.Add(int32(all.messages))
	p.add(tally{-all.messages, -all.bytes, -all.traces})
	if p.waiting.Load() {
		p.makeRoom()
	}
}

// tally counts messages, their bytes, and those of the traces that they belong to.
type tally struct{ messages, bytes, traces int }

func (t *tally) add(i *item) {
	t.messages++
	t.bytes += i.size
	t.traces += i.trace.bytes()
}

// step handles one item of the queue. over reports that the actor ends; the error is the reason.
func (p *performer) step(i *item) (over bool, why error) {
	var message any
	p.size, p.notice = int32(i.size), i.notice != nil // at most MaxMessage
	switch n := i.notice.(type) {
	case nil:
		if i.end {
			p.endsFor(i.sender)
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
			p.cast.refuse(p.ref(), i.sender, err)
			return false, nil
		}
	case nudge:
		return p.leaving()
	case passivate:
		return p.retire()
	case *taskNotice:
		if n.subscription != p.life.tasks() {
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
	return p.perform(message, i.sender, i.trace)
}

// perform passes a message to the program. over reports that the actor ends; the error is the reason.
func (p *performer) perform(message any, sender Ref, trace *Trace) (over bool, why error) {
	t := p.beginHandling(message, trace)
	c := p.contextOf(sender, t)
	r := c.request()
	if r != nil {
		p.answering.Store(r)
		defer r.leave()
	}
	failure := p.handle(message, c)
	t.end(failure)
	if failure != nil {
		return p.failAt(c, message, failure)
	}
	over, why = p.leaving()
	if !over && r != nil { // otherwise the actor's end answers it
		r.handled(nameOf(message))
	}
	return over, why
}

// contextOf returns the Context of a message from a sender, whose span is t; nil for none.
func (p *performer) contextOf(sender Ref, t *traced) *Context {
	switch {
	case sender == (Ref{}) && t == nil:
		return &p.life.context
	case !isAsk(sender.Name):
		c := &struct {
			Context
			origin
		}{origin: origin{sender: sender, traced: t}}
		c.Context = Context{p.life, &c.origin}
		return &c.Context
	}
	c := &struct {
		Context
		origin
		request Request
	}{origin: origin{sender: sender, traced: t}}
	c.request.life, c.request.asker, c.request.traced = p.life, sender, t
	c.origin.request = &c.request
	c.Context = Context{p.life, &c.origin}
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
	return true, p.stopLocked()
}

// stopLocked returns why the actor must end; nil if it does so on purpose.
func (p *performer) stopLocked() error {
	if r := p.rare.Load(); r != nil {
		return r.stop
	}
	return nil
}

// endsFor records who has requested the end that the actor has reached.
func (p *performer) endsFor(asker Ref) {
	r := p.needRare()
	r.enders = append(r.enders, asker)
}

// handle passes a message to the program. The error is a panic, or was given to Crash.
func (p *performer) handle(message any, c *Context) error {
	p.handling, p.message, p.aside = c, message, false
	err := p.guard(func() { p.life.self.Receive(c, message) })
	p.handling, p.message = nil, nil
	if err == nil {
		err = p.life.failure()
	}
	return err
}

// guard turns a panic of the program into an error.
func (p *performer) guard(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.needRare().panics.Add(1)
			p.cast.log.Error("an actor of the program panicked", "actor", p.name, "kind", p.kind.name, "panic", r, "stack", string(debug.Stack()))
			err = status.Internalf("The actor %s on %s panicked: %v", p.name, p.cast.config.Self, fmt.Sprint(r))
			if tell := p.cast.config.Panicked; tell != nil {
				tell(p.name, p.kind.name, err)
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
	var watchers map[string]watching
	var outsiders map[Ref]struct{}
	if r := p.rare.Load(); r != nil {
		watchers, outsiders = r.watchers, r.outsiders
		r.watchers, r.outsiders = nil, nil
		if r.backoff != nil {
			r.backoff.Stop()
		}
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
	if s.actors[p.name] == p {
		s.removeLocked(p)
	}
	waiting := p.settleLocked()
	s.mu.Unlock()
	reason := why
	if reason == nil {
		reason = status.Errorf(status.NotFound, "The actor %s on %s has ended", p.name, p.cast.config.Self)
	}
	for _, i := range left {
		if i.end {
			p.endsFor(i.sender)
			continue
		}
		if !i.isMessage() {
			continue
		}
		if _, waits := waiting[i.sender]; waits {
			delete(waiting, i.sender)
			if p.kind.Virtual != nil {
				s.answer(i.sender, p.over())
				continue
			}
			s.answer(i.sender, notBegun(plain(reason)))
		}
		s.deadLetter(p.name, i.sender)
	}
	if r := p.rare.Load(); r != nil {
		for _, asker := range r.enders {
			s.answer(asker, nil)
		}
	}
	for asker := range waiting {
		s.answer(asker, begun(reason))
	}
	for task, w := range watchers {
		s.announce(task, p.ref(), w.id, why)
	}
	s.terminated(p.name, outsiders)
	if p.parent != nil {
		p.parent.release(p)
	}
	p.succeed(reason)
	if p.kind.Virtual != nil {
		p.moved()
	}
}
