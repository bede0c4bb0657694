package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
)

// Tasks of a cluster start one after the other, perhaps minutes apart. A change of a session that needs a task which has never been seen
// fails at once with unseen, so that it neither holds up the session's other changes nor keeps its turn of the processors. apply waits for
// the task, and then makes the change anew.

// unseen is the error of work that needs tasks which have never been seen and are still expected.
type unseen struct {
	tasks []string
	// node requests device, which one of the tasks may have; nil if all tasks are needed.
	node   *graph.Node
	device string
}

// Error names the tasks.
func (e *unseen) Error() string { return "never seen: " + strings.Join(e.tasks, ", ") }

// unseen returns an error that wraps those of the tasks that have never been seen and are still expected; nil if there are none.
func (t *Task) unseen(tasks []string) error {
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(task string) bool { return task == t.name || !t.Cluster.Unseen(task) })
	if len(tasks) == 0 {
		return nil
	}
	return &unseen{tasks: tasks}
}

// missingDevices returns an unseen error if a node requests a device that no known task has, but that tasks which have never been seen and
// are still expected may have. If the session learns of such a device, the error has no tasks: the change is made anew at once.
func (s *Session) missingDevices(nodes []*graph.Node) error {
	looked := map[string]bool{"": true}
	learns := true
	for _, n := range nodes {
		if looked[n.Requested] {
			continue
		}
		looked[n.Requested] = true
		spec, err := place.Parse(n.Requested)
		if err != nil || spec.Job == "" || spec.Type == "" && spec.Index < 0 || s.has(spec) {
			continue // a device without a job is the master's own
		}
		if learns {
			learns = false
			if more, err := s.learnDevices(); err != nil {
				return err
			} else if more {
				return &unseen{node: n, device: n.Requested}
			}
		}
		tasks, err := s.mayHave(spec)
		if err != nil {
			return err
		}
		var missing *unseen
		if err := s.task.unseen(tasks); errors.As(err, &missing) {
			missing.node, missing.device = n, n.Requested
			return missing
		}
	}
	return nil
}

// has reports whether the session has a device that a request matches.
func (s *Session) has(spec place.Spec) bool {
	return slices.ContainsFunc(s.devices.Load().Devices(), func(d place.Device) bool { return spec.Matches(d.Spec) })
}

// learnPrograms updates the session's devices if a node calls functions of a program: which tasks have some may have become known, or
// changed, since. If the session learns something, the error has no tasks: the change is made anew at once.
func (s *Session) learnPrograms(nodes []*graph.Node, programs *lower.Programs) error {
	if len(s.devices.Load().Devices()) == 1 {
		return nil
	}
	for _, n := range nodes {
		calls, err := programs.Calls(n)
		if err != nil {
			return status.AtNode(err, n.Name)
		}
		if !calls {
			continue
		}
		if more, err := s.learnDevices(); err != nil || !more {
			return err
		}
		return &unseen{node: n}
	}
	return nil
}

// learnDevices adds the devices that have become known since the session's were, and what has become known of their functions. It reports
// whether there was anything.
func (s *Session) learnDevices() (bool, error) {
	known, err := s.task.placeable(s.options.filters)
	if err != nil {
		return false, err
	}
	all := slices.Clone(s.devices.Load().Devices())
	at := make(map[string]int, len(all))
	for i, d := range all {
		at[d.Name] = i
	}
	learned := false
	for _, d := range known {
		switch i, have := at[d.Name]; {
		case !have:
			all, learned = append(all, d), true
		case all[i].Functions != d.Functions:
			all[i].Functions, learned = d.Functions, true
		}
	}
	if !learned {
		return false, nil
	}
	prepared, err := place.Prepare(all)
	if err != nil {
		return false, err
	}
	s.devices.Store(prepared)
	return true, nil
}

// mayHave returns the declared tasks that may have a device which a request matches, as far as the session's filters let it be used.
func (s *Session) mayHave(spec place.Spec) ([]string, error) {
	var possible []place.Device
	for _, task := range s.task.Cluster.Tasks() {
		d, err := place.NewDevice(fmt.Sprintf("%s/device:%s:%d", task, cmp.Or(spec.Type, "CPU"), max(spec.Index, 0)), false)
		if err != nil {
			return nil, err
		}
		if spec.Matches(d.Spec) {
			possible = append(possible, d)
		}
	}
	possible, err := place.FilterDevices(possible, s.options.filters, s.task.name)
	if err != nil {
		return nil, err
	}
	tasks := make([]string, len(possible))
	for i, d := range possible {
		tasks[i] = taskOf(d.Name)
	}
	return tasks, nil
}

// apply has the actor make a change, and waits for it or for ctx, and for the tasks that have never been seen and that the change needs.
// After an error, the work may still be in progress, and its results must not be read.
func (s *Session) apply(ctx context.Context, m *change) error {
	for {
		err := s.applyOnce(ctx, m)
		var missing *unseen
		if !errors.As(err, &missing) {
			return err
		}
		if err := s.awaitMissing(ctx, missing); err != nil {
			return err
		}
	}
}

// awaitMissing waits for the tasks of an error: for all of them or, if a node requests a device that one may have, for the first.
func (s *Session) awaitMissing(ctx context.Context, missing *unseen) error {
	switch {
	case missing.node == nil:
		return s.await(ctx, missing.tasks)
	case len(missing.tasks) == 0:
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(missing.tasks))
	for _, task := range missing.tasks {
		contain.Go(s.task.Log, "The wait for "+task, func() { // ends with ctx
			ended <- s.await(ctx, []string{task})
		}, func(err error) { ended <- err })
	}
	var err error
	for range missing.tasks {
		e := <-ended
		if e == nil {
			return nil
		}
		err = cmp.Or(err, e)
	}
	n := missing.node
	return status.AtNode(status.Errorf(status.CodeOf(err), "Cannot assign a device for operation %s, which requests %s: %s", n.Name, missing.device, err.Error()), n.Name)
}

// await waits for tasks that have never been seen.
func (s *Session) await(ctx context.Context, tasks []string) error {
	ctx, cancel := context.WithCancel(view.Await(ctx, "session "+s.name()))
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	defer s.awaits.add(tasks)()
	err := parallel(ctx, tasks, func(ctx context.Context, task string) error {
		_, err := s.task.Cluster.Peer(ctx, task)
		return err
	})
	if err != nil && s.life.Err() != nil {
		return errClosed()
	}
	return err
}

// awaits are the tasks that a session waits for, and how many of its calls do.
type awaits struct {
	mu    sync.Mutex // guards the fields below: calls of the session's clients add to them
	tasks map[string]int
	since time.Time
}

// add counts a call that waits, until done is called.
func (a *awaits) add(tasks []string) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tasks) == 0 {
		a.tasks, a.since = map[string]int{}, time.Now()
	}
	for _, task := range tasks {
		a.tasks[task]++
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, task := range tasks {
			if a.tasks[task]--; a.tasks[task] == 0 {
				delete(a.tasks, task)
			}
		}
	}
}

// look returns the tasks in order, and since when a call waits in nanoseconds since 1970; 0 without one.
func (a *awaits) look() (tasks []string, since int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tasks) == 0 {
		return nil, 0
	}
	return sortedKeys(a.tasks), a.since.UnixNano()
}
