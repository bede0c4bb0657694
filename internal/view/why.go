package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reason explains why a step does not end, or why a request to a program's actor is not answered.
type Reason struct {
	Step    uint64 `json:"step"` // 0 if the session has steps that have not begun
	Session string `json:"session"`
	// Actor is the actor, the program or the client that waits for an answer of an actor; empty for steps.
	Actor string `json:"actor,omitempty"`
	// Seconds is how long the step has been running, or the request has waited.
	Seconds float64 `json:"seconds"`
	// Text is the explanation, in a sentence or two.
	Text string `json:"text"`
	// Blocked means that the step, or the actor, waits for something, and does not compute.
	Blocked bool `json:"blocked"`
	// Deadlock means that what is waited for waits for the step, or that actors ask each other in a circle.
	Deadlock bool `json:"deadlock,omitempty"`
	// Ended means that the step has ended, Seconds ago, with less than its program expects.
	Ended bool `json:"ended,omitempty"`
}

// Why explains why a step of a cluster does not end, from a detailed view of all tasks (Query.Detail). ok is false for a step that no task
// knows: it has ended.
func Why(c *Cluster, step uint64) (r Reason, ok bool) {
	return newInquiry(c).why(step)
}

func (w *inquiry) why(step uint64) (r Reason, ok bool) {
	parts := w.parts[step]
	if len(parts) == 0 {
		return Reason{}, false
	}
	first := parts[0].step
	r = Reason{Step: step, Session: first.Session}
	for _, p := range parts {
		r.Seconds = max(r.Seconds, time.Duration(p.task.clock(w.cluster)-p.step.Began).Seconds())
	}
	w.found = map[*Wait]finding{}
	f := w.step(step, nil)
	r.Text, r.Blocked, r.Deadlock = f.text, f.rank >= waits, f.rank == deadlock
	return r, true
}

// inquiry is the data that an explanation is derived from.
type inquiry struct {
	cluster   *Cluster
	tasks     map[string]*Task
	parts     map[uint64][]part // by step, the master's first
	calls     map[uint64][]part // by Step.call, those of functions over several tasks
	resources map[place]*Resource
	waits     map[place][]waiter // nodes that wait for a resource
	uses      map[place][]user   // nodes that would use it
	// found is the explanation of each visited wait. It is a cache: if waits depend on several others, there are too many paths to follow
	// them all.
	found map[*Wait]finding
}

// place identifies a resource of a task.
type place struct{ task, id string }

// part is a step as one task reports it.
type part struct {
	task *Task
	step *Step
}

// waiter is a waiting node, in a part of a step on a task.
type waiter struct {
	part
	wait *Wait
}

type user struct {
	part
	use *Use
}

// rank is how conclusive an explanation is. Of several, the greatest is the most likely to hold up a step.
type rank int

const (
	unclear rank = iota
	computes
	waits
	lost
	deadlock
)

// finding is an explanation.
type finding struct {
	text string
	rank rank
}

func newInquiry(c *Cluster) *inquiry {
	w := &inquiry{cluster: c, tasks: map[string]*Task{}, parts: map[uint64][]part{}, calls: map[uint64][]part{}, resources: map[place]*Resource{}, waits: map[place][]waiter{}, uses: map[place][]user{}}
	for _, t := range c.Tasks {
		w.tasks[t.Task] = t
		for _, r := range t.Resources {
			w.resources[place{t.Task, r.Id}] = r
		}
		for _, s := range t.Steps {
			p := part{t, s}
			w.parts[s.Id] = append(w.parts[s.Id], p)
			if s.Call != 0 {
				w.calls[s.Call] = append(w.calls[s.Call], p)
			}
			for _, wait := range s.Waits {
				if wait.Resource != "" {
					at := place{t.Task, wait.Resource}
					w.waits[at] = append(w.waits[at], waiter{p, wait})
				}
			}
			for _, u := range s.Uses {
				at := place{t.Task, u.Resource}
				w.uses[at] = append(w.uses[at], user{p, u})
			}
		}
	}
	for _, parts := range w.parts {
		slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.remote(), b.remote()) })
	}
	return w
}

func (p part) remote() int {
	if p.task.Task == p.step.Master {
		return 0
	}
	return 1
}

// clock returns the present time on a task.
func (t *Task) clock(c *Cluster) int64 { return cmp.Or(t.GetProcess().GetClock(), c.GetClock()) }

