package link

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// A task's cluster spec may be a part of the others': a worker may declare only itself and the parameter servers. A master
// whose spec contains such a worker uses it all the same, and has it exchange tensors with tasks that are not in the worker's
// spec. The worker learns their addresses from the tasks that are.

// roster contains the other tasks that have a link, or may get one, by name and by address as this task writes it. It is
// replaced, never modified.
type roster struct{ tasks, addresses map[string]*link }

func (r *roster) put(k *link) { r.tasks[k.task.Name()], r.addresses[k.task.Address] = k, k }

const (
	// maxLearned bounds the tasks that are learned from others.
	maxLearned = 1 << 12
	// askLearned bounds the tasks that are asked for an unknown one.
	askLearned = 16
)

// link returns another task's link, or nil if the task is not known.
func (l *Links) link(task string) *link { return l.roster.Load().tasks[task] }

// TaskAt returns the task with the given address, as this task writes it.
func (l *Links) TaskAt(address string) (spec.Task, bool) {
	if k := l.roster.Load().addresses[address]; k != nil {
		return k.task, true
	}
	return spec.Task{}, false
}

// caller returns the link of a task that says hello. It may not be registered yet, and the caller is not authenticated yet.
func (l *Links) caller(ctx context.Context, from *wire.Identity) (*link, error) {
	if from.GetTask() == l.self.Task {
		return nil, status.Errorf(status.FailedPrecondition, "%s opened a link to itself.", Describe(from))
	}
	k := l.link(from.GetTask())
	if k != nil && (k.declared || k.task.Address == from.GetAddress() || k.used()) {
		return k, nil
	}
	return l.learn(ctx, from.GetTask(), from)
}

// used reports whether the task has a link.
func (k *link) used() bool { return k.own.Load() != nil || k.accepted.Load() != nil }

// register adds a task's link to the roster and returns it, or the registered one if that stays.
func (l *Links) register(k *link) (*link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.roster.Load()
	old := now.tasks[k.task.Name()]
	if old == k || old != nil && (old.declared || old.task.Address == k.task.Address || old.used()) {
		return old, nil
	}
	if other := now.addresses[k.task.Address]; other != nil && other != old || k.task.Address == l.self.Address {
		return nil, status.Errorf(status.FailedPrecondition, "%s cannot have a link to %v: another task has that address in its cluster spec, %v.", Describe(l.self), k.task, l.config.Spec)
	}
	if old == nil && len(now.tasks)-l.config.Spec.Len() >= maxLearned {
		return nil, status.Errorf(status.ResourceExhausted, "%s has links to %d tasks that its cluster spec does not have, which is the limit: start it with the whole spec.", l.self.Task, maxLearned)
	}
	next := &roster{maps.Clone(now.tasks), maps.Clone(now.addresses)}
	if old != nil { // it has moved
		delete(next.addresses, old.task.Address)
	}
	next.put(k)
	l.roster.Store(next)
	return k, nil
}

// learn finds a task that is not in the cluster spec. It looks in the specs of the tasks that are and registers what it finds.
// Otherwise it may use what caller, which may be nil, says of itself, without registering it. ctx and timing.Handshake bound it.
func (l *Links) learn(ctx context.Context, task string, caller *wire.Identity) (*link, error) {
	ctx, cancel := distance.Within(ctx, l.timing.Handshake)
	defer cancel()
	found, asked := l.askFor(ctx, task)
	if found != nil {
		return l.register(&link{links: l, task: *found})
	}
	switch {
	case caller != nil && l.config.Strangers && declares(caller, l.self.Task):
		job, index, err := spec.ParseTaskName(task)
		return &link{links: l, task: spec.Task{Job: job, Index: index, Address: caller.GetAddress()}}, err
	case caller != nil && asked == 0:
		return nil, status.Errorf(status.Unavailable, "%s does not know %s yet: its cluster spec, %v, does not have that task, and none of the tasks that it has answers.", l.self.Task, Describe(caller), l.config.Spec)
	case caller != nil:
		return nil, status.Errorf(status.FailedPrecondition, "%s turns %s away: its cluster spec, %v, does not have that task, nor do the specs of the tasks that it has.", Describe(l.self), Describe(caller), l.config.Spec)
	}
	return nil, status.InvalidArgumentf("%s is not a task of the cluster %v, nor is it declared by one of its tasks", task, l.config.Spec)
}

// declares reports whether a process's spec contains a task.
func declares(id *wire.Identity, task string) bool {
	s, err := spec.Parse(id.GetSpec())
	if err != nil {
		return false
	}
	_, ok := s.ByName(task)
	return ok
}

// askFor asks declared tasks for their specs until one contains the task. asked is the number of tasks that answered.
func (l *Links) askFor(ctx context.Context, task string) (found *spec.Task, asked int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	declared := slices.DeleteFunc(l.config.Spec.Tasks(), func(t spec.Task) bool { return t == l.config.Self })
	rand.Shuffle(len(declared), func(i, j int) { declared[i], declared[j] = declared[j], declared[i] })
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, t := range declared[:min(len(declared), askLearned)] {
		all.Go(func() { // bounded by ctx
			id, err := l.Greet(ctx, t)
			if err != nil {
				return
			}
			theirs, err := spec.Parse(id.GetSpec())
			mu.Lock()
			defer mu.Unlock()
			asked++
			if err != nil || found != nil {
				return
			}
			if there, ok := theirs.ByName(task); ok {
				found = &there
				cancel()
			}
		})
	}
	all.Wait()
	return found, asked
}
