package roles

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
)

// Spec says what an actor is.
type Spec struct {
	// Name is the actor's address in its system, and Kind its role: "worker", "container".
	Name, Kind string
	// Receive handles a message. It neither blocks nor computes for long.
	Receive func(c actor.Context)
	// Refuse, if not nil, ends a message that is not handled, so that nobody waits for its answer: cause is nil for
	// one that comes when the actor has stopped, and a *Panic where handling it failed. It may be called on any
	// goroutine.
	Refuse func(message any, cause error)
	// FailClosed stops the actor at a panic. Without it a panic costs the message alone.
	FailClosed bool
	// Dispatcher runs the actor where the goroutine that brought a message has done its turn; nil for a new goroutine
	// each time.
	Dispatcher actor.Dispatcher
	// Log is told of panics; nil for the system's.
	Log *slog.Logger
}

// Panic is the cause of a message's failure.
type Panic struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Ref is an actor of the process. All methods may be called concurrently but for After.
type Ref struct {
	spec    Spec
	system  *actor.ActorSystem
	pid     *actor.PID
	mailbox *Mailbox
	since   time.Time
}

// Spawn starts an actor. The error is INTERNAL where the name is taken.
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
	// The list has it first: the supervisor must know it before its first message.
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

// shell is the actor that the library knows.
type shell Ref

// Receive hands on a message, and notes the end.
func (s *shell) Receive(c actor.Context) {
	s.spec.Receive(c)
	if !s.mailbox.lifecycle {
		return
	}
	if _, over := c.Message().(*actor.Stopped); over {
		s.mailbox.stop()
		registryOf(s.system).remove((*Ref)(s))
	}
}

// PID is the actor's address.
func (r *Ref) PID() *actor.PID { return r.pid }

// Name is the name that the actor was spawned with.
func (r *Ref) Name() string { return r.spec.Name }

// Send posts a message in the actor's mailbox: it is handled, or refused where the actor has stopped. Before Send
// returns, where the actor is idle.
func (r *Ref) Send(message any) { r.mailbox.PostUserMessage(message) }

// Stop ends the actor after the messages that were sent before.
func (r *Ref) Stop() { r.system.Root.Poison(r.pid) }

// After leaves work to be done after the message that is being handled, while others may handle further messages: by the
// goroutine that brought the message if it is that which handles it, else by one of the dispatcher's. Only Receive calls it, at most once for a message.
func (r *Ref) After(work Work) {
	if r.mailbox.work != nil {
		panic("roles: a message leaves one work at most")
	}
	r.mailbox.work = work
}

func (r *Ref) refuse(message any, cause error) {
	if envelope, ok := message.(*actor.MessageEnvelope); ok {
		message = envelope.Message
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