// path is the nodes that an explanation has visited, from the latest to the first.
type path struct {
	at   waiter
	prev *path
}

func (p *path) has(at waiter) bool {
	for ; p != nil; p = p.prev {
		if p.at.wait == at.wait {
			return true
		}
	}
	return false
}

// step explains what a step waits for.
func (w *inquiry) step(id uint64, from *path) finding {
	var all []finding
	parts := w.parts[id]
	told := map[string]bool{}
	for _, p := range parts {
		told[p.task.Task] = p.step.Runs
	}
	for _, p := range parts {
		if p.step.Runs {
			all = append(all, w.part(p, nil, from))
		}
		for _, task := range p.step.Owed {
			if !told[task] {
				all = append(all, w.absent(task))
			}
		}
	}
	if len(all) == 0 {
		return finding{"its parts have ended, and their results are in flight", unclear}
	}
	f := surest(all)
	if failed := parts[0].step.Error; failed != "" {
		f.text = fmt.Sprintf("it has failed (%s), and ends when its parts have: %s", failed, f.text)
	}
	return f
}

// surest returns the most conclusive finding, or the first of several.
func surest(all []finding) finding {
	return slices.MaxFunc(all, func(a, b finding) int { return cmp.Compare(a.rank, b.rank) })
}

// absent explains a task that owes a part but does not report it.
func (w *inquiry) absent(task string) finding {
	if f, ok := w.away(task); ok {
		return f
	}
	return finding{fmt.Sprintf("%s has not begun its part, or its answer is on its way", task), unclear}
}

// awaits explains what a session's steps wait for before they begin; ok is false if they wait for no task.
func (w *inquiry) awaits(at *Task, s *Session) (r Reason, ok bool) {
	if len(s.Awaits) == 0 {
		return Reason{}, false
	}
	var all []string
	for _, task := range s.Awaits {
		f, away := w.away(task)
		if !away {
			f.text = task + " has just come"
		}
		all = append(all, f.text)
	}
	return Reason{Session: s.Name, Seconds: time.Duration(at.clock(w.cluster) - s.AwaitsSince).Seconds(), Blocked: true,
		Text: "a step or a graph waits on " + at.Task + " for tasks to start: " + strings.Join(all, "; ")}, true
}

// Missed returns, for each queue with sessions that were opened after it was closed and got its end alone, the last of them. TensorFlow's
// programs take that end for the end of their own run's elements.
func Missed(c *Cluster) (all []Reason) {
	for _, t := range c.Tasks {
		for _, r := range t.Resources {
			q := r.Queue
			if q.GetMissed() == 0 {
				continue
			}
			now := t.clock(c)
			last := q.LastMissed
			text := fmt.Sprintf("it got the end of the %s '%s' on %s and no element: the queue was closed %s, before the session was opened. "+
				"A producer of a Go program (pipeline.Producer) opens it anew; DestroyResourceOp or a reset of its container deletes it", q.Kind, r.Name, t.Task, q.ClosedBy.act().When(time.Unix(0, now)))
			if n := q.Missed - 1; n > 0 {
				text += fmt.Sprintf(". So did %d before", n)
			}
			all = append(all, Reason{Step: last.GetStep(), Session: last.GetSession(), Seconds: time.Duration(now - last.GetAt()).Seconds(), Text: text, Ended: true})
		}
	}
	return all
}

// away explains a task that is not up; ok is false if it is.
func (w *inquiry) away(task string) (f finding, ok bool) {
	t := w.tasks[task]
	if t == nil || t.State == StateUp {
		return finding{}, false
	}
	text := fmt.Sprintf("%s is %s", task, t.State)
	if t.Since > 0 {
		text += " for " + Ago(w.cluster.Clock-t.Since)
	}
	if t.Reason != "" {
		text += ": " + t.Reason
	}
	if t.State == StateSilent {
		return finding{text, unclear}, true // it may be busy
	}
	return finding{text, lost}, true
}

