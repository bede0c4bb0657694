package cast

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// life is an actor from its start or a restart until it restarts or ends. All that the actor sets up for itself ends with its life: its
// timers, watches, asks and children.
type life struct {
	performer *performer
	inner     atomic.Pointer[cancellable] // of its context; nil until it is waited for, since most actors are idle and alone
	ties      atomic.Pointer[ties]        // nil until they are needed
	context   Context                     // for messages without a sender

	// Owned by the actor's goroutine.
	self   Actor
	asking int32 // asks whose answers it has not handled

	cancelled atomic.Bool
	unsent    atomic.Bool // ties.opening is not empty
	over      bool        // guarded by performer.mu
}

// ties are what an actor has set up with others, and why it is to fail.
type ties struct {
	// Owned by the actor's goroutine.
	tasks   *Subscription // nil if it does not watch tasks
	watches map[Ref]*source
	topics  map[string]*source // that it subscribes to
	failure error              // given to Crash

	// Guarded by performer.mu. opening has, by task, what is closed when the last ask or watch that waits for a link to the task has been sent.
	opening  map[string]chan struct{}
	sources  map[*source]struct{}
	children map[*performer]struct{}
}

// untied are the ties of actors that have none.
var untied ties

// tied returns the ties of the life, to read them.
func (l *life) tied() *ties {
	if t := l.ties.Load(); t != nil {
		return t
	}
	return &untied
}

// needTies returns the ties of the life, which it makes if there are none.
func (l *life) needTies() *ties { return made(&l.ties) }

// failure returns the error that was given to Crash, if any. It is called on the actor's goroutine.
func (l *life) failure() error { return l.tied().failure }

// tasks returns the actor's subscription to changes of tasks, if any. It is called on the actor's goroutine.
func (l *life) tasks() *Subscription { return l.tied().tasks }

func newLife(p *performer) *life {
	l := &life{performer: p}
	l.context.life = l
	return l
}

// ctx returns the context that ends with the life.
func (l *life) ctx() context.Context { return (*handler)(l) }

// cancellable is a context that can be cancelled.
type cancellable struct {
	context.Context
	cancel context.CancelFunc
}

// lasting returns the context that ends with the life.
func (l *life) lasting() *cancellable {
	if made := l.inner.Load(); made != nil {
		return made
	}
	ctx, cancel := context.WithCancel(l.performer.cast.life)
	made := &cancellable{ctx, cancel}
	if !l.inner.CompareAndSwap(nil, made) {
		cancel()
		return l.inner.Load()
	}
	if l.cancelled.Load() {
		cancel()
	}
	return made
}

// cancel cancels the context of the life.
func (l *life) cancel() {
	l.cancelled.Store(true)
	if made := l.inner.Load(); made != nil {
		made.cancel()
	}
}

// handler is the context of a life, which says whose it is: what an actor asks within it holds up the actor. It is the life itself, since
// there are many idle actors.
type handler life

// Deadline implements context.Context.
func (h *handler) Deadline() (time.Time, bool) { return h.performer.cast.life.Deadline() }

// Done implements context.Context.
func (h *handler) Done() <-chan struct{} { return (*life)(h).lasting().Done() }

// Err implements context.Context.
func (h *handler) Err() error {
	if h.inner.Load() == nil && !h.cancelled.Load() {
		return h.performer.cast.life.Err()
	}
	return (*life)(h).lasting().Err()
}

// Value implements context.Context.
func (h *handler) Value(key any) any {
	if key == (handlerKey{}) {
		return h.performer
	}
	if made := h.inner.Load(); made != nil {
		return made.Value(key)
	}
	return h.performer.cast.life.Value(key)
}

type handlerKey struct{}

// handlerOf returns the actor whose context ctx is, or nil.
func handlerOf(ctx context.Context) *performer {
	p, _ := ctx.Value(handlerKey{}).(*performer)
	return p
}

