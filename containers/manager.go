package containers

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/containers/internal/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/live"
	"github.com/troupe-run/troupe/internal/rights"
	"google.golang.org/protobuf/proto"
)

// Resource is anything that is held in a container. It may have a method Describe() string, for listings. If work continues after Close has
// returned, it has a method Done() <-chan struct{}: Clear and the manager's Close wait for that channel.
type Resource interface {
	// Close ends the resource when it leaves its container; pending operations on it fail. It is called once and must not block.
	Close()
}

// patience bounds every wait for a container. An answer takes microseconds. Only a create function that blocks, which is forbidden, comes
// near the bound.
const patience = 10 * time.Second

// Manager holds the containers of one device, with the rights of one caller. All methods may be called concurrently.
type Manager struct {
	*held
	rights *rights.Session // nil allows everything
	of     *Manager        // the Manager that For was called on, kept alive by this one
}

// held is the state that all Managers of the same containers share.
type held struct {
	system                   *actor.ActorSystem
	device, defaultContainer string

	mu         sync.Mutex // held to find or start a container, never while one works
	containers map[string]container
	closed     bool

	anonymous live.Names
	kept      *keeping // nil if no container is durable; set before the manager is used
}

// NewManager makes the containers of a device, as actors of system. The empty container name stands for defaultContainer. If system is nil,
// the containers are maps behind a mutex, which suffices for tests and the evaluation of constant subgraphs.
func NewManager(system *actor.ActorSystem, device, defaultContainer string) *Manager {
	return &Manager{held: &held{system: system, device: device, defaultContainer: defaultContainer, containers: map[string]container{}}}
}

// For returns the same containers with the rights of a session. Its Lookup, LookupOrCreate and Delete refuse containers that the session
// may not use.
func (m *Manager) For(r *rights.Session) *Manager { return &Manager{m.held, r, m} }

// Admit returns an error if a container may not be used; the empty name stands for the default container. Containers of steps are always
// admitted: a session can reach only those of its own steps.
func (m *Manager) Admit(container string) error {
	if m.rights == nil || IsStepName(container) {
		return nil
	}
	return m.rights.Container(container, m.defaultContainer)
}

// Restricted reports whether Admit may refuse a container.
func (m *Manager) Restricted() bool { return m.rights != nil }

// System returns the actor system of the containers, or nil. Resources that are actors are spawned there.
func (m *Manager) System() *actor.ActorSystem { return m.system }

// DefaultContainer returns the name that the empty container name stands for.
func (m *Manager) DefaultContainer() string { return m.defaultContainer }

// LookupOrCreate returns the resource of that container, kind and name. If there is none, it makes one with create. Each kind has its own
// names, as in TensorFlow. create runs once even if many callers ask at the same time. It must not block, nor call this manager. If it
// panics, the error is INTERNAL. A container whose actor has failed answers ABORTED until it is cleared. Names must be UTF-8, as handles
// and messages between tasks require.
func (m *Manager) LookupOrCreate(container, kind, name string, create func() (Resource, error)) (Resource, error) {
	if !utf8.ValidString(name) {
		return nil, status.InvalidArgumentf("the resource %q of the container %q cannot be made: names are UTF-8", name, m.resolve(container))
	}
	a := m.ask(container, func(r *request) {
		r.lookupOrCreate.Kind, r.lookupOrCreate.Name = kind, name
		r.message, r.create = &r.lookupOrCreate, create
	})
	return a.resource, a.err
}

// Lookup returns a resource, or NOT_FOUND.
func (m *Manager) Lookup(container, kind, name string) (Resource, error) {
	a := m.ask(container, func(r *request) {
		r.lookup.Kind, r.lookup.Name = kind, name
		r.message = &r.lookup
	})
	return a.resource, a.err
}

// Delete closes and removes a resource. It returns NOT_FOUND if there is none.
func (m *Manager) Delete(container, kind, name string) error {
	a := m.ask(container, func(r *request) { r.message = &wire.Remove{Kind: kind, Name: name} })
	if a.err != nil {
		return a.err
	}
	return errors.Join(closeGuarded(id{kind, name}, a.resource), await(a.dropped, patience))
}

