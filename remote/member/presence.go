package member

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/recent"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
)

// presence is the single source of what a member believes about the cluster's tasks: for the status, the events, and programs that watch
// tasks. It joins what links know, at once but only of some tasks, with what gossip knows, of all tasks but later.
//
// If a link was lost and gossip still believes in the process, the task counts as down. It is asked again until it answers, gossip has lost
// it as well, or another process has taken its place. Callers that need to know about a task now use find, which asks a task that does not
// count as up: at the start of a cluster, tasks are up before gossip has learned of them. While a program watches tasks, each task that is
// up has a link, in clusters of up to maxWatched tasks, so that a loss is noticed at once.
type presence struct {
	member *Member
	life   context.Context
	die    context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{} // capacity 1: something is pending
	ask    chan struct{} // a slot for each task that may be asked at the same time

	mu       sync.Mutex
	pending  map[string]struct{} // tasks whose state may have changed
	told     map[string]sighting
	probes   map[string]*probe // the last probe of each task that was asked
	watching bool              // a program watches tasks
}

// probe asks a task whether it is up.
type probe struct {
	done         chan struct{} // closed when the probe has ended
	began, ended time.Time
	exchange     context.Context // bounds it; nil until it begins
	err          error           // nil if the task is up
	rested       bool            // it has ended, and the pause after a failure is over
}

// stale reports whether the probe has ended and no longer counts. A failed probe counts for absence times as long as it took. The caller
// holds the lock.
func (a *probe) stale() bool {
	return !a.ended.IsZero() && (a.err == nil || time.Since(a.ended) > absence*a.ended.Sub(a.began))
}

const (
	// maxWatched is the largest number of tasks of a cluster in which watching tasks keeps a link to each.
	maxWatched = 64
	// maxReaching bounds the tasks asked at the same time, and reachPause is the time between two probes of a task.
	maxReaching = 16
	reachPause  = time.Second
	// absence limits how often callers that look at a cluster wait for a task whose host is gone.
	absence = 4
)

// LocateTime bounds the question to a task whether it is up.
const LocateTime = 2 * time.Second

func newPresence(m *Member) *presence {
	p := &presence{member: m, wake: make(chan struct{}, 1), ask: make(chan struct{}, maxReaching), pending: map[string]struct{}{}, told: map[string]sighting{},
		probes: map[string]*probe{}}
	p.life, p.die = context.WithCancel(context.Background())
	return p
}

// start begins to report on tasks, once gossip and links exist. Tasks that gossip has found by then come up like the others.
func (p *presence) start() {
	p.mu.Lock()
	for _, task := range p.member.taskNames() {
		p.told[task] = sighting{TaskStatus: TaskStatus{Task: task, State: membership.NeverSeen.String()}}
	}
	p.mu.Unlock()
	p.work.Go(contain.Func(p.member.log, "The presence of tasks", p.run, nil))
	p.changedAll()
}

// stop ends reporting and waits for its goroutines.
func (p *presence) stop() {
	p.mu.Lock()
	p.die() // no further probes
	p.mu.Unlock()
	p.work.Wait()
}

// changed notes that the state of a task may have changed. It does not wait.
func (p *presence) changed(task string) {
	p.mu.Lock()
	p.pending[task] = struct{}{}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// watch records whether a program watches tasks.
func (p *presence) watch(watching bool) {
	p.mu.Lock()
	p.watching = watching
	p.mu.Unlock()
	if watching {
		p.changedAll()
	}
}

// changedAll marks all tasks as possibly changed.
func (p *presence) changedAll() {
	for _, t := range p.member.taskNames() {
		p.changed(t)
	}
}

// holds reports whether the link to a task should be kept even when nothing passes over it.
func (p *presence) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watching && len(p.told) <= maxWatched
}

func (p *presence) run() {
	for {
		select {
		case <-p.wake:
		case <-p.life.Done():
			return
		}
		p.mu.Lock()
		tasks := p.pending
		p.pending = map[string]struct{}{}
		p.mu.Unlock()
		for task := range tasks {
			p.checkTask(task)
		}
	}
}

// checkTask reports what has changed about a task, and starts a probe if one is needed.
func (p *presence) checkTask(task string) {
	if task == p.member.self.Name() {
		return
	}
	gossiped, linked, ok := p.member.sightings(task)
	if !ok {
		return
	}
	s := merge(gossiped, linked)
	p.mu.Lock()
	before := p.told[task]
	if !isOther(before, s) && before.leaving {
		s.leaving = true // a process that is leaving does not come back, though its links are still there
	}
	p.told[task] = s
	p.mu.Unlock()
	if isOther(before, s) || s.leaving && !before.leaving {
		p.member.taskChanged(before, s)
	}
	linkedUp := linked.Health == link.Up || !linked.Accepted.IsZero()
	if gossiped.State == stateUp && (s.State != stateUp || !linkedUp && p.holds()) {
		p.reach(task)
	}
}

