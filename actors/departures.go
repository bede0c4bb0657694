package actors

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// A task that leaves in order hands its homes over to another one. Open sessions of other masters follow: a step that begins meanwhile and whose
// session uses a home there waits until the homes have moved, and then the session's graph is placed anew. A step that has begun before goes
// on, and so does one that uses something else.

// departures are the tasks that leave and whose homes move.
type departures struct {
	changes atomic.Uint64 // how many have begun and ended

	mu    sync.Mutex // guards tasks: steps of all sessions look on their own goroutines
	tasks map[string]chan struct{}
}

// maxDepartures bounds the tasks that leave at once.
const maxDepartures = 1 << 12

const (
	// announceTime bounds the wait for another task to know that this one leaves, or has left.
	announceTime = 2 * time.Second
	// departureTime bounds how long a step waits for homes to move. A task that gives its running steps more time than that to end hands its homes
	// over later, and refuses the steps that come until then.
	departureTime = 30 * time.Second
)

// begin records that a task leaves.
func (d *departures) begin(task string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[task] != nil || len(d.tasks) >= maxDepartures {
		return
	}
	if d.tasks == nil {
		d.tasks = map[string]chan struct{}{}
	}
	d.tasks[task] = make(chan struct{})
	d.changes.Add(1)
}

// end records that the homes of a task have moved, or will not.
func (d *departures) end(task string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.tasks[task]; left != nil {
		delete(d.tasks, task)
		d.changes.Add(1)
		close(left)
	}
}

// of returns a channel that is closed when the departure of a task ends; nil if the task does not leave.
func (d *departures) of(task string) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.tasks[task]; left != nil {
		return left
	}
	return nil
}

// leaves handles the announcement that a task leaves. It is answered when the steps that have begun before have sent the task their parts: it
// takes no others from then on.
func (t *Task) leaves(task string, sender *actor.PID) {
	t.departures.begin(task)
	t.answerAfter(task, sender, (*step).areSent)
}

// left handles the news of what a task that leaves has handed over. It is answered when the steps that the task has done its part of are over, or
// else the end of the link could break them.
func (t *Task) left(task string, sender *actor.PID) {
	t.departures.end(task)
	t.answerAfter(task, sender, (*step).isDone)
}

// answerAfter answers a task that leaves when the steps of this task's sessions that have a part there have reached what state returns, or are over.
// It does not wait for long.
func (t *Task) answerAfter(task string, sender *actor.PID, state func(*step) <-chan struct{}) {
	t.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, announceTime/2) // the other task waits as long for the answer
		defer cancel()
		for _, st := range t.steps.mastered() {
			if st.plan.remote[task] == nil {
				continue
			}
			select {
			case <-state(st):
			case <-st.isDone():
			case <-ctx.Done():
			}
		}
		t.System.Root.Send(sender, &wire.Done{})
	})
}

// areSent returns a channel that is closed when all other tasks have been asked to run their parts.
func (st *step) areSent() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sent.wait()
}

// allSent records that all other tasks have been asked to run their parts, or that one could not be.
func (st *step) allSent() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sent.set()
}

// departure is the leave of this task, as long as others wait for it.
type departure struct {
	task  *Task
	mu    sync.Mutex // guards the rest: tasks are told side by side
	told  []string
	holds []func()
}

// announce tells the other tasks that this one leaves, if it has homes to hand over, so that their sessions wait for them. It returns nil if it
// has none. Of a large cluster, those are told that have a link with this task; others ask when they need to.
func (t *Task) announce(ctx context.Context) *departure {
	if !t.hasHomes() || ctx.Err() == context.Canceled {
		return nil
	}
	d := &departure{task: t}
	var others []string
	for _, task := range t.Cluster.Tasks() {
		if task != t.name && !t.Cluster.Down(task) && t.Cluster.Known(task) != nil {
			others = append(others, task)
		}
	}
	if len(others) > maxAsked {
		others = slices.DeleteFunc(others, func(task string) bool { return t.Cluster.Reached(task) == nil })
	}
	d.tell(ctx, others, &wire.Leaves{Task: t.name}, func(ctx context.Context, task string) error {
		p, err := t.Cluster.Peer(ctx, task)
		if err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.told, d.holds = append(d.told, task), append(d.holds, p.Hold()) // the end of the link would end the wait
		return nil
	})
	return d
}

// tell has the directories of tasks know something, and waits for them for a bounded time, whatever is left of ctx. before is called first.
func (d *departure) tell(ctx context.Context, tasks []string, message any, before func(ctx context.Context, task string) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTime)
	defer cancel()
	// Each task is another one's concern: that one could not be told is logged below, and does not end the leave.
	_ = parallel(ctx, tasks, func(ctx context.Context, task string) error {
		err := before(ctx, task)
		if err == nil {
			_, err = ask[*wire.Done](ctx, d.task, task, directoryName, message)
		}
		if err != nil {
			d.task.Log.Warn("a task was not told that this one leaves: steps of its sessions may fail", "task", task, "error", err)
		}
		return nil
	})
}

