package containers

import (
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
)

// errEnded says that a container was cleared before it took a request, which then belongs to
// the container of that name that comes after it.
var errEnded = errors.New("the container was cleared")

// shell runs a store's messages one after the other.
type shell interface {
	// ask gives the store's answer, waiting for at most that long.
	ask(m message, wait time.Duration) answer
	// end closes all resources and refuses what comes later with errEnded.
	end(wait time.Duration) ([]Resource, error)
}

// locked is the shell of a container that lives as long as a step, and of managers without an
// actor system: a mutex, nothing to start or stop.
type locked struct {
	mu    sync.Mutex
	ended bool
	store *store
}

func (l *locked) ask(m message, _ time.Duration) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return answer{err: errEnded}
	}
	return m.apply(l.store)
}

func (l *locked) end(time.Duration) ([]Resource, error) {
	l.mu.Lock()
	l.ended = true // the store is this goroutine's alone now
	l.mu.Unlock()
	return l.store.drain()
}

// failClosed stops a container's actor at a panic, where the library's own strategy would start
// it again with an empty store.
var failClosed = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// acting is the shell of a container that clients name: an actor.
type acting struct {
	system *actor.ActorSystem
	pid    *actor.PID
	// gone is closed when the actor has stopped. What it stands before is written by the actor
	// alone until then and read by others only after it.
	gone   chan struct{}
	store  *store
	closed []Resource
	err    error // of closing them
	failed error // why the actor stopped when nobody asked it to
}

type request struct {
	message
	reply chan answer // buffered: the container never waits for the one who asked
}

func spawn(system *actor.ActorSystem, s *store) *acting {
	a := &acting{system: system, store: s, gone: make(chan struct{})}
	props := actor.PropsFromFunc(a.receive, actor.WithGuardian(failClosed))
	a.pid = system.Root.SpawnPrefix(props, "container")
	return a
}

func (a *acting) receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *request:
		a.serve(m)
	case *actor.Stopping:
		a.closed, a.err = a.store.drain()
	case *actor.Stopped:
		close(a.gone)
	}
}

// serve answers a request, also when it panics; the panic then goes on to the supervisor.
func (a *acting) serve(m *request) {
	defer func() {
		if p := recover(); p != nil {
			err := status.Internalf("The container %s panicked: %v\n%s", a.store.container, p, debug.Stack())
			a.failed = err
			m.reply <- answer{err: err}
			panic(p)
		}
	}()
	m.reply <- m.apply(a.store)
}

func (a *acting) ask(m message, wait time.Duration) answer {
	r := &request{m, make(chan answer, 1)}
	a.system.Root.Send(a.pid, r)
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case got := <-r.reply:
		return got
	case <-a.gone:
	case <-limit.C:
		return answer{err: status.Errorf(status.DeadlineExceeded, "The container %s did not answer within %v.", a.store.container, wait)}
	}
	select {
	case got := <-r.reply: // the actor's last deed
		return got
	default:
	}
	if a.failed != nil {
		return answer{err: status.Errorf(status.Aborted, "The container %s failed, its resources are lost: %v", a.store.container, a.failed)}
	}
	return answer{err: errEnded}
}

func (a *acting) end(wait time.Duration) ([]Resource, error) {
	a.system.Root.Poison(a.pid)
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-a.gone:
		return a.closed, a.err
	case <-limit.C:
		return nil, status.Errorf(status.DeadlineExceeded, "The container %s did not stop within %v.", a.store.container, wait)
	}
}