// find returns what is known of a task. It first asks the task whether it is up, unless it counts as up. It waits until ctx ends, and for
// at most LocateTime, or a few seconds more for a task that is far away and has accepted the connection. The Reason of a task that is not up says why it could not be reached.
// mail means that messages to programs' actors will follow.
func (p *presence) find(ctx context.Context, s TaskStatus, mail bool) TaskStatus {
	if s.State == stateUp || s.Task == p.member.self.Name() {
		return s
	}
	p.mu.Lock()
	a := p.probes[s.Task]
	if a == nil || a.stale() {
		a = p.askLocked(s.Task, mail)
	}
	p.mu.Unlock()
	if a == nil {
		return s // the node stops
	}
	p.await(ctx, a)
	why := "it did not answer"
	select {
	case <-a.done:
		if code := status.CodeOf(a.err); code != status.OK && code != status.DeadlineExceeded {
			why = status.From(a.err).Message
		}
	default:
	}
	if found, ok := p.member.StatusOf(s.Task); ok {
		s = found
	}
	if s.State != stateUp && s.Reason == "" {
		s.Reason = why
	}
	return s
}

// await waits for the end of a probe.
func (p *presence) await(ctx context.Context, a *probe) {
	bound := time.NewTimer(LocateTime)
	defer bound.Stop()
	select {
	case <-a.done:
		return
	case <-ctx.Done():
		return
	case <-bound.C:
	}
	p.mu.Lock()
	far := a.exchange != nil && distance.Extended(a.exchange)
	p.mu.Unlock()
	if far {
		select {
		case <-a.done:
		case <-ctx.Done():
		}
	}
}

// findAll calls find for all tasks of the cluster at the same time and returns the results in order.
func (p *presence) findAll(ctx context.Context) []TaskStatus {
	all := p.member.Status()
	var asked sync.WaitGroup
	for i := range all {
		asked.Go(contain.Func(p.member.log, "The look for "+all[i].Task, func() { all[i] = p.find(ctx, all[i], false) }, nil))
	}
	asked.Wait()
	return all
}

// reach asks a task whether it is up, unless it is being asked or failed to answer a moment ago.
func (p *presence) reach(task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.probes[task]; a == nil || a.rested {
		p.askLocked(task, false)
	}
}

// askLocked starts a probe; it returns nil if the node stops.
func (p *presence) askLocked(task string, mail bool) *probe {
	if p.life.Err() != nil {
		return nil
	}
	a := &probe{done: make(chan struct{})}
	p.probes[task] = a
	p.work.Go(func() {
		contain.Func(p.member.log, "A question to a task", func() { p.endProbe(a, p.try(task, a, mail)) }, func(err error) { p.endProbe(a, err) })()
		if a.err != nil {
			pause := time.NewTimer(reachPause)
			select {
			case <-pause.C:
			case <-p.life.Done():
			}
			pause.Stop()
		}
		p.mu.Lock()
		a.rested = true
		p.mu.Unlock()
		p.changed(task)
	})
	return a
}

// try asks a task whether it is up, once it has a slot.
func (p *presence) try(task string, a *probe, mail bool) error {
	select {
	case p.ask <- struct{}{}:
	case <-p.life.Done():
		return p.member.ShuttingDown()
	}
	defer func() { <-p.ask }()
	ctx, cancel := distance.Within(p.life, LocateTime)
	defer cancel()
	p.mu.Lock()
	a.began, a.exchange = time.Now(), ctx
	p.mu.Unlock()
	return p.member.links.Try(ctx, task, mail)
}

// endProbe ends a probe.
func (p *presence) endProbe(a *probe, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.ended, a.err = time.Now(), err
	close(a.done)
}

// isOther reports whether a task has come or gone, or is another process than before. Only that is a change for programs: a task that announces that it is
// leaving is up until it has left.
func isOther(before, now sighting) bool { return before.State != now.State || before.Boot != now.Boot }

// taskChanged logs a change of a task, records it as an event, and notifies programs.
func (m *Member) taskChanged(before, now sighting) {
	kind, level := taskChange(before, now)
	text := now.Reason
	if kind == taskRestarted {
		text = now.Address
	}
	about := []any{"task", now.Task, "address", now.Address}
	if now.Reason != "" {
		about = append(about, "reason", now.Reason)
	}
	if m.config.Together.first(m.self.Name(), kind, now.TaskStatus) {
		m.log.Log(context.Background(), level, kind, about...)
	}
	m.events.Add(kind, now.Task, text)
	if c := m.performing.Load(); c != nil && isOther(before, now) {
		c.TaskChanged(cast.TaskChange{Task: now.Task, Up: now.State == stateUp, Boot: now.Boot, What: now.TaskStatus})
	}
}