// Clear closes and removes everything in a container, on disk too, and ends its actor. The next use starts with an empty container. The container of a
// step is cleared when all of the step's kernels are done. Clear waits until all resources of the container have ended, or fails with
// DEADLINE_EXCEEDED after a bounded time.
func (m *Manager) Clear(container string) error {
	container = m.resolve(container)
	m.mu.Lock()
	c, ok := m.containers[container]
	delete(m.containers, container)
	dropped := m.dropAll(container)
	m.mu.Unlock()
	if !ok {
		return await(dropped, patience)
	}
	deadline := time.Now().Add(patience)
	d, err := end(c, deadline)
	for _, cell := range d.cells {
		dropped = append(dropped, drop(cell)) // those that were made since, too
	}
	return errors.Join(err, await(dropped, time.Until(deadline)))
}

// Empty clears all containers except those of steps, which end with their step.
func (m *Manager) Empty() error {
	m.mu.Lock()
	var names []string
	for name := range m.containers {
		if !IsStepName(name) {
			names = append(names, name)
		}
	}
	m.mu.Unlock()
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		errs = append(errs, m.Clear(name))
	}
	return errors.Join(errs...)
}

// Close ends all containers and refuses new ones with ABORTED. What is durable stays on disk. It returns within seconds, with
// DEADLINE_EXCEEDED if a container or a resource has not ended by then.
func (m *Manager) Close() error {
	m.mu.Lock()
	all := m.containers
	m.containers, m.closed = map[string]container{}, true
	m.mu.Unlock()
	deadline := time.Now().Add(patience)
	var errs []error
	for _, c := range all {
		_, err := end(c, deadline) // durable state stays
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func end(c container, deadline time.Time) (drained, error) {
	last := c.end(time.Until(deadline))
	limit := time.NewTimer(time.Until(deadline))
	defer limit.Stop()
	for _, r := range last.closed {
		d, ok := r.(interface{ Done() <-chan struct{} })
		if !ok {
			continue
		}
		select {
		case <-d.Done():
		case <-limit.C:
			return last, cmp.Or(last.err, status.Errorf(status.DeadlineExceeded, "%s did not end in time.", Describe(r)))
		}
	}
	return last, last.err
}

// Entry is a resource in a listing. The resource may have been deleted since.
type Entry struct {
	Container, Kind, Name string
	Resource              Resource
}

// List returns what the containers hold, sorted by container, kind and name. A container that cannot answer is
// missing from the listing and named in the error.
func (m *Manager) List() ([]Entry, error) {
	m.mu.Lock()
	names := make([]string, 0, len(m.containers))
	for n := range m.containers {
		names = append(names, n)
	}
	m.mu.Unlock()
	slices.Sort(names)
	var out []Entry
	var errs []error
	for _, n := range names {
		a := m.ask(n, func(r *request) { r.message = &wire.List{} })
		if status.CodeOf(a.err) == status.NotFound { // cleared in the meantime
			continue
		}
		errs = append(errs, a.err)
		for i, f := range a.found.GetResources() {
			out = append(out, Entry{n, f.Kind, f.Name, a.listed[i]})
		}
	}
	return out, errors.Join(errs...)
}

func (m *Manager) resolve(container string) string {
	return cmp.Or(container, m.defaultContainer)
}

// ask sends a container the request that fill prepares.
func (m *Manager) ask(container string, fill func(r *request)) answer {
	if err := m.Admit(container); err != nil {
		return answer{err: err}
	}
	container = m.resolve(container)
	for {
		r := newRequest()
		fill(r)
		c, err := m.find(container, r.message)
		if err != nil {
			r.free()
			return answer{err: err}
		}
		// A container leaves the map before it ends, so the next round finds another one or none.
		if a := c.ask(r, patience); !errors.Is(a.err, errEnded) {
			return a
		}
	}
}

// find returns the container for a message, starting it if the message may create something.
func (m *Manager) find(name string, message proto.Message) (container, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.containers[name]; ok {
		return c, nil
	}
	switch msg := message.(type) {
	case *wire.Lookup:
		return nil, noContainer(name, msg.Name)
	case *wire.Remove:
		return nil, noContainer(name, msg.Name)
	case *wire.List:
		return nil, noContainer(name, "")
	}
	if m.closed {
		return nil, status.Errorf(status.Aborted, "The resources of device %s are closed.", m.device)
	}
	s := newStore(name, m.keepingOf(name))
	if m.system == nil || IsStepName(name) {
		c := &plain{store: s}
		m.containers[name] = c
		return c, nil
	}
	c, err := spawn(m.system, m.device, s)
	if err != nil {
		return nil, err
	}
	m.containers[name] = c
	return c, nil
}

func noContainer(container, name string) error {
	return status.Errorf(status.NotFound, "Container %s does not exist. (Could not find resource: %s/%s)", container, container, name)
}
