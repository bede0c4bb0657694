package queues

import (
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/queues/internal/wire"
)

// The envelopes of a queue's messages are *waiter and the following.
type (
	// cancellation cancels an operation for a cause.
	cancellation struct {
		message *wire.Cancel
		waiter  *waiter
		cause   error
	}
	// expiry ends an operation whose wait for the queue to be reopened has timed out.
	expiry struct {
		message *wire.Expire
		waiter  *waiter
	}
	// tick returns the elements of the leases that have expired.
	tick struct{ message *wire.Tick }
	// buried frees the room of dead letters.
	buried struct {
		message *wire.Buried
		burial  *burial
	}
	// deletion ends the queue: operations fail with err.
	deletion struct {
		message *wire.Delete
		err     error
	}
)

var (
	cancelOne   = &wire.Cancel{}
	expireOne   = &wire.Expire{}
	deleteQueue = &wire.Delete{}
	tickOnce    = &tick{&wire.Tick{}}
	buriedOnes  = &wire.Buried{}
)

// core is the state machine and what is needed to complete all requests when it fails.
type core struct {
	state   *state
	pending map[*waiter]struct{} // accepted and not completed, wherever the machine keeps them
	over    error                // why all requests are refused
	timer   *time.Timer          // sends a tick at wake; nil before the first lease
	wake    time.Time            // zero while the timer is stopped
}

func newCore(o Options) core {
	return core{state: newState(o), pending: map[*waiter]struct{}{}}
}

// handle runs a message through the machine. If the machine panics, the queue has failed: err is the panic, and all requests end with
// ABORTED.
func (q *Queue) handle(message any) (effects []completion, err error) {
	q.mu.Lock()
	defer func() {
		defer q.mu.Unlock()
		if p := recover(); p != nil {
			err = contain.Error(nil, "A queue", p)
			effects = q.fail(q.failure(p))
		}
	}()
	c := &q.core
	switch m := message.(type) {
	case *waiter:
		if c.over != nil {
			return []completion{m.refused(c.over)}, nil
		}
		if err := q.changeable(m); err != nil {
			return []completion{m.refused(err)}, nil
		}
		c.pending[m] = struct{}{}
		effects = c.state.submit(m)
		if m.list != nil {
			m.since = time.Now()
		}
		if c.state.waitsToOpen(m) {
			m.expiry = time.AfterFunc(m.openWait(), contain.Func(nil, "The end of a wait for a queue", func() { q.runner.send(&expiry{expireOne, m}) }, nil))
		}
	case *cancellation:
		if c.over == nil {
			effects = c.state.cancel(m.waiter, m.cause)
		}
	case *expiry:
		if c.over == nil {
			effects = c.state.expire(m.waiter)
		}
	case *tick:
		if c.wake = (time.Time{}); c.over == nil {
			effects = c.state.tick()
		}
	case *buried:
		if c.over == nil {
			effects = c.state.buried(m.burial)
		}
	case *deletion:
		if c.over == nil {
			c.over = m.err
			effects = c.state.abort(m.err)
		}
	}
	q.setTimer()
	q.record()
	for _, e := range effects {
		if e.burial != nil {
			e.burial.from = q
			continue
		}
		e.waiting()
		delete(c.pending, e.waiter)
		if e.expiry != nil {
			e.expiry.Stop()
		}
	}
	return effects, nil
}

// setTimer makes the queue's timer fire when the next lease expires. It may fire earlier, for a lease that has been renewed or has ended.
// The caller holds the lock.
func (q *Queue) setTimer() {
	c := &q.core
	if c.over != nil {
		if c.timer != nil {
			c.timer.Stop()
		}
		return
	}
	next, leased := c.state.leases.next()
	if !leased || !c.wake.IsZero() && !next.Before(c.wake) {
		return
	}
	c.wake = next
	wait := next.Sub(c.state.now())
	if c.timer != nil {
		c.timer.Reset(wait)
		return
	}
	c.timer = time.AfterFunc(wait, contain.Func(nil, "The expiry of a queue's leases", func() { q.runner.send(tickOnce) }, nil))
}

