package roles

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/extensions"
)

// registry is a system's list of roles, and their supervisor.
type registry struct {
	mu    sync.Mutex
	roles map[string]*Ref
	ended map[string]*KindStatus // by kind, for actors that have ended
}

var (
	registryID = extensions.NextExtensionID()
	registries sync.Mutex // held to find or add a system's registry
)

var (
	_ actor.SupervisorStrategy = (*registry)(nil)
	_ extensions.Extension     = (*registry)(nil)
)

// ExtensionID returns the registry's ID among the system's extensions.
func (*registry) ExtensionID() extensions.ExtensionID { return registryID }

func registryOf(system *actor.ActorSystem) *registry {
	registries.Lock()
	defer registries.Unlock()
	if g, ok := system.Extensions.Get(registryID).(*registry); ok {
		return g
	}
	g := &registry{roles: map[string]*Ref{}, ended: map[string]*KindStatus{}}
	system.Extensions.Register(g)
	return g
}

func (g *registry) add(r *Ref) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.roles[r.spec.Name] != nil {
		return false
	}
	g.roles[r.spec.Name] = r
	return true
}

func (g *registry) remove(r *Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.roles[r.spec.Name] != r {
		return
	}
	delete(g.roles, r.spec.Name)
	k := g.ended[r.spec.Kind]
	if k == nil {
		k = &KindStatus{Kind: r.spec.Kind}
		g.ended[k.Kind] = k
	}
	s := r.status()
	k.Handled += s.Handled
	k.Panics += s.Panics
}

// HandleFailure decides what a panic ends: only the message, or the actor with its state.
func (g *registry) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, _, _ any) {
	g.mu.Lock()
	r := g.roles[child.Id]
	g.mu.Unlock()
	if r == nil || r.spec.FailClosed {
		supervisor.StopChildren(child)
		return
	}
	supervisor.ResumeChildren(child)
}

// Status describes an actor of a system.
type Status struct {
	Name, Kind string
	// State is "idle" or "running", or "suspended" after a panic until the supervisor has decided or the actor restarts.
	State string
	// Handled, Panics and Restarts are counts since the actor was spawned; Waiting is the number of messages that wait now.
	Handled, Panics, Restarts uint64
	Waiting                   int
	// Since is when the actor was spawned.
	Since time.Time
}

// List returns a system's roles, sorted by kind and name. It does not wait for any actor.
func List(system *actor.ActorSystem) []Status {
	g := registryOf(system)
	g.mu.Lock()
	all := make([]Status, 0, len(g.roles))
	for _, r := range g.roles {
		all = append(all, r.status())
	}
	g.mu.Unlock()
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// KindStatus sums up the actors of a kind: how many there are, how many messages wait for them, and what all of them, including ended ones,
// have handled.
type KindStatus struct {
	Kind                      string
	Actors, Waiting           int
	Handled, Panics, Restarts uint64
}

// Add adds a live actor.
func (k *KindStatus) Add(s Status) {
	k.Actors++
	k.Waiting += s.Waiting
	k.Handled += s.Handled
	k.Panics += s.Panics
	k.Restarts += s.Restarts
}

// Kinds sums up a system's roles by kind, sorted by kind. It does not wait for any actor.
func Kinds(system *actor.ActorSystem) []KindStatus {
	g := registryOf(system)
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[string]*KindStatus{}
	for kind, ended := range g.ended {
		all[kind] = new(*ended)
	}
	for _, r := range g.roles {
		if all[r.spec.Kind] == nil {
			all[r.spec.Kind] = &KindStatus{Kind: r.spec.Kind}
		}
		all[r.spec.Kind].Add(r.status())
	}
	return sorted(all)
}

func sorted(all map[string]*KindStatus) []KindStatus {
	out := make([]KindStatus, 0, len(all))
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[kind])
	}
	return out
}

func (r *Ref) status() Status {
	m := r.mailbox
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{Name: r.spec.Name, Kind: r.spec.Kind, State: "idle", Handled: m.handled, Panics: m.panics, Waiting: m.user.len(), Since: r.since}
	switch {
	case m.suspended:
		s.State = "suspended"
	case m.running:
		s.State = "running"
	}
	return s
}