// end ends the life and waits for its children, which end for the same reason. It returns the error of the actor's Close. It is called on
// the actor's goroutine. A second call does nothing.
func (l *life) end(why error) (err error) {
	p := l.performer
	p.mu.Lock()
	if l.over {
		p.mu.Unlock()
		return nil
	}
	l.over = true
	var sources map[*source]struct{}
	var children map[*performer]struct{}
	if t := l.ties.Load(); t != nil {
		sources, children = t.sources, t.children
		t.sources, t.children = nil, nil
	}
	p.mu.Unlock()
	l.cancel()
	for s := range sources {
		s.end()
	}
	for child := range children {
		child.dismiss(why)
	}
	for child := range children {
		<-child.done()
	}
	if l.self == nil {
		return nil
	}
	if crash := p.guard(func() { err = l.self.Close() }); crash != nil {
		err = crash
	}
	return err
}

// adopt makes a new actor a child. It returns false if the life is over.
func (l *life) adopt(child *performer) bool {
	p := l.performer
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.over {
		return false
	}
	t := l.needTies()
	if t.children == nil {
		t.children = map[*performer]struct{}{}
	}
	t.children[child] = struct{}{}
	return true
}

// release forgets a child that has ended.
func (l *life) release(child *performer) {
	l.performer.mu.Lock()
	defer l.performer.mu.Unlock()
	delete(l.tied().children, child)
}

// source is what sends an actor notices of its own: a timer, a watch, an ask or a subscription.
type source struct {
	life  *life
	ended atomic.Bool // it sends nothing more, and its waiting notices are dropped
	stop  func()      // does not block
	// waiting is set while a timer's notice waits.
	waiting atomic.Bool
}

// notice is a message from one of the actor's own sources: an Ended, a *reply, or what a timer sends.
type notice struct {
	source  *source
	message any
	last    bool
}

