package cast

import (
	"context"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
)

// mailbox is a performer as the actor system knows it: as an actor's mailbox. The program's messages do not go through it: they wait in the
// performer's queue, which is bounded. What goes through it are the system's own messages, turns and revivals, of which there are few at a time. No
// goroutine belongs to an idle actor. mu guards what waits.
type mailbox performer

// posted is what else waits in a mailbox.
type posted struct {
	system []any // handled before user
	user   []any
}

var (
	_ actor.Mailbox = (*mailbox)(nil)

	startedMessage any = &actor.Started{}
)

// RegisterHandlers is called once by the actor system, before the first message. The dispatcher is the cast's pool.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
}

// Start does nothing: the first message starts the actor.
func (m *mailbox) Start() {}

// UserMessageCount returns the number of waiting messages.
func (m *mailbox) UserMessageCount() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turns {
		n++
	}
	if m.revives {
		n++
	}
	if m.posted != nil {
		n += len(m.posted.user)
	}
	return n
}

// PostUserMessage adds a turn or a revival.
func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	switch message.(type) {
	case turn:
		m.turns = true
	case revival:
		m.revives = true
	default:
		r := m.others()
		r.user = append(r.user, message)
	}
	m.schedule(!m.suspended)
}

// PostSystemMessage adds a message of the actor system.
func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	if _, begins := message.(*actor.Started); begins {
		m.begins = true
	} else {
		r := m.others()
		r.system = append(r.system, message)
	}
	m.schedule(true)
}

// others returns what else waits. mu is held.
func (m *mailbox) others() *posted {
	if m.posted == nil {
		m.posted = &posted{}
	}
	return m.posted
}

// schedule has the pool run the actor if something is due, unless it runs. The caller holds mu, which schedule releases.
func (m *mailbox) schedule(due bool) {
	due = due && !m.running
	m.running = m.running || due
	m.mu.Unlock()
	if due {
		m.cast.crew.pool.Run(m)
	}
}

// Run handles what waits, and leaves the goroutine to others after a number of messages.
func (m *mailbox) Run() {
	pool := m.cast.crew.pool
	for range pool.Throughput() {
		if !m.handle() {
			return
		}
	}
	pool.Run(m)
}

// handle handles the next message. It returns false, and the actor no longer runs, if there is none.
func (m *mailbox) handle() bool {
	m.mu.Lock()
	message, system := m.pop()
	switch message.(type) {
	case nil:
		m.running = false
		m.mu.Unlock()
		return false
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

// pop removes and returns the message to handle next; nil if there is none. mu is held.
func (m *mailbox) pop() (message any, system bool) {
	r := m.posted
	switch {
	case m.begins:
		m.begins = false
		return startedMessage, true
	case r != nil && len(r.system) > 0:
		message, system = r.system[0], true
		r.system = slices.Delete(r.system, 0, 1)
	case m.suspended:
		return nil, false
	case m.turns:
		m.turns = false
		return turn{}, false
	case m.revives:
		m.revives = false
		return revival{}, false
	case r != nil: // for user is not empty then
		message = r.user[0]
		r.user = slices.Delete(r.user, 0, 1)
	}
	if r != nil && len(r.system)+len(r.user) == 0 {
		m.posted = nil
	}
	return message, system
}

// invoke passes a message on. What the program does is contained where it is called, so a panic that comes this far is the cast's own fault.
func (m *mailbox) invoke(message any, system bool) {
	defer func() {
		if r := recover(); r != nil {
			(*performer)(m).broken(contain.Error(m.cast.log, "The actor "+m.name, r))
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
	mu      sync.Mutex // guards the rest: actors are spawned on many goroutines
	next    *performer // that the actor system is taking up
	taken   uint64     // performers so far
	props   *actor.Props
	pool    *roles.Pool // runs them
	closing sync.Once
	ended   bool // set by closing
}

func (c *crew) init() {
	c.pool = roles.NewPool()
	c.props = actor.PropsFromProducer(func() actor.Actor { return c.next }, actor.WithMailbox(func() actor.Mailbox { return (*mailbox)(c.next) }),
		actor.WithDispatcher(c.pool))
}

// close ends the goroutines that ran the performers, which have ended. It returns false if some have not ended soon after ctx. A second call returns
// what the first one did.
func (c *crew) close(ctx context.Context) bool {
	c.closing.Do(func() { c.ended = c.pool.Close(ctx) })
	return c.ended
}

// take makes the actor system run an actor.
func (c *crew) take(system *actor.ActorSystem, p *performer) (*actor.PID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = p
	defer func() { c.next = nil }()
	// The actor system's ids are separate, because a name may be reused before the system has forgotten it.
	c.taken++
	return system.Root.SpawnNamed(c.props, numbered(idPrefix, c.taken, 10))
}
