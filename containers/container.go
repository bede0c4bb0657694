package containers

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers/internal/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/roles"
	"google.golang.org/protobuf/proto"
)

// errEnded means that a container was cleared before it accepted a request. The request then belongs to the next container of that name.
var errEnded = errors.New("the container was cleared")

// container runs a store's messages one at a time.
type container interface {
	// ask returns the store's answer. It waits up to the given time.
	ask(r *request, wait time.Duration) answer
	// end closes all resources and refuses later requests with errEnded.
	end(wait time.Duration) drained
}

// request is a message of a container's protocol with the values that accompany it. newRequest returns one.
type request struct {
	message proto.Message
	create  create
	cell    *durable.Cell // where the state of the resource that create makes is already; nil for a new one
	reply   chan answer   // for an actor; buffered for its one answer, so the container never waits for the caller

	// Storage for small and frequent messages; message then points to one of these.
	lookupOrCreate wire.LookupOrCreate
	lookup         wire.Lookup
}

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest() *request { return requests.Get().(*request) }

// free returns a request for reuse. If it was sent, its answer must have been received.
func (r *request) free() {
	r.message, r.create, r.cell, r.reply = nil, nil, nil, nil
	r.lookupOrCreate.Kind, r.lookupOrCreate.Name = "", ""
	r.lookup.Kind, r.lookup.Name = "", ""
	requests.Put(r)
}

// plain is a container behind a mutex, with nothing to start or stop. It serves steps, whose containers are part of the step and have no
// public name, and managers without an actor system.
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
	return p.store.serve(r.message, r.create, r.cell)
}

func (p *plain) end(time.Duration) drained {
	p.mu.Lock()
	p.ended = true // from here on only this goroutine uses the store
	p.mu.Unlock()
	return p.store.drain()
}

// role is a container that clients can name: an actor. It stops after a panic, since continuing with the remaining state would hide the
// loss.
type role struct {
	self    *roles.Ref
	store   *store    // used by the actor only
	replies sync.Pool // of reply channels
	// gone is closed when the actor has stopped. Until then only the actor writes the next field; others read it only afterwards.
	gone chan struct{}
	last drained
	// failed is why the actor stopped without a request.
	failed error
}

// spawned numbers the containers of the process: a new container may start while one of the same name is being cleared.
var spawned atomic.Uint64

// spawn starts the actor of a container on a device.
func spawn(system *actor.ActorSystem, device string, s *store) (*role, error) {
	a := &role{store: s, gone: make(chan struct{}), replies: sync.Pool{New: func() any { return make(chan answer, 1) }}}
	var err error
	a.self, err = roles.Spawn(system, roles.Spec{Name: containerName(device, s.container, spawned.Add(1)), Kind: "container",
		Receive: a.Receive, Refuse: a.refuse, FailClosed: true})
	return a, err
}

// Receive handles the actor's messages.
func (a *role) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *request:
		m.reply <- a.store.serve(m.message, m.create, m.cell)
	case *actor.Stopping:
		a.last = a.store.drain()
	case *actor.Stopped:
		close(a.gone)
	}
}

// refuse answers a request whose handling panicked, or that arrived after the actor had stopped.
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
	reply := a.replies.Get().(chan answer)
	r.reply = reply
	answered := func(got answer) answer {
		r.free()
		a.replies.Put(reply)
		return got
	}
	a.self.Send(r)
	select {
	case got := <-reply:
		return answered(got)
	default: // other requests are served first
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case got := <-reply:
		return answered(got)
	case <-limit.C:
		return answer{err: status.Errorf(status.DeadlineExceeded, "The container %s did not answer within %v.", a.store.container, wait)}
	}
}

func (a *role) end(wait time.Duration) drained {
	a.self.Stop()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-a.gone:
		return a.last
	case <-limit.C:
		return drained{err: status.Errorf(status.DeadlineExceeded, "The container %s did not stop within %v.", a.store.container, wait)}
	}
}