// part explains what a part waits for: the waits with those indexes, or all if there are none.
func (w *inquiry) part(p part, which []int32, from *path) finding {
	if f, ok := w.away(p.task.Task); ok {
		return f
	}
	if p.step.Compiling {
		return finding{fmt.Sprintf("%s compiles its part, for %s", p.task.Task, Ago(p.task.clock(w.cluster)-p.step.Began)), computes}
	}
	var all []finding
	for i, wait := range p.step.Waits {
		if which == nil || slices.Contains(which, int32(i)) {
			all = append(all, w.wait(waiter{p, wait}, from))
		}
	}
	if len(all) == 0 {
		return finding{fmt.Sprintf("%s computes many small nodes, of which none waits", p.task.Task), computes}
	}
	return surest(all)
}

// wait explains what a node waits for.
func (w *inquiry) wait(at waiter, from *path) finding {
	if from.has(at) {
		return finding{"and that waits for the first of these to end: a deadlock", deadlock}
	}
	f, ok := w.found[at.wait]
	if !ok {
		f = w.explain(at, &path{at, from})
		w.found[at.wait] = f
	}
	return f
}

// explain is wait for a node that was not visited before. The node is the last of the path from.
func (w *inquiry) explain(at waiter, from *path) finding {
	v := at.wait
	now := at.task.clock(w.cluster)
	if v.Kind == Disk {
		return finding{fmt.Sprintf("%s has run its part, and has been writing what that changed in durable containers to its disk for %s", at.task.Task, Ago(now-v.Since)), waits}
	}
	node := fmt.Sprintf("{{node %s}}", v.Node)
	if v.Function != "" {
		node = fmt.Sprintf("{{function_node %s}}%s", v.Function, node)
	}
	subject := fmt.Sprintf("%s (%s) on %s", node, v.Op, at.task.Task)
	since := ""
	if v.Since > 0 {
		since = " for " + Ago(now-v.Since)
	}
	switch v.Kind {
	case Computing:
		return finding{fmt.Sprintf("%s has been computing%s", subject, since), computes}
	case Feed:
		return finding{fmt.Sprintf("%s has waited%s to be fed by the client of the partial run", subject, since), waits}
	case Operation:
		return finding{fmt.Sprintf("%s has waited%s for %s", subject, since, cmp.Or(v.Text, "its end")), waits}
	case Room:
		if f, ok := w.away(v.Task); ok {
			return finding{fmt.Sprintf("a tensor of %s waits%s for room on its way: %s", subject, since, f.text), lost}
		}
		return finding{fmt.Sprintf("a tensor of %s has waited%s for room on its way: %s does not take what was sent to it", subject, since, v.Task), waits}
	case Input:
		f := w.input(at, from)
		return finding{fmt.Sprintf("%s on %s has waited%s for a tensor of %s: %s", node, at.task.Task, since, TaskOf(v.From), f.text), f.rank}
	case OnResource:
		if r := w.resources[place{at.task.Task, v.Resource}]; r != nil {
			f := w.resource(at, r, from)
			return finding{fmt.Sprintf("%s has waited%s to %s", subject, since, f.text), f.rank}
		}
	}
	return finding{fmt.Sprintf("%s has not ended%s", subject, since), waits}
}

// input explains why a tensor has not arrived.
func (w *inquiry) input(at waiter, from *path) finding {
	sender := TaskOf(at.wait.From)
	if f, ok := w.away(sender); ok {
		return f
	}
	for _, p := range w.parts[at.step.Id] {
		if p.task.Task != sender {
			continue
		}
		if !p.step.Runs {
			break
		}
		if e := p.step.unsent(at.wait.Edge); e != nil {
			return w.part(p, e.Waits, from)
		}
		if sender != at.task.Task { // which part of it sends is unknown
			return w.part(p, nil, from)
		}
		return finding{"another device of the task has not sent it", unclear}
	}
	for _, p := range w.parts[at.step.Id] {
		if slices.Contains(p.step.Owed, sender) {
			return w.absent(sender)
		}
	}
	if at.step.Call != 0 {
		return w.component(at, sender, from)
	}
	return finding{"it is on its way", unclear}
}

// unsent returns the edge of that name if the step's part has still to send it, or nil.
func (s *Step) unsent(edge string) *Edge {
	for _, e := range s.Sends {
		if e.Name == edge {
			return e
		}
	}
	return nil
}