// Together has the tasks of a process log once what each would log of the others. The zero value is ready for use.
type Together struct {
	mu  sync.Mutex
	saw *recent.Map[sight, int] // how often a task has seen a change, and how often any one has
}

// maxSights bounds the changes that a Together remembers: it has one for each pair of tasks, each kind, and each process.
const maxSights = 1 << 16

// sight is a change as a task sees it, or as any one does if by is empty.
type sight struct {
	by, kind, task string
	boot           uint64
}

// first records that a task sees a change, and reports whether no other task has seen it as often. Without a Together, each task is the first.
func (t *Together) first(by, kind string, now TaskStatus) bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saw == nil {
		t.saw = recent.NewMap[sight, int](maxSights)
	}
	own, anyone := sight{by, kind, now.Task, now.Boot}, sight{"", kind, now.Task, now.Boot}
	times, _ := t.saw.Get(own)
	most, _ := t.saw.Get(anyone)
	times++
	t.saw.Add(own, times)
	if times <= most {
		return false
	}
	t.saw.Add(anyone, times)
	return true
}

// taskRestarted is the change of a task of which nobody noticed that its last process was down before the next one was up.
const taskRestarted = "task restarted"

// taskChange names a change of a task, and says how serious it is: if a process ended without having announced it, the task's state is lost, and
// whatever uses it fails, also where the next process is up already.
func taskChange(before, now sighting) (kind string, level slog.Level) {
	switch {
	case now.leaving && !isOther(before, now):
		return "task leaving", slog.LevelInfo
	case now.State == stateUp && before.State == stateUp && now.Boot != before.Boot:
		if before.leaving {
			return taskRestarted, slog.LevelInfo
		}
		return taskRestarted, slog.LevelWarn
	case now.State == stateDown:
		if before.leaving && before.Boot == now.Boot || now.Reason == membership.HasLeft || strings.HasPrefix(now.Reason, link.Leaving) {
			return "task " + now.State, slog.LevelInfo
		}
		return "task " + now.State, slog.LevelWarn
	default:
		return "task " + now.State, slog.LevelInfo
	}
}

// stateUp and stateDown are the TaskStatus.State of a task that is up, and of one whose last process is down.
var stateUp, stateDown = membership.Up.String(), membership.Down.String()

// sightings returns what gossip and the links know of a task; ok is false while the node starts and for a task that the cluster does not
// have.
func (m *Member) sightings(task string) (gossiped sighting, linked link.State, ok bool) {
	gossip := m.gossiping.Load()
	if gossip == nil {
		return gossiped, linked, false
	}
	seen, ok := gossip.Member(task)
	if !ok {
		return gossiped, linked, false
	}
	if seen.Task != m.self {
		linked, ok = m.linkState(task)
	}
	return sighting{m.gossipStatus(seen), seen.Leaving}, linked, ok
}

func (m *Member) linkState(task string) (link.State, bool) {
	s, err := m.links.State(task)
	return s, err == nil
}

// merge joins what gossip and a task's links know of it. A live link proves that the task is up. The loss of a link to the process that
// gossip believes in counts against it.
func merge(s sighting, st link.State) sighting {
	up := func(boot uint64, since time.Time) {
		if s.State != stateUp || s.Boot != boot {
			s.State, s.Since, s.Boot, s.Reason, s.leaving = stateUp, since, boot, "", false
		}
	}
	switch accepted := !st.Accepted.IsZero(); {
	case st.Health == link.Up && (!accepted || !st.Accepted.After(st.Since) || st.AcceptedBoot == st.Boot):
		up(st.Boot, st.Since)
	case accepted:
		up(st.AcceptedBoot, st.Accepted)
	case st.Health == link.Down && st.Reason != "" && st.Since.After(s.Since) && (s.Boot == st.Boot || s.Boot == 0):
		s.State, s.Since, s.Boot, s.Reason, s.leaving = stateDown, st.Since, st.Boot, st.Reason, false
	case st.Health == link.NeverSeen && s.State == membership.NeverSeen.String():
		if s.Reason = st.Reason; len(st.Awaited) > 0 {
			s.Reason = cmp.Or(s.Reason, "it has not answered yet") + "; it is awaited until " + st.Until.UTC().Format(time.RFC3339)
		}
	}
	return s
}