// fail ends a queue whose machine is in an unknown state, together with all its requests. The caller holds the lock. The elements are left
// to the garbage collector, since their owners are unknown.
func (q *Queue) fail(err error) []completion {
	c := &q.core
	c.over = err
	c.state = newState(q.options)
	var effects []completion
	for w := range c.pending {
		effects = append(effects, completion{waiter: w, err: err})
	}
	clear(c.pending)
	q.setTimer()
	return effects
}

func (q *Queue) failure(cause any) error {
	return status.Errorf(status.Aborted, "%v '%s' failed, its elements are lost: %v", q.options.Kind, q.options.Name, cause)
}

// locked runs a queue without an actor system, under a lock.
type locked struct {
	q  *Queue
	mu sync.Mutex
}

func (l *locked) send(message any) {
	for _, c := range l.handle(message) {
		c.settle()
	}
}

func (l *locked) handle(message any) []completion {
	l.mu.Lock()
	defer l.mu.Unlock()
	effects, _ := l.q.handle(message) // all requests, pending and future, receive the failure
	return effects
}

func (l *locked) end() {
	l.send(&deletion{deleteQueue, *l.q.ended.Load()})
	close(l.q.done)
}

// role runs a queue as an actor. It stops after a panic; otherwise the elements would be lost silently.
type role struct {
	q    *Queue
	self *roles.Ref
	log  *slog.Logger
}

// spawned numbers the queues of the process, since their names need not be unique.
var spawned atomic.Uint64

func start(system *actor.ActorSystem, q *Queue) (*role, error) {
	a := &role{q: q, log: system.Logger()}
	var err error
	a.self, err = roles.Spawn(system, roles.Spec{Name: "queue/" + q.options.Name + "#" + strconv.FormatUint(spawned.Add(1), 10), Kind: "queue",
		Receive: a.Receive, Refuse: a.refuse, FailClosed: true})
	return a, err
}

func (a *role) send(message any) { a.self.Send(message) }

func (a *role) end() {
	a.self.Send(&deletion{deleteQueue, *a.q.ended.Load()})
	a.self.Stop()
}

// Receive handles the actor's messages.
func (a *role) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *waiter, *cancellation, *expiry, *tick, *buried, *deletion:
		a.serve(m)
	case *actor.Stopping:
		// Only the queue itself stops the actor, and has then refused all requests. If something else stopped it, no request may hang.
		if a.q.core.over == nil {
			err := a.q.failure("its actor was stopped")
			a.q.refuse(err)
			a.serve(&deletion{deleteQueue, err})
		}
	case *actor.Stopped:
		close(a.q.done)
	}
}

// refuse completes an operation that was sent after the actor had stopped.
func (a *role) refuse(message any, cause error) {
	if w, ok := message.(*waiter); ok && cause == nil {
		w.refused(*a.q.ended.Load()).run()
	}
}

// serve handles a message and runs the completions. After a panic in the machine or in a completion, all requests learn that the queue has
// failed.
func (a *role) serve(message any) {
	effects, err := a.q.handle(message)
	for len(effects) > 0 {
		c := effects[0]
		effects = effects[1:]
		if e := a.tell(c); e != nil {
			err = errors.Join(err, e)
			more, e := a.q.handle(&deletion{deleteQueue, a.q.failure(e)})
			effects, err = append(effects, more...), errors.Join(err, e)
		}
	}
	if err == nil {
		return
	}
	a.log.Error("queue failed", slog.String("queue", a.q.options.Name), slog.Any("error", err))
	if a.q.refuse(a.q.core.over) {
		a.self.Stop()
	}
}

func (a *role) tell(c completion) error {
	return contain.Run(a.log, "The completion of a queue's operation", func() error {
		c.settle()
		return nil
	})
}