// component explains why a tensor of another part of a function over several tasks has not arrived. The sender has its client's name, which
// need not be the cluster's.
func (w *inquiry) component(at waiter, sender string, from *path) finding {
	var named, others []finding
	for _, p := range w.calls[at.step.Call] {
		if p.step.Id == at.step.Id || !p.step.Runs {
			continue
		}
		if e := p.step.unsent(at.wait.Edge); e != nil {
			return w.part(p, e.Waits, from)
		}
		f := w.part(p, nil, from)
		if others = append(others, f); p.task.Task == sender {
			named = append(named, f)
		}
	}
	switch {
	case len(named) > 0:
		return surest(named)
	case len(others) > 0:
		return surest(others)
	case w.tasks[sender] == nil:
		return finding{"the client's own process has not sent it", waits}
	}
	return w.absent(sender)
}

// resource explains why an operation on a resource waits; the text follows "has waited to".
func (w *inquiry) resource(at waiter, r *Resource, from *path) finding {
	v := at.wait
	where := place{at.task.Task, r.Id}
	name := fmt.Sprintf("'%s' on %s", r.Name, at.task.Task)
	switch {
	case r.Queue != nil:
		return w.queue(at, where, r.Queue, name, from)
	case r.Store != nil:
		return w.store(at, where, r.Store, name, from)
	case r.Reader != nil:
		return w.reader(at, where, r.Reader, name, from)
	case v.Verb == "lock":
		return w.lock(at, r, name, from)
	}
	text := fmt.Sprintf("%s %s (%s)", v.Verb, name, cmp.Or(r.Description, r.Kind))
	text += slowest(r.Stages)
	return finding{text, waits}
}

// slowest describes the pipeline stage that holds up the others: the farthest from the end among those that have nothing ready.
func slowest(stages []*Stage) (text string) {
	for _, s := range stages {
		if s.Buffer < 0 || s.Buffered > 0 {
			continue
		}
		text = fmt.Sprintf("; its stage %s has none of %d elements ready", cmp.Or(s.Node, s.Name), s.Buffer)
		if s.Running > 0 {
			text += fmt.Sprintf(", and %d calls of its function are under way", s.Running)
		}
	}
	return text
}

// queue explains why an operation on a queue waits.
func (w *inquiry) queue(at waiter, where place, q *Queue, name string, from *path) finding {
	v := at.wait
	capacity := "no limit"
	if q.Capacity >= 0 {
		capacity = fmt.Sprintf("%d", q.Capacity)
	}
	switch v.Verb {
	case "enqueue":
		size := Count(q.Size, "element")
		if q.Leased > 0 {
			size += fmt.Sprintf(", %d leased", q.Leased)
		}
		what := fmt.Sprintf("enqueue into the %s %s, which is full (%s, capacity %s)", q.Kind, name, size, capacity)
		return w.others(at, where, takers, q.LastDequeue, what, from)
	case "close":
		for _, other := range w.waits[where] {
			if other.wait.Verb == "enqueue" {
				f := w.wait(other, from)
				return finding{fmt.Sprintf("close the %s %s after the enqueues that came before: %s", q.Kind, name, f.text), f.rank}
			}
		}
		return finding{fmt.Sprintf("close the %s %s", q.Kind, name), unclear}
	}
	closed := fmt.Sprintf("which was closed %s", q.ClosedBy.act().When(time.Unix(0, at.task.clock(w.cluster))))
	switch {
	case v.Verb == "open" && q.Closed:
		what := fmt.Sprintf("open the %s %s anew, %s, and still has %s", q.Kind, name, closed, Count(q.Size, "element"))
		return w.others(at, where, takers, q.LastDequeue, what, from)
	case v.Verb == "open":
		what := fmt.Sprintf("open the %s %s anew, which is about to be closed, and still has %s", q.Kind, name, Count(q.Size, "element"))
		return w.others(at, where, takers, q.LastDequeue, what, from)
	case q.Closed && q.Size == 0 && q.Leased > 0:
		return finding{fmt.Sprintf("dequeue from the %s %s, %s, and is empty, except for %s that consumers have leased and that come back unless they acknowledge them", q.Kind, name, closed, Count(q.Leased, "element")), waits}
	case q.Closed && q.Size == 0: // others learn at once that it is closed
		return finding{fmt.Sprintf("dequeue from the %s %s, %s, and is empty; no producer has opened it anew", q.Kind, name, closed), waits}
	}
	state := fmt.Sprintf("is empty (capacity %s)", capacity)
	if q.Size > 0 {
		state = "has " + Count(q.Size, "element")
		if q.MinAfterDequeue > 0 && !q.Closed {
			state += fmt.Sprintf(", of which it keeps %d (min_after_dequeue)", q.MinAfterDequeue)
		}
	}
	what := fmt.Sprintf("dequeue from the %s %s, which %s", q.Kind, name, state)
	if v.Amount > 1 {
		what = fmt.Sprintf("dequeue %d elements from the %s %s, which %s", v.Amount, q.Kind, name, state)
		if q.Lacking > 0 && q.Lacking < v.Amount {
			what += fmt.Sprintf("; it lacks %d", q.Lacking)
		}
	}
	return w.others(at, where, bringers, q.LastEnqueue, what, from)
}

