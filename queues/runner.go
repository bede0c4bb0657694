package queues

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/queues/internal/wire"
)

// The envelopes of a queue's messages are *waiter, and these.
type (
	// cancellation cancels an operation for a cause.
	cancellation struct {
		message *wire.Cancel
		waiter  *waiter
		cause   error
	}
	// deletion ends the queue: operations fail with err.
	deletion struct {
		message *wire.Delete
		err     error
	}
)

var (
	cancelOne   = &wire.Cancel{}
	deleteQueue = &wire.Delete{}
)

// core is the machine and what it takes to end well when it fails.
type core struct {
	state   *state
	pending map[*waiter]struct{} // taken and not completed, wherever the machine keeps them
	over    error                // why everything is refused
}

func newCore(o Options) core {
	return core{state: newState(o), pending: map[*waiter]struct{}{}}
}

// handle runs a message through the machine. When that panics the queue is over: err is the
// panic, and all requests end with ABORTED.
func (q *Queue) handle(message any) (effects []completion, err error) {
	q.mu.Lock()
	defer func() {
		defer q.mu.Unlock()
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			effects = q.fail(q.failure(p))
		}
	}()
	c := &q.core
	switch m := message.(type) {
	case *waiter:
		if c.over != nil {
			return []completion{m.refused(c.over)}, nil
		}
		c.pending[m] = struct{}{}
		effects = c.state.submit(m)
		if m.list != nil {
			m.since = time.Now()
		}
	case *cancellation:
		if c.over == nil {
			effects = c.state.cancel(m.waiter, m.cause)
		}
	case *deletion:
		if c.over == nil {
			c.over = m.err
			effects = c.state.abort(m.err)
		}
	}
	for _, e := range effects {
		delete(c.pending, e.waiter)
	}
	return effects, nil
}

// fail ends a queue whose machine is in no known state, and with it the requests; the caller holds the lock. The elements
// are left to the garbage collector, since nothing tells whose they are.
func (q *Queue) fail(err error) []completion {
	c := &q.core
	c.over = err
	c.state = newState(q.options)
	var effects []completion
	for w := range c.pending {
		effects = append(effects, completion{waiter: w, err: err})
	}
	clear(c.pending)
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
		c.run()
	}
}

func (l *locked) handle(message any) []completion {
	l.mu.Lock()
	defer l.mu.Unlock()
	effects, _ := l.q.handle(message) // all requests, and those that come, get the failure
	return effects
}

func (l *locked) end() {
	l.send(&deletion{deleteQueue, *l.q.ended.Load()})
	close(l.q.done)
}

// role runs a queue as an actor. It stops at a panic: the elements would be lost without a word otherwise.
type role struct {
	q    *Queue
	self *roles.Ref
	log  *slog.Logger
}

// spawned numbers the queues of the process, whose names need not be unique.
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

// Receive is the queue's behaviour.
func (a *role) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *waiter, *cancellation, *deletion:
		a.serve(m)
	case *actor.Stopping:
		// Only the queue itself stops the actor, and then it is over already; but nothing may wait
		// for ever on one that something else has stopped.
		if a.q.core.over == nil {
			err := a.q.failure("its actor was stopped")
			a.q.refuse(err)
			a.serve(&deletion{deleteQueue, err})
		}
	case *actor.Stopped:
		close(a.q.done)
	}
}

// refuse completes an operation that came when the actor had stopped.
func (a *role) refuse(message any, cause error) {
	if w, ok := message.(*waiter); ok && cause == nil {
		w.refused(*a.q.ended.Load()).run()
	}
}

// serve handles a message and tells those whose requests it completed. After a panic, of the
// machine or of one that was told, all are told that the queue is over.
func (a *role) serve(message any) {
	effects, err := a.q.handle(message)
	for len(effects) > 0 {
		c := effects[0]
		effects = effects[1:]
		if e := tell(c); e != nil {
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

func tell(c completion) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the completion of an operation: %v\n%s", p, debug.Stack())
		}
	}()
	c.run()
	return nil
}
