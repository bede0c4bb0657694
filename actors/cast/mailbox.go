package cast

import (
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/internal/contain"
)

// mailbox is an actor's mailbox as the actor system knows it. The program's messages do not go through it: they wait in the performer's queue,
// which is bounded. What goes through it are the system's own messages, turns and revivals, of which there are few at a time. No goroutine belongs to
// an idle actor.
type mailbox struct {
	owner      *performer
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher

	mu        sync.Mutex // guards the rest: all that have something for the actor post it
	running   bool
	suspended bool
	system    []any // handled before user; both have room for as many as there were at a time
	user      []any
}

var _ actor.Mailbox = (*mailbox)(nil)

// RegisterHandlers is called once by the actor system, before the first message.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start does nothing: the first message starts the actor.
func (m *mailbox) Start() {}

// UserMessageCount returns the number of waiting messages.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.user)
}

// PostUserMessage adds a turn or a revival.
func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	m.user = append(m.user, message)
	m.schedule(!m.suspended)
}

// PostSystemMessage adds a message of the actor system.
func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system = append(m.system, message)
	m.schedule(true)
}

// schedule has the dispatcher run the actor if something is due, unless it runs. The caller holds mu, which schedule releases.
func (m *mailbox) schedule(due bool) {
	due = due && !m.running
	m.running = m.running || due
	m.mu.Unlock()
	if due {
		m.dispatcher.Schedule(m.run)
	}
}

// run handles what waits, and leaves the goroutine to others after a number of messages.
func (m *mailbox) run() {
	for range m.dispatcher.Throughput() {
		if !m.next() {
			return
		}
	}
	m.dispatcher.Schedule(m.run)
}

// next handles the next message. It returns false, and the actor no longer runs, if there is none.
func (m *mailbox) next() bool {
	m.mu.Lock()
	system := len(m.system) > 0
	var message any
	switch {
	case system:
		message = m.system[0]
		m.system = slices.Delete(m.system, 0, 1)
	case len(m.user) > 0 && !m.suspended:
		message = m.user[0]
		m.user = slices.Delete(m.user, 0, 1)
	default:
		m.running = false
		m.mu.Unlock()
		return false
	}
	switch message.(type) {
	case *actor.SuspendMailbox:
		m.suspended, message = true, nil
	case *actor.ResumeMailbox:
		m.suspended, message = false, nil
	}
	m.mu.Unlock()
	if message != nil {
		m.invoke(message, system)
	}
	return true
}

// invoke passes a message on. What the program does is contained where it is called, so a panic that comes this far is the cast's own fault.
func (m *mailbox) invoke(message any, system bool) {
	defer func() {
		if r := recover(); r != nil {
			m.owner.broken(contain.Error(m.owner.cast.log, "The actor "+m.owner.ref.Name, r))
		}
	}()
	if system {
		m.invoker.InvokeSystemMessage(message)
	} else {
		m.invoker.InvokeUserMessage(message)
	}
}

// crew is what the actor system gets to know of the performers of a cast: they share it, since there may be a million of them.
type crew struct {
	mu    sync.Mutex // guards next: actors are spawned on many goroutines
	next  *performer // that the actor system is taking up
	props *actor.Props
}

func (c *crew) init() {
	c.props = actor.PropsFromProducer(func() actor.Actor { return c.next }, actor.WithMailbox(func() actor.Mailbox { return &c.next.mailbox }))
}

// take makes the actor system run an actor.
func (c *crew) take(system *actor.ActorSystem, p *performer, id string) (*actor.PID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = p
	defer func() { c.next = nil }()
	return system.Root.SpawnNamed(c.props, id)
}
