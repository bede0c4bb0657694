package queues

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
)

// The messages of a queue are new requests (*waiter), and these.
type (
	// cancellation cancels a request for a cause.
	cancellation struct {
		*waiter
		cause error
	}
	// ending deletes the queue.
	ending struct{ err error }
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
func (q *Queue) handle(m any) (effects []completion, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			effects = q.fail(q.failure(p))
		}
	}()
	c := &q.core
	switch m := m.(type) {
	case *waiter:
		if c.over != nil {
			return []completion{m.refused(c.over)}, nil
		}
		c.pending[m] = struct{}{}
		effects = c.state.submit(m)
	case cancellation:
		if c.over == nil {
			effects = c.state.cancel(m.waiter, m.cause)
		}
	case ending:
		if c.over == nil {
			c.over = m.err
			effects = c.state.abort(m.err)
		}
	}
	for _, e := range effects {
		delete(c.pending, e.waiter)
	}
	q.size.Store(int64(c.state.order.len()))
	q.closed.Store(c.state.closed)
	return effects, nil
}

// fail ends a queue whose machine is in no known state, and with it the requests. The elements
// are left to the garbage collector, since nothing tells whose they are.
func (q *Queue) fail(err error) []completion {
	c := &q.core
	c.over = err
	c.state = newState(q.options)
	q.size.Store(0)
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

// inline runs a queue on its callers' goroutines, under a lock.
type inline struct {
	q  *Queue
	mu sync.Mutex
}

func (l *inline) post(m any) []completion {
	l.mu.Lock()
	defer l.mu.Unlock()
	effects, _ := l.q.handle(m) // all requests, and those that come, get the failure
	return effects
}

func (l *inline) end() {
	for _, c := range l.post(ending{l.q.ended}) {
		c.run()
	}
	close(l.q.done)
}

// stopAtPanic is for a panic that gets past the actor's own guard: the library's own strategy
// would start the actor again.
var stopAtPanic = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// acting runs a queue as an actor.
type acting struct {
	q      *Queue
	system *actor.ActorSystem
	pid    *actor.PID
}

func start(system *actor.ActorSystem, q *Queue) *acting {
	a := &acting{q: q, system: system}
	a.pid = system.Root.SpawnPrefix(actor.PropsFromFunc(a.receive, actor.WithGuardian(stopAtPanic)), "queue")
	return a
}

func (a *acting) post(m any) []completion {
	a.system.Root.Send(a.pid, m)
	return nil
}

// end is called when no message comes after those that the actor has been sent, so that Poison
// loses none.
func (a *acting) end() {
	a.system.Root.Send(a.pid, ending{a.q.ended})
	a.system.Root.Poison(a.pid)
}

func (a *acting) receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *waiter, cancellation, ending:
		a.serve(m)
	case *actor.Stopping:
		// Only the queue itself stops the actor, and then it is over already; but nothing may wait
		// for ever on one that something else has stopped.
		if a.q.core.over == nil {
			a.q.refuse(a.q.failure("its actor was stopped"))
			a.serve(ending{a.q.failure("its actor was stopped")})
		}
	case *actor.Stopped:
		close(a.q.done)
	}
}

// serve handles a message and tells those whose requests it completed. After a panic, of the
// machine or of one that was told, all are told that the queue is over.
func (a *acting) serve(m any) {
	effects, err := a.q.handle(m)
	for len(effects) > 0 {
		c := effects[0]
		effects = effects[1:]
		if e := tell(c); e != nil {
			err = errors.Join(err, e)
			more, e := a.q.handle(ending{a.q.failure(e)})
			effects, err = append(effects, more...), errors.Join(err, e)
		}
	}
	if err == nil {
		return
	}
	a.system.Logger().Error("queue failed", slog.String("queue", a.q.options.Name), slog.Any("error", err))
	if a.q.refuse(a.q.core.over) {
		a.system.Root.Poison(a.pid)
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