// lock explains why a lock is held.
func (w *inquiry) lock(at waiter, r *Resource, name string, from *path) finding {
	if len(r.HeldBy) == 0 {
		return finding{fmt.Sprintf("lock %s, which nobody holds now", name), unclear}
	}
	holder := r.HeldBy[0]
	if len(w.parts[holder]) > 0 {
		f := w.step(holder, from)
		text := fmt.Sprintf("lock %s, which step %d of session %s%s holds: %s", name, holder, w.parts[holder][0].step.Session, w.awayMaster(r.Holder), f.text)
		return finding{text, max(f.rank, waits)}
	}
	text := fmt.Sprintf("lock %s, which step %d holds, which no task knows any more", name, holder)
	if r.Holder.GetStep() != 0 {
		text += fmt.Sprintf("; it was of session %s%s", r.Holder.Session, w.fate(at, r.Holder))
	}
	return finding{text, waits}
}

// storeWords are the words for a kind of Store.
type storeWords struct {
	article string
	unit    string
	limited bool      // it may have limits
	putters providers // they provide what others wait to take
}

var storesWords = map[string]storeWords{
	"barrier":     {"a", "complete tuples", false, providers{"insert", "inserts into it", "inserted", "nobody has ever inserted"}},
	"accumulator": {"an", "gradients", false, providers{"insert", "inserts into it", "brought a gradient", "nobody has ever brought a gradient"}},
}

// stagingWords are the words for all kinds of staging areas. unstagers are what a stage waits for if there is no room.
var (
	stagingWords = storeWords{"a", "tuples", true, providers{"stage", "stages into it", "staged", "nobody has ever staged"}}
	unstagers    = providers{"unstage", "unstages from it", "unstaged", "nobody has ever unstaged"}
)

// store explains why an operation on a staging area, a barrier or an accumulator waits.
func (w *inquiry) store(at waiter, where place, s *Store, name string, from *path) finding {
	v := at.wait
	words, known := storesWords[s.Kind]
	if !known {
		words = stagingWords
	}
	if v.Verb == "stage" {
		what := fmt.Sprintf("stage into %s, %s %s that %s", name, words.article, s.Kind, s.fullness())
		return w.others(at, where, unstagers, s.LastTaken, what, from)
	}
	verb := v.Verb
	if v.Amount > 0 {
		verb += fmt.Sprintf(" %d of", v.Amount)
	}
	if v.Text != "" {
		verb += " " + v.Text + " of"
	}
	what := fmt.Sprintf("%s %s, %s %s that %s", verb, name, words.article, s.Kind, s.contents(words, time.Unix(0, at.task.clock(w.cluster))))
	return w.others(at, where, words.putters, s.LastPut, what, from)
}

// bounds describes the limits.
func (s *Store) bounds() string {
	var all []string
	if s.Capacity > 0 {
		all = append(all, fmt.Sprintf("capacity %d", s.Capacity))
	}
	if s.BytesLimit > 0 {
		all = append(all, fmt.Sprintf("%d of %d bytes", s.Bytes, s.BytesLimit))
	}
	if len(all) == 0 {
		return "no limit"
	}
	return strings.Join(all, ", ")
}

// fullness says why there is no room for more.
func (s *Store) fullness() string {
	is := "has no room for it"
	if s.Capacity > 0 && s.Size >= s.Capacity {
		is = "is full"
	}
	return fmt.Sprintf("%s (%d tuples, %s)", is, s.Size, s.bounds())
}

