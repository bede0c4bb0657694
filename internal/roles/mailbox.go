package roles

import (
	"runtime/debug"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// Work is deferred work of a message, done after the message is handled: see [Ref.After]. here reports whether it runs on the goroutine
// that delivered the message rather than on one of the dispatcher's.
type Work interface{ Do(here bool) }

// inlineTurn is the number of further messages that the goroutine that delivered one also handles. It has other work to do, so the rest is
// left to the dispatcher.
const inlineTurn = 16

// Mailbox is the mailbox of a role. All methods may be called concurrently, except those of the goroutine that runs the actor.
type Mailbox struct {
	owner      *Ref
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher
	resume     func() // drain, made once

	// Used only by the goroutine that runs the actor.
	work      Work // deferred work of the last message
	lifecycle bool // a system message is being handled

	// If the actor is neither running nor suspended, no message is waiting.
	mu        sync.Mutex
	running   bool
	suspended bool
	stopped   bool
	system    []any
	user      fifo
	handled   uint64
	panics    uint64
}

var _ actor.Mailbox = (*Mailbox)(nil)

func newMailbox(owner *Ref) *Mailbox {
	m := &Mailbox{owner: owner}
	m.resume = m.drain
	return m
}

// RegisterHandlers is called once by the library, before the first message.
func (m *Mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start does nothing: the first message starts the actor.
func (m *Mailbox) Start() {}

// UserMessageCount returns the number of waiting messages.
func (m *Mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.user.len()
}

// PostUserMessage handles a message, or leaves it to the goroutine that runs the actor.
func (m *Mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	switch {
	case m.stopped:
		m.mu.Unlock()
		m.owner.refuse(message, nil)
		return
	case m.running || m.suspended:
		m.user.push(message)
		m.mu.Unlock()
		return
	}
	m.running = true
	m.handled++
	m.mu.Unlock()
	m.handle(message)
	m.next(inlineTurn, true)
}

// PostSystemMessage handles a message of the library, before all other waiting messages.
func (m *Mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system = append(m.system, message)
	if m.running {
		m.mu.Unlock()
		return
	}
	m.running = true
	m.mu.Unlock()
	m.next(inlineTurn, false)
}

func (m *Mailbox) drain() { m.next(m.dispatcher.Throughput(), false) }

// next continues after a message: the caller runs the actor. It handles waiting messages, at most turn of them. If the last message was the
// caller's own, the caller does its deferred work once others can run the actor. It leaves the work of other messages to the dispatcher,
// since their senders would otherwise wait while it does its own.
func (m *Mailbox) next(turn int, own bool) {
	for ; ; own = false {
		work := m.work
		m.work = nil
		if work != nil && !own {
			m.doElsewhere(work)
			work = nil
		}
		m.mu.Lock()
		more := len(m.system) > 0 || !m.suspended && m.user.len() > 0
		handOver := more && (work != nil || turn <= 0)
		var message any
		var system bool
		switch {
		case !more:
			m.running = false
		case !handOver:
			message, system = m.takeLocked()
		}
		m.mu.Unlock()
		if handOver {
			m.dispatcher.Schedule(m.resume)
		}
		if work != nil {
			m.do(work, true)
		}
		switch {
		case !more || handOver:
			return
		case system:
			m.handleSystem(message)
		default:
			m.handle(message)
		}
		turn--
	}
}

// takeLocked removes the next message to handle.
func (m *Mailbox) takeLocked() (message any, system bool) {
	if len(m.system) > 0 {
		message = m.system[0]
		m.system[0] = nil
		m.system = m.system[1:]
		if len(m.system) == 0 {
			m.system = nil
		}
		return message, true
	}
	m.handled++
	return m.user.pop(), false
}

func (m *Mailbox) handle(message any) {
	defer m.guard(message)
	m.invoker.InvokeUserMessage(message)
}

func (m *Mailbox) handleSystem(message any) {
	switch message.(type) {
	case *actor.SuspendMailbox, *actor.ResumeMailbox:
		_, suspend := message.(*actor.SuspendMailbox)
		m.mu.Lock()
		m.suspended = suspend
		m.mu.Unlock()
		return
	}
	m.lifecycle = true
	defer func() { m.lifecycle = false }()
	defer m.guard(nil)
	m.invoker.InvokeSystemMessage(message)
}

// guard passes a panic of the actor to its supervisor, and refuses the message.
func (m *Mailbox) guard(message any) {
	p := recover()
	if p == nil {
		return
	}
	stack := m.panicked(message, p)
	if message != nil {
		m.owner.refuse(message, &Panic{p, stack})
	}
	m.invoker.EscalateFailure(p, message)
}

func (m *Mailbox) doElsewhere(work Work) { m.dispatcher.Schedule(func() { m.do(work, false) }) }

// do does the deferred work of a message. A panic affects only that work.
func (m *Mailbox) do(work Work, here bool) {
	defer func() {
		if p := recover(); p != nil {
			m.panicked(work, p)
		}
	}()
	work.Do(here)
}

func (m *Mailbox) panicked(message, p any) (stack []byte) {
	stack = debug.Stack()
	m.mu.Lock()
	m.panics++
	m.mu.Unlock()
	m.owner.logPanic(message, p, stack)
	return stack
}

// stop refuses all waiting and future messages.
func (m *Mailbox) stop() {
	m.mu.Lock()
	m.stopped = true
	left := m.user.takeAll()
	m.mu.Unlock()
	for _, message := range left {
		m.owner.refuse(message, nil)
	}
}

// fifo holds messages in order of arrival.
type fifo struct {
	ring  []any
	first int
	count int
}

func (f *fifo) len() int { return f.count }

func (f *fifo) push(message any) {
	if f.count == len(f.ring) {
		grown := make([]any, max(8, 2*f.count))
		for i := range f.count {
			grown[i] = f.ring[(f.first+i)%len(f.ring)]
		}
		f.ring, f.first = grown, 0
	}
	f.ring[(f.first+f.count)%len(f.ring)] = message
	f.count++
}

// keptRing is the capacity that an empty queue keeps.
const keptRing = 256

func (f *fifo) pop() any {
	message := f.ring[f.first]
	f.ring[f.first] = nil
	f.first = (f.first + 1) % len(f.ring)
	f.count--
	if f.count == 0 && len(f.ring) > keptRing {
		f.ring, f.first = nil, 0
	}
	return message
}

func (f *fifo) takeAll() []any {
	all := make([]any, 0, f.count)
	for f.count > 0 {
		all = append(all, f.pop())
	}
	f.ring = nil
	return all
}