// over tells the other tasks what has moved. d may be nil.
func (d *departure) over(ctx context.Context, moved []*wire.Resource) {
	if d == nil {
		return
	}
	d.tell(ctx, d.told, &wire.Left{Task: d.task.name, Moved: moved}, func(context.Context, string) error { return nil })
	for _, release := range d.holds {
		release()
	}
}

// text is the end of the error of steps that are cancelled since the task leaves. d may be nil.
func (d *departure) text() string {
	if d == nil {
		return ""
	}
	return ", and the resources that live there and belong to the cluster move to another task: run the step again"
}

// homes is where the named resources live that a session's graph uses and that belong to the cluster. It is not changed.
type homes map[resourceName]string

// tasks returns the tasks that have some of the homes.
func (h homes) tasks() map[string]bool {
	tasks := map[string]bool{}
	for _, device := range h {
		tasks[taskOf(device)] = true
	}
	return tasks
}

// upToDate reports whether the session has followed all homes that have moved. It takes no lock, since each step calls it.
func (s *Session) upToDate() bool {
	return s.followed.Load() == s.task.departures.changes.Load() || s.homes.Load() == nil
}

// follow waits for the homes of the session that are about to move, within a bound, and has the graph placed anew if some have moved.
func (s *Session) follow(ctx context.Context) error {
	for !s.upToDate() {
		changes, homes := s.task.departures.changes.Load(), s.homes.Load()
		if s.closed.Load() {
			return errClosed()
		}
		if err := s.awaitHomes(ctx, homes.tasks()); err != nil {
			return err
		}
		moved, err := s.moved(ctx, *homes)
		if err == nil && len(moved) > 0 {
			err = s.apply(ctx, &change{message: &wire.MoveHomes{}, moved: moved})
		}
		if ctx.Err() != nil {
			return status.From(ctx.Err())
		}
		if err != nil { // steps that need what has moved fail, and others go on
			s.task.Log.Warn("a session cannot follow resources that have moved", "session", s.name(), "resources", len(moved), "error", err)
		}
		s.followed.Store(changes)
		if s.homes.Load() != homes {
			s.followed.Store(0) // it has others by now
		}
	}
	return nil
}

// awaitHomes waits for those of the tasks that leave. An error is that of ctx, or of the session's end.
func (s *Session) awaitHomes(ctx context.Context, tasks map[string]bool) error {
	var leaving []string
	var left []<-chan struct{}
	for _, task := range sortedKeys(tasks) {
		if l := s.task.departures.of(task); l != nil {
			leaving, left = append(leaving, task), append(left, l)
		}
	}
	if len(left) == 0 {
		return nil
	}
	s.task.Log.Info("a step waits for resources that its session uses, since they move", "session", s.name(), "from", leaving)
	limit := time.NewTimer(departureTime)
	defer limit.Stop()
	for _, l := range left {
		select {
		case <-l:
		case <-limit.C:
			return nil
		case <-s.idle:
			return errClosed()
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
	return nil
}

// moved returns those of the homes that have moved, with where they are. What was lost with its home has not moved.
func (s *Session) moved(ctx context.Context, have homes) (homes, error) {
	q := &wire.Known{}
	for n := range have {
		q.Resources = append(q.Resources, &wire.Resource{Container: n.container, Kind: n.kind, Name: n.name})
	}
	answer, err := ask[*wire.Homes](ctx, s.task, s.task.name, directoryName, q)
	if err != nil {
		return nil, err
	}
	moved := homes{}
	for _, r := range answer.Resources {
		if n := nameOf(r); have[n] != r.Device {
			moved[n] = r.Device
		}
	}
	return moved, nil
}

// placeMoved places the session's graph for homes that have moved. Nodes with state that live elsewhere stay, and so do those that call functions
// of a program.
func (s *Session) placeMoved(ctx context.Context, m *change, check func() error) error {
	g, all := s.graph.Load(), maps.Clone(*s.homes.Load())
	from := map[string]bool{} // devices
	for n, device := range m.moved {
		if was, used := all[n]; used && was != device {
			from[was], all[n] = true, device
		}
	}
	if len(from) == 0 {
		return nil // another step was first
	}
	if _, err := s.learnDevices(); err != nil {
		return err
	}
	programs := lower.NewPrograms(g.Library, kernels.CallsProgram, check)
	stay := map[*graph.Node]bool{}
	for _, n := range g.Nodes {
		if n.Def != nil && !n.Def.IsStateful {
			continue
		}
		calls, err := programs.Calls(n)
		if err != nil {
			return err
		}
		stay[n] = calls || !from[n.Assigned]
	}
	p := s.placing(ctx, programs, check)
	p.homes = all
	p.options.Home = p.known
	anew, err := p.again(g, func(n *graph.Node) bool { return stay[n] })
	if err != nil {
		return err
	}
	m.graph, m.version, m.homes, m.left = anew, s.version, &all, map[string]bool{}
	for device := range from {
		m.left[taskOf(device)] = true
	}
	return nil
}