// contents describes what there is to take.
func (s *Store) contents(words storeWords, now time.Time) string {
	text := fmt.Sprintf("has %d %s", s.Size, words.unit)
	if s.Size == 0 && s.Incomplete == 0 {
		text = "is empty"
	}
	if s.Incomplete > 0 {
		text += fmt.Sprintf(" and %d incomplete ones", s.Incomplete)
	}
	if words.limited {
		text += " (" + s.bounds() + ")"
	}
	if s.Dropped > 0 {
		text += fmt.Sprintf(" and has dropped %d that were stale, of steps before %d", s.Dropped, s.Step)
	}
	if s.Closed {
		text += " and is closed to new keys"
		if s.ClosedBy != nil {
			text += ", which it was " + s.ClosedBy.act().When(now)
		}
	}
	return text
}

// reader explains why an operation of a reader waits: for its turn, for the name of a file, or for the file.
func (w *inquiry) reader(at waiter, where place, r *Reader, name string, from *path) finding {
	v := at.wait
	what := fmt.Sprintf("%s the %s %s, which ", v.Verb, r.Kind, name)
	switch {
	case r.Started == 0:
		what += "has read nothing yet"
	case r.Finished < r.Started:
		what += fmt.Sprintf("is in '%s' (%d records so far)", r.Work, r.Produced)
	default:
		what += fmt.Sprintf("has read '%s' to its end (%d records so far)", r.Work, r.Produced)
	}
	turn := r.Turn
	if turn == nil {
		return finding{what + "; it is about to have its turn", unclear}
	}
	if turn.Step != at.step.Id {
		what += fmt.Sprintf("; it is the turn of step %d of session %s%s", turn.Step, turn.Session, w.awayMaster(turn))
		for _, other := range w.waits[where] {
			if other.step.Id == turn.Step {
				f := w.wait(other, from)
				return finding{what + ": " + f.text, f.rank}
			}
		}
		return finding{what, waits}
	}
	if !r.Asks {
		return finding{what + ", and waits for a file operation", waits}
	}
	source := w.resources[place{at.task.Task, v.Source}]
	if source.GetQueue() == nil {
		return finding{what + ", and waits for the name of the next file", waits}
	}
	asks := waiter{at.part, &Wait{Node: v.Node, Verb: "dequeue", Amount: 1}}
	f := w.queue(asks, place{at.task.Task, v.Source}, source.Queue, fmt.Sprintf("'%s' on %s", source.Name, at.task.Task), from)
	return finding{what + ", and waits to " + f.text, f.rank}
}

// users returns the nodes that would use a resource with the given verb.
func (w *inquiry) users(where place, verb string) []user {
	return slices.DeleteFunc(slices.Clone(w.uses[where]), func(u user) bool { return u.use.Verb != verb })
}

// providers describes the operations that would end a wait for a resource.
type providers struct {
	verb  string // as in their uses
	does  string // what they do
	did   string
	never string // says that none ever has
}

// What would end the wait for an element of a queue, and for room in it.
var (
	bringers = providers{"enqueue", "enqueues into it", "brought an element", "nobody has ever enqueued"}
	takers   = providers{"dequeue", "dequeues from it", "took an element", "nobody has ever taken one"}
)

// others explains why the operations that would end a wait for a resource do not come. If there are none, it describes the last one. what
// says what is waiting, and for what.
func (w *inquiry) others(at waiter, where place, p providers, last *Origin, what string, from *path) finding {
	users := w.users(where, p.verb)
	if len(users) == 0 {
		return finding{fmt.Sprintf("%s; no running step %s", what, p.does) + w.last(at, last, p), waits}
	}
	// Any of them would do: the one least held up counts.
	var best finding
	for i, u := range users {
		f := w.part(u.part, u.use.Waits, from)
		who := fmt.Sprintf("step %d of session %s", u.step.Id, u.step.Session)
		if u.step.Id == at.step.Id {
			who = "the step itself"
		}
		f.text = fmt.Sprintf("%s; %s %s by {{node %s}} after this: %s", what, who, p.does, u.use.Node, f.text)
		if i == 0 || f.rank < best.rank {
			best = f
		}
	}
	return best
}

// last describes the step that last operated on a resource for which at waits, and what has become of its session.
func (w *inquiry) last(at waiter, o *Origin, p providers) string {
	if o.GetStep() == 0 {
		return ", and " + p.never
	}
	return fmt.Sprintf("; the last step that %s was of session %s, %s ago", p.did, o.Session, Ago(at.task.clock(w.cluster)-o.At)) + w.fate(at, o)
}