// hold adds a source, which ends with the life. stop ends it; it must not block.
func (l *life) hold(s *source, stop func()) {
	s.stop = stop
	p := l.performer
	p.mu.Lock()
	if !l.over {
		t := l.needTies()
		if t.sources == nil {
			t.sources = map[*source]struct{}{}
		}
		t.sources[s] = struct{}{}
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	s.end()
}

// send enqueues a notice. It may be called by any goroutine, and before the source is held.
func (s *source) send(message any, last bool) {
	s.life.performer.tell(&notice{s, message, last})
}

// end ends the source. It may be called by any goroutine once the source is held.
func (s *source) end() {
	if s.ended.Swap(true) {
		return
	}
	p := s.life.performer
	p.mu.Lock()
	delete(s.life.tied().sources, s)
	p.mu.Unlock()
	s.stop()
}

// open returns the message of a notice that the actor is about to handle; ok is false if its source has ended.
func (n *notice) open() (message any, ok bool) {
	if n.source.ended.Load() {
		return nil, false
	}
	n.source.waiting.Store(false)
	if n.last {
		n.source.end()
	}
	if r, is := n.message.(*reply); is {
		n.source.life.asking--
		return r.open(), true
	}
	return n.message, true
}

// After sends the actor a message once, after d.
func (c *Context) After(d time.Duration, message any) (stop func()) {
	s := &source{life: c.life}
	t := time.AfterFunc(d, contain.Func(c.Cast().log, "A timer of an actor", func() { s.send(message, true) }, nil))
	c.life.hold(s, func() { t.Stop() })
	return s.end
}

// Every sends the actor a message every d, which must be positive. Times at which the last one still waits are skipped.
func (c *Context) Every(d time.Duration, message any) (stop func()) {
	if d <= 0 {
		panic("the interval of Every must be positive")
	}
	s, due := &source{life: c.life}, time.Now().Add(d)
	var t *time.Timer
	t = time.AfterFunc(never, contain.Func(c.Cast().log, "A timer of an actor", func() {
		if s.waiting.CompareAndSwap(false, true) {
			s.send(message, false)
		}
		now := time.Now()
		due = nextTick(due, now, d)
		t.Reset(due.Sub(now))
		if s.ended.Load() { // after Reset, which may have followed Stop
			t.Stop()
		}
	}, nil))
	t.Reset(d) // t is set before the function runs
	c.life.hold(s, func() { t.Stop() })
	return s.end
}

// never is longer than any program runs.
const never = 1<<63 - 1

// nextTick returns the first time after now that is a whole number of intervals after last.
func nextTick(last, now time.Time, interval time.Duration) time.Time {
	if now.Sub(last) < interval {
		return last.Add(interval)
	}
	return now.Add(interval - now.Sub(last)%interval)
}

// Answer is the answer to an Ask of an actor, or the reason why there is none.
type Answer struct {
	From    Ref // as it was given to Ask
	Tag     any
	Message proto.Message // nil if Err is set
	Err     error
	// Own reports that the other actor itself answered with Err, and lives on.
	Own bool
	// NotBegun reports that no actor has begun to handle the message.
	NotBegun bool
}

// reply is an Answer that may have to be decoded.
type reply struct {
	Answer
	content content
}

func (r *reply) open() Answer {
	if r.Err == nil {
		r.Message, r.Err = r.content.open()
	}
	return r.Answer
}

// Ask sends a message to an actor and does not wait: the actor receives an Answer, which names the other actor as, after timeout at the
// latest.
func (c *Context) Ask(to, as Ref, message proto.Message, timeout time.Duration, tag any) {
	c.ask(c.ctx(), to, as, message, timeout, tag)
}

// AskFor is Ask on behalf of a request that the actor has kept. If the requester no longer waits, the other actor's request is withdrawn, and the
// Answer is CANCELLED.
func (c *Context) AskFor(r *Request, to, as Ref, message proto.Message, timeout time.Duration, tag any) {
	c.ask(r.Context(), to, as, message, timeout, tag)
}

func (c *Context) ask(ctx context.Context, to, as Ref, message proto.Message, timeout time.Duration, tag any) {
	l := c.life
	s := &source{life: l}
	until := time.Now().Add(timeout)
	ctx, end := c.Cast().beginAsk(ctx, to, func() string { return messageType(message) })
	a := &ask{tell: func(answer content, err error) {
		o := outcomeOf(err)
		if o.unbegun && IsVirtual(to.Task) && l.askAnew(ctx, end, s, to, as, message, until, tag) {
			return
		}
		end(o.error)
		s.send(&reply{Answer{From: as, Tag: tag, Err: o.error, Own: o.own, NotBegun: o.unbegun}, answer}, true)
	}}
	stop, err := l.ask(ctx, a, to, message, timeout)
	if err != nil {
		a.settle(content{}, err)
	}
	l.asking++
	l.hold(s, func() {
		stop()
		end(errGivenUp) // unless it was answered
	})
}

// errGivenUp is the end of a request whose actor has restarted or ended, or made it on behalf of a requester that no longer waits.
var errGivenUp error = status.New(status.Cancelled, "the actor no longer waits for the answer")

// askAnew asks a virtual actor on a goroutine of its own, because it has moved, and calls ended with the outcome. It returns false if the cast is stopping.
func (l *life) askAnew(ctx context.Context, ended func(error), from *source, to, as Ref, message proto.Message, until time.Time, tag any) bool {
	s := l.performer.cast
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.work.Go(contain.Func(s.log, "An ask of a virtual actor", func() {
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		answer, err := s.ask(ctx, to, message, false)
		ended(err)
		from.send(&reply{Answer{From: as, Tag: tag, Message: answer, Err: err}, content{message: answer}}, true)
	}, nil))
	return true
}

// FailAsk sends the actor the Answer of an Ask that cannot be sent.
func (c *Context) FailAsk(as Ref, tag any, err error) {
	s := &source{life: c.life}
	c.life.hold(s, func() {})
	s.send(Answer{From: as, Tag: tag, Err: err}, true)
}

// ask sends a message whose answer goes to a, and gives it up when ctx ends, or after timeout. stop gives it up without an answer. After an
// error, the caller settles the ask.
func (l *life) ask(ctx context.Context, a *ask, to Ref, message proto.Message, timeout time.Duration) (stop func(), err error) {
	s, none := l.performer.cast, func() {}
	if l.asking >= MaxAsks {
		return none, status.Errorf(status.ResourceExhausted, "the actor %s waits for %d answers, which is the limit", l.performer.name, MaxAsks)
	}
	to, size, err := s.checkAsk(to, message)
	if err != nil {
		return none, err
	}
	a.task, a.asking = to.Task, asking{by: l.performer, to: to.Name, kind: messageType(message), began: time.Now()}
	name, err := s.register(a)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	over := context.AfterFunc(ctx, contain.Func(s.log, "The end of an ask", func() {
		if !s.abandon(name, to.Task) {
			return
		}
		err := errGivenUp
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = status.Errorf(status.DeadlineExceeded, "the actor %s on %s has not answered within %v", to.Name, to.Task, timeout)
		}
		a.settle(content{}, err)
	}, nil))
	stop = func() {
		over()
		cancel()
		s.abandon(name, to.Task)
	}
	if err := l.sendAsk(ctx, name, to, message, size); err != nil && s.drop(name) {
		stop()
		return none, err
	}
	return stop, nil
}

