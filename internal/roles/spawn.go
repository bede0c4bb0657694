package roles

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
)

// Spec describes an actor.
type Spec struct {
	// Name is the actor's address in its system; Kind is its role: "worker", "container".
	Name, Kind string
	// Receive handles a message. It must neither block nor compute for long.
	Receive func(c actor.Context)
	// Refuse, if not nil, completes a message that is not handled, so that no caller waits for its answer. cause is nil if the actor had
	// stopped when the message arrived, and a *Panic if handling it failed. Refuse may be called on any goroutine.
	Refuse func(message any, cause error)
	// FailClosed stops the actor after a panic. Otherwise a panic only ends the message.
	FailClosed bool
	// Dispatcher runs the actor when the goroutine that delivered a message has done its turn; nil means a new goroutine each time.
	Dispatcher actor.Dispatcher
	// Log receives panics; nil means the system's logger.
	Log *slog.Logger
}

// Panic is the cause of a message's failure.
type Panic struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Ref is an actor of the process. All methods except After may be called concurrently.
type Ref struct {
	spec    Spec
	system  *actor.ActorSystem
	pid     *actor.PID
	mailbox *Mailbox
	since   time.Time
}

// Spawn starts an actor. The error is INTERNAL if the name is taken.
func Spawn(system *actor.ActorSystem, spec Spec) (*Ref, error) {
	r := &Ref{spec: spec, system: system, since: time.Now()}
	r.mailbox = newMailbox(r)
	known := registryOf(system)
	options := []actor.PropsOption{
		actor.WithMailbox(func() actor.Mailbox { return r.mailbox }),
		actor.WithGuardian(known),
	}
	if spec.Dispatcher != nil {
		options = append(options, actor.WithDispatcher(spec.Dispatcher))
	}
	// It is added to the list first: the supervisor must know it before its first message.
	if !known.add(r) {
		return nil, status.Internalf("There is an actor %s already", spec.Name)
	}
	pid, err := system.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return (*shell)(r) }, options...), spec.Name)
	if err != nil {
		known.remove(r)
		return nil, status.Internalf("The actor %s did not start: %v", spec.Name, err)
	}
	r.pid = pid
	return r, nil
}

// shell is the actor as the library knows it.
type shell Ref

// Receive passes on a message, and records the actor's end.
func (s *shell) Receive(c actor.Context) {
	if m, ok := c.Message().(mark); ok {
		close(m)
		return
	}
	s.spec.Receive(c)
	if !s.mailbox.lifecycle {
		return
	}
	if _, over := c.Message().(*actor.Stopped); over {
		s.mailbox.stop()
		registryOf(s.system).remove((*Ref)(s))
	}
}

// PID returns the actor's address.
func (r *Ref) PID() *actor.PID { return r.pid }

// Name returns the name that the actor was spawned with.
func (r *Ref) Name() string { return r.spec.Name }

// Send posts a message to the actor's mailbox. The message is handled, or refused if the actor has stopped. If the actor is idle, that
// happens before Send returns.
func (r *Ref) Send(message any) { r.mailbox.PostUserMessage(message) }

// Handled waits until the actor has handled or refused the messages that were sent before, or until ctx ends.
func (r *Ref) Handled(ctx context.Context) {
	m := make(mark)
	r.Send(m)
	select {
	case <-m:
	case <-ctx.Done():
	}
}

// mark is a message that is closed when it is its turn.
type mark chan struct{}

// Stop ends the actor after all messages sent before.
func (r *Ref) Stop() { r.system.Root.Poison(r.pid) }

// After defers work until the present message is handled, when other goroutines can handle further messages. The work runs on the goroutine
// that delivered the message if that one handles it, otherwise on one of the dispatcher's. Only Receive may call it, at most once per
// message.
func (r *Ref) After(work Work) {
	if r.mailbox.work != nil {
		panic("roles: After was called twice for a message")
	}
	r.mailbox.work = work
}

func (r *Ref) refuse(message any, cause error) {
	if envelope, ok := message.(*actor.MessageEnvelope); ok {
		message = envelope.Message
	}
	if m, ok := message.(mark); ok {
		close(m)
		return
	}
	if _, library := message.(*actor.PoisonPill); library || r.spec.Refuse == nil {
		return
	}
	r.spec.Refuse(message, cause)
}

func (r *Ref) logPanic(message, p any, stack []byte) {
	if envelope, ok := message.(*actor.MessageEnvelope); ok {
		message = envelope.Message
	}
	cmp.Or(r.spec.Log, r.system.Logger()).Error("an actor panicked", "actor", r.spec.Name, "message", fmt.Sprintf("%T", message),
		"panic", p, "stack", string(stack))
}