// fate says what has become of the session of a step. at is what waits, and is not one of the session's other steps.
func (w *inquiry) fate(at waiter, o *Origin) (text string) {
	master := w.tasks[o.Master]
	if master == nil || master.State != StateUp {
		return fmt.Sprintf(", whose master %s", o.Master) + w.unseen(master)
	}
	for _, s := range master.Sessions {
		if s.Name != o.Session {
			continue
		}
		others := s.Steps
		if at.step.Session == s.Name {
			others--
		}
		switch {
		case s.LeaseEnds > 0:
			text += ", whose client is gone"
		case others == 1:
			text += ", which runs another step"
		case others > 1:
			text += fmt.Sprintf(", which runs %d other steps", others)
		case others < s.Steps:
			text += ", which runs no other step"
		default:
			text += ", which has been idle for " + Ago(master.clock(w.cluster)-s.Used)
		}
		if s.LastError != "" {
			text += "; its last error: " + s.LastError
		}
		return text
	}
	for _, e := range slices.Backward(master.Events) {
		if e.Subject == o.Session && (e.Kind == "session closed" || e.Kind == "session expired") {
			how := "was closed"
			if e.Kind == "session expired" {
				how = "ended, since its client was gone,"
			}
			return fmt.Sprintf(", which %s %s ago%s", how, Ago(master.clock(w.cluster)-e.At), w.failure(master, o.Session))
		}
	}
	return ", which is closed"
}

// awayMaster says, in parentheses, what is known of the master of a step that holds something, if the master does not answer. It is empty if it does.
func (w *inquiry) awayMaster(o *Origin) string {
	master := w.tasks[o.GetMaster()]
	if o.GetMaster() == "" || master.GetState() == StateUp {
		return ""
	}
	return fmt.Sprintf(" (whose master %s%s)", o.Master, w.unseen(master))
}

// unseen says what is known of a task that has not answered: that it is gone, or only that nothing is known of it now. t is nil for a task
// of another cluster.
func (w *inquiry) unseen(t *Task) string {
	switch t.GetState() {
	case StateDown:
		text := " is gone"
		if t.Since > 0 {
			text = " has been gone for " + Ago(w.cluster.Clock-t.Since)
		}
		if t.Reason != "" {
			text += ": " + t.Reason
		}
		return text
	case StateSilent:
		if t.Reason == "" {
			return " does not answer"
		}
		return " does not answer now: " + t.Reason
	}
	return " was not asked"
}

// failure describes the last failed step of a session.
func (w *inquiry) failure(master *Task, session string) string {
	for _, e := range slices.Backward(master.Events) {
		if rest, ok := strings.CutPrefix(e.Text, session+": "); ok && e.Kind == "step failed" {
			return "; its last error: " + rest
		}
	}
	return ""
}

// Ago formats a duration in nanoseconds for people.
func Ago(nanoseconds int64) string {
	d := max(time.Duration(nanoseconds), 0)
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// ForWhy returns the query whose answer Why needs.
func ForWhy() *Query {
	return &Query{Sections: []string{"steps", "sessions", "events"}, Cluster: true, Detail: true}
}

// ForAllWhy returns the query whose answer Why, Awaits, WhyAll, WhyAsks and Missed need.
func ForAllWhy() *Query {
	q := ForWhy()
	q.Sections = append(q.Sections, "asks", "resources")
	return q
}

// Awaits explains the sessions with steps that have not begun for longer than the given time, because they wait for tasks that have never been
// seen. Step is 0 in its answers.
func Awaits(c *Cluster, longer time.Duration) []Reason {
	out := []Reason{}
	w := newInquiry(c)
	for _, t := range c.Tasks {
		for _, s := range t.Sessions {
			if r, ok := w.awaits(t, s); ok && r.Seconds > longer.Seconds() {
				out = append(out, r)
			}
		}
	}
	return out
}

// WhyAll explains all steps that have been running for longer than the given time, the oldest first.
func WhyAll(c *Cluster, longer time.Duration) []Reason {
	out := []Reason{}
	w := newInquiry(c)
	for step := range w.parts {
		if r, ok := w.why(step); ok && r.Seconds > longer.Seconds() {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Reason) int { return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Step, b.Step)) })
	return out
}