// sendAsk sends a request without waiting. If there is no link to the task yet, another goroutine sends it, and later messages of the actor
// to the task wait for that, so that they stay in order.
func (l *life) sendAsk(ctx context.Context, name string, to Ref, message proto.Message, size int) error {
	s, asker := l.performer.cast, Ref{l.performer.cast.config.Self, name}
	if to.Task == s.config.Self {
		return s.put(ctx, to.Name, item{sender: asker, content: content{message: message}, size: size}, false)
	}
	if l.unsentTo(to.Task) == nil && s.lane(to.Task).linked() {
		return s.postTo(ctx, asker, to, message, size, false)
	}
	if !l.sendLater(to.Task, func(context.Context) {
		if err := s.postTo(ctx, asker, to, message, size, false); err != nil {
			s.settle(name, content{}, err)
		}
	}) {
		return queueFull(to.Task)
	}
	return nil
}

// sendLater calls send, which sends something to a task, on another goroutine, since it waits for a link; it ends with the context. Later messages of
// the actor to the task wait for it, so that they stay in order. It returns false if the server is stopping, or if far too much waits for the task.
func (l *life) sendLater(task string, send func(ctx context.Context)) bool {
	p, before, sent := l.performer, l.unsentTo(task), make(chan struct{})
	if !p.cast.errand(task, func(ctx context.Context) {
		defer close(sent)
		if before != nil {
			<-before // its errand began first, and ends with its time
		}
		send(ctx)
	}) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := l.needTies()
	if t.opening == nil {
		t.opening = map[string]chan struct{}{}
	}
	t.opening[task] = sent
	l.unsent.Store(true)
	return true
}

func queueFull(task string) error {
	return status.Errorf(status.ResourceExhausted, "The send queue to %s is full", task)
}

// unsentTo returns what is closed when the actor's last ask or watch that waits for a link to a task has been sent; nil if none waits.
func (l *life) unsentTo(task string) <-chan struct{} {
	if !l.unsent.Load() {
		return nil
	}
	p := l.performer
	p.mu.Lock()
	defer p.mu.Unlock()
	opening := l.tied().opening
	for t, sent := range opening {
		select {
		case <-sent:
			delete(opening, t)
		default:
		}
	}
	l.unsent.Store(len(opening) > 0)
	if sent := opening[task]; sent != nil {
		return sent
	}
	return nil
}

// await waits until the actor's asks and watches that wait for a link to a task have been sent.
func (l *life) await(task string) error {
	sent := l.unsentTo(task)
	if sent == nil {
		return nil
	}
	select {
	case <-sent:
		return nil
	case <-l.ctx().Done():
		return status.From(l.ctx().Err())
	}
}
