package actors

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// inlet is an address of the task without a mailbox: a message is handled by the goroutine that
// brings it, which for one of another task is that which reads from the link. So a step across tasks
// wakes nobody on its way. The messages of one sender are handled in order, those of several at the
// same time. What takes long or waits is given to the crew.
type inlet struct {
	task    *Task
	receive func(message any, sender *actor.PID)

	mu     sync.Mutex
	busy   int
	closed bool
	idle   chan struct{} // closed when closed and nothing is being handled
}

var _ actor.Process = (*inlet)(nil)

// newInlet registers an inlet under a name.
func (t *Task) newInlet(name string, receive func(message any, sender *actor.PID)) (*inlet, *actor.PID, error) {
	in := &inlet{task: t, receive: receive, idle: make(chan struct{})}
	pid, fresh := t.System.ProcessRegistry.Add(in, name)
	if !fresh {
		return nil, nil, status.Internalf("There is a %s already on %s", name, t.name)
	}
	return in, pid, nil
}

// SendUserMessage handles a message. A panic is logged and costs that message alone.
func (in *inlet) SendUserMessage(_ *actor.PID, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	if !in.enter() {
		if p, ok := m.(*wire.Parcel); ok {
			p.Release()
		}
		return
	}
	defer in.leave()
	defer func() {
		if p := recover(); p != nil {
			in.task.Log.Error("a message's handling panicked", "message", typeName(m), "panic", p, "stack", stack())
		}
	}()
	in.receive(m, sender)
}

// SendSystemMessage does nothing: an inlet is neither watched nor supervised.
func (in *inlet) SendSystemMessage(*actor.PID, any) {}

// Stop does nothing: an inlet is closed by its task.
func (in *inlet) Stop(*actor.PID) {}

func (in *inlet) enter() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	in.busy++
	return true
}

func (in *inlet) leave() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy--
	if in.closed && in.busy == 0 {
		close(in.idle)
	}
}

// inletPatience is how long close waits for what is being handled, which takes next to no time.
const inletPatience = 2 * time.Second

// close drops what comes from now on, and waits for what is being handled.
func (in *inlet) close() error {
	in.mu.Lock()
	if !in.closed {
		in.closed = true
		if in.busy == 0 {
			close(in.idle)
		}
	}
	in.mu.Unlock()
	limit := time.NewTimer(inletPatience)
	defer limit.Stop()
	select {
	case <-in.idle:
		return nil
	case <-limit.C:
		return status.Errorf(status.DeadlineExceeded, "Messages to %s were still being handled", in.task.name)
	}
}
