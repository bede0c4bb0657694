package containers

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers/internal/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/roles"
	"google.golang.org/protobuf/proto"
)

// errEnded says that a container was cleared before it took a request, which then belongs to
// the container of that name that comes after it.
var errEnded = errors.New("the container was cleared")

// container runs a store's messages one after the other.
type container interface {
	// ask gives the store's answer, waiting for at most that long.
	ask(r *request, wait time.Duration) answer
	// end closes all resources and refuses what comes later with errEnded.
	end(wait time.Duration) ([]Resource, error)
}

// request is a message of a container's protocol with what lies beside it. The one who asks takes it from
// newRequest.
type request struct {
	message proto.Message
	create  create
	reply   chan answer // has room for the one answer: the container never waits for the one who asked

	// What message points to where the message is small and frequent.
	lookupOrCreate wire.LookupOrCreate
	lookup         wire.Lookup
}

var requests = sync.Pool{New: func() any { return &request{reply: make(chan answer, 1)} }}

func newRequest() *request { return requests.Get().(*request) }

// free lets a request be used again. Its answer has been received, if it was sent.
func (r *request) free() {
	r.message, r.create = nil, nil
	r.lookupOrCreate.Kind, r.lookupOrCreate.Name = "", ""
	r.lookup.Kind, r.lookup.Name = "", ""
	requests.Put(r)
}

// plain is the container of a step, which is part of that step and has no name that others know, and that of managers
// without an actor system: a mutex, nothing to start or stop.
type plain struct {
	mu    sync.Mutex
	ended bool
	store *store
}

func (p *plain) ask(r *request, _ time.Duration) answer {
	defer r.free()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return answer{err: errEnded}
	}
	return p.store.serve(r.message, r.create)
}

func (p *plain) end(time.Duration) ([]Resource, error) {
	p.mu.Lock()
	p.ended = true // the store is this goroutine's alone now
	p.mu.Unlock()
	return p.store.drain()
}

// role is a container that clients name: an actor. It stops at a panic, where going on with what is left of its state
// would look as if nothing was lost.
type role struct {
	self  *roles.Ref
	store *store // the actor's own
	// gone is closed when the actor has stopped. What stands next is written by the actor
	// alone until then and read by others only after it.
	gone   chan struct{}
	closed []Resource
	err    error // of closing them
	// failed is why the actor stopped when nobody asked it to.
	failed error
}

// spawned numbers the containers of the process: one of a name may be cleared while the next one is there.
var spawned atomic.Uint64

// spawn starts the actor of a container on a device.
func spawn(system *actor.ActorSystem, device string, s *store) (*role, error) {
	a := &role{store: s, gone: make(chan struct{})}
	var err error
	a.self, err = roles.Spawn(system, roles.Spec{Name: containerName(device, s.container, spawned.Add(1)), Kind: "container",
		Receive: a.Receive, Refuse: a.refuse, FailClosed: true})
	return a, err
}

// Receive is the container's behaviour.
func (a *role) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *request:
		m.reply <- a.store.serve(m.message, m.create)
	case *actor.Stopping:
		a.closed, a.err = a.store.drain()
	case *actor.Stopped:
		close(a.gone)
	}
}

// refuse answers a request whose handling panicked, or that came when the actor had stopped.
func (a *role) refuse(message any, cause error) {
	r, ok := message.(*request)
	var p *roles.Panic
	switch {
	case !ok:
	case errors.As(cause, &p):
		a.failed = status.Internalf("The container %s panicked: %v\n%s", a.store.container, p.Value, p.Stack)
		r.reply <- answer{err: a.failed}
	case a.failed != nil:
		r.reply <- answer{err: status.Errorf(status.Aborted, "The container %s failed, its resources are lost: %v", a.store.container, a.failed)}
	default:
		r.reply <- answer{err: errEnded}
	}
}

func (a *role) ask(r *request, wait time.Duration) answer {
	a.self.Send(r)
	select {
	case got := <-r.reply:
		r.free()
		return got
	default: // others are served first
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case got := <-r.reply:
		r.free()
		return got
	case <-limit.C:
		return answer{err: status.Errorf(status.DeadlineExceeded, "The container %s did not answer within %v.", a.store.container, wait)}
	}
}

func (a *role) end(wait time.Duration) ([]Resource, error) {
	a.self.Stop()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-a.gone:
		return a.closed, a.err
	case <-limit.C:
		return nil, status.Errorf(status.DeadlineExceeded, "The container %s did not stop within %v.", a.store.container, wait)
	}
}
