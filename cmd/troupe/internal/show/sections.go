package show

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/bytesize"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
)

// of is an entry of a section with its task.
type of[E any] struct {
	task *view.Task
	e    E
}

// entries returns a section's entries of all tasks.
func entries[E any](c *view.Cluster, section func(*view.Task) []E) (all []of[E]) {
	for _, t := range c.Tasks {
		for _, e := range section(t) {
			all = append(all, of[E]{t, e})
		}
	}
	return all
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// Sessions lists the sessions of all tasks: those that run steps first, then by last use, the latest first.
func Sessions(c *view.Cluster) *Table {
	t := NewTable("no sessions", Columns("SESSION", "MASTER", "USED", "STEPS>", "DONE>?", "FAILED>", "CLIENT~", "OPENED?", "NODES>?", "PLANS>?")...)
	all := entries(c, (*view.Task).GetSessions)
	slices.SortStableFunc(all, func(a, b of[*view.Session]) int {
		return cmp.Or(cmp.Compare(min(b.e.Steps, 1), min(a.e.Steps, 1)), cmp.Compare(b.e.Used, a.e.Used), cmp.Compare(a.e.Name, b.e.Name))
	})
	for _, s := range all {
		now := clock(c, s.task)
		t.Row(s.e.Name, Task(s.task.Task), ago(now, s.e.Used), number(s.e.Steps), number(s.e.StepsDone), number(s.e.StepsFailed), cmp.Or(s.e.Who, "-"),
			ago(now, s.e.Opened), number(s.e.Nodes), number(s.e.Plans))
		t.Note(sessionNotes(s.e, now))
	}
	return t
}

func sessionNotes(s *view.Session, now int64) string {
	var eager, gone, working, awaits, failed string
	if e := s.Eager; e != nil {
		eager = fmt.Sprintf("eager context %d, on %s for its client, with %d handles and %d functions", e.Id, Task(e.Task), e.Handles, e.Functions)
		if e.KeepAlive > 0 {
			eager += ", which ends " + Age(e.KeepAlive) + " after its last call"
		}
	}
	if s.LeaseEnds > 0 {
		gone = "its client is gone, and it ends in " + Age(s.LeaseEnds-now) + ", or sooner if memory is short"
	}
	if s.Working != "" {
		working = fmt.Sprintf("%s for %s", s.Working, Age(now-s.WorkingSince))
		if s.ChangesWaiting > 0 {
			working += fmt.Sprintf(", and %d wait for that", s.ChangesWaiting)
		}
	}
	if len(s.Awaits) > 0 {
		awaits = fmt.Sprintf("waits for %s, never seen, for %s", taskList(s.Awaits), Age(now-s.AwaitsSince))
	}
	if s.LastError != "" {
		failed = "last error: " + s.LastError
	}
	return joined(eager, gone, working, awaits, failed)
}

// Slow is how long a step runs before the tables say why.
const Slow = time.Second

// step is a step as all tasks report it.
type step struct {
	*view.Step           // the master's, if it has reported
	seconds      float64 // the most that a task reports
	where        []string
	master, fail string
}

// steps joins the tasks' reports of each step, the oldest step first.
func steps(c *view.Cluster) []*step {
	byID := map[uint64]*step{}
	var all []*step
	for _, p := range entries(c, (*view.Task).GetSteps) {
		s := byID[p.e.Id]
		if s == nil {
			s = &step{Step: p.e, master: p.e.Master}
			byID[p.e.Id] = s
			all = append(all, s)
		}
		if p.task.Task == p.e.Master {
			s.Step = p.e
		}
		if p.e.Runs {
			s.where = append(s.where, p.task.Task)
		}
		s.fail = cmp.Or(s.fail, p.e.Error)
		s.seconds = max(s.seconds, time.Duration(clock(c, p.task)-p.e.Began).Seconds())
	}
	for _, s := range all {
		for _, owing := range s.Owed { // tasks that have not reported
			if !slices.Contains(s.where, owing) {
				s.where = append(s.where, owing)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *step) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.Id, b.Id))
	})
	return all
}

// what returns what a step computes: its fetches and targets.
func (s *step) what() string {
	const listed = 4
	names := slices.Concat(s.Fetches, s.Targets)
	text := strings.Join(names[:min(len(names), listed)], ", ")
	if more := len(names) - listed; more > 0 {
		text += fmt.Sprintf(", %d more", more)
	}
	if s.Partial {
		text = joined("a partial run", text)
	}
	return text
}

// state describes how a step is doing.
func (s *step) state(r *view.Reason) string {
	switch {
	case s.fail != "":
		return "failed"
	case r == nil:
		return "running"
	case r.Deadlock:
		return "deadlock"
	case r.Blocked:
		return "blocked"
	}
	return "slow"
}

// Steps lists the steps that run, the oldest first. reasons belong to slow steps, and are below them.
func Steps(c *view.Cluster, reasons []view.Reason) *Table {
	t := NewTable("no steps", Columns("STEP", "SESSION", "MASTER", "RUNS>", "STATE", "ON~?", "FETCHES~")...)
	why := map[uint64]*view.Reason{}
	for i, r := range reasons {
		why[r.Step] = &reasons[i]
	}
	for _, s := range steps(c) {
		text := s.fail
		r := why[s.Id]
		if r != nil {
			text = r.Text
		}
		t.Row(view.StepName(s.Id), s.Session, Task(s.master), Age(int64(s.seconds*1e9)), s.state(r), taskList(s.where), s.what())
		t.Note(shortTasks(text))
	}
	return t
}

// queueOf is a queue with the resource that it is.
type queueOf struct {
	task *view.Task
	r    *view.Resource
	q    *view.Queue
}

func (q queueOf) waiting() int64 { return q.q.EnqueuesWaiting + q.q.DequeuesWaiting }

// fill returns how full the queue is, from 0 to 1, or -1 if it has no limit.
func (q queueOf) fill() float64 {
	if q.q.Capacity <= 0 {
		return -1
	}
	return float64(q.q.Size) / float64(q.q.Capacity)
}

// queues returns the queues. Those that steps wait for are first, the longest wait at the top; then come the fullest.
func queues(c *view.Cluster) (all []queueOf) {
	for _, r := range entries(c, (*view.Task).GetResources) {
		if r.e.Queue != nil {
			all = append(all, queueOf{r.task, r.e, r.e.Queue})
		}
	}
	slices.SortStableFunc(all, func(a, b queueOf) int {
		return cmp.Or(cmp.Compare(min(b.waiting(), 1), min(a.waiting(), 1)), cmp.Compare(a.since(c), b.since(c)), cmp.Compare(b.fill(), a.fill()),
			cmp.Compare(a.r.Name, b.r.Name))
	})
	return all
}

// since returns when the oldest wait began, relative to the task's clock: the longest wait has the least value.
func (q queueOf) since(c *view.Cluster) int64 {
	if q.q.WaitingSince == 0 {
		return 0
	}
	return q.q.WaitingSince - clock(c, q.task)
}

// bar draws how full something is, in the given number of columns.
func bar(fill float64, columns int) string {
	full := min(max(int(fill*float64(columns)+0.5), 0), columns)
	return strings.Repeat("#", full) + strings.Repeat(".", columns-full)
}

// filled describes how full a queue is.
func (q queueOf) filled() string {
	switch f := q.fill(); {
	case q.q.Capacity < 0:
		return fmt.Sprintf("%d, no limit", q.q.Size)
	default:
		return fmt.Sprintf("%s %d/%d", bar(f, 8), q.q.Size, q.q.Capacity)
	}
}

// waits describes the steps that wait for a queue.
func (q queueOf) waits(now int64) string {
	var enqueues, dequeues, opens, text string
	if n := q.q.EnqueuesWaiting; n > 0 {
		enqueues = view.Count(n, "enqueue")
	}
	if n := q.q.DequeuesWaiting; n > 0 {
		dequeues = view.Count(n, "dequeue")
		if q.q.Lacking > 0 {
			dequeues += fmt.Sprintf(" (%d lacking)", q.q.Lacking)
		}
	}
	if n := q.q.OpensWaiting; n > 0 {
		opens = fmt.Sprintf("%d for it to be opened", n)
	}
	if text = joined(enqueues, dequeues, opens); text != "" && q.q.WaitingSince > 0 {
		text += " for " + Age(now-q.q.WaitingSince)
	}
	return text
}

// leases describes the elements that are leased, and those that were delivered too often.
func (q queueOf) leases() string {
	count := func(n int64, what string) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%d %s", n, what)
	}
	return joined(count(q.q.Leased, "leased"), count(q.q.DeadLetters, "dead letters in another queue"), count(q.q.Dropped, "dead letters dropped"))
}

// closed describes a closed queue: since when, by which session, and why.
func (q queueOf) closed(now int64) string {
	if !q.q.Closed {
		return ""
	}
	text := "closed"
	if by := q.q.ClosedBy; by != nil {
		text += fmt.Sprintf(" %s ago by %s", Age(now-by.At), by.Session)
	}
	if q.q.ClosedBecause != "" {
		text += ": " + q.q.ClosedBecause
	}
	return text
}

// missed describes the sessions that came to a closed queue too late.
func (q queueOf) missed(now int64) string {
	if q.q.Missed == 0 {
		return ""
	}
	last := q.q.LastMissed
	return fmt.Sprintf("%s opened later got nothing but its end, the last %s ago: %s", view.Count(q.q.Missed, "session"), Age(now-last.GetAt()), last.GetSession())
}

// last describes the steps that last put something in and took something out.
func (q queueOf) last(now int64) string {
	tell := func(did string, o *view.Origin) string {
		if o.GetStep() == 0 {
			return ""
		}
		return fmt.Sprintf("%s %s ago by %s", did, Age(now-o.At), o.Session)
	}
	return joined(tell("enqueued", q.q.LastEnqueue), tell("dequeued", q.q.LastDequeue))
}

// Queues lists the queues of named containers: those that steps wait for first.
func Queues(c *view.Cluster) *Table {
	t := NewTable("no queues", Columns("QUEUE~", "TASK", "CONTAINER~", "KIND", "FILLED", "IN>?", "OUT>?", "WAITING~")...)
	for _, q := range queues(c) {
		now := clock(c, q.task)
		t.Row(q.r.Name, Task(q.task.Task), container(q.r.Container), strings.TrimSuffix(q.q.Kind, "Queue"), q.filled(), number(q.q.Enqueued), number(q.q.Dequeued),
			q.waits(now))
		t.Note(joined(q.leases(), q.closed(now), q.missed(now), q.last(now)))
	}
	return t
}

// Containers lists what the named containers hold, by task and container; the largest first.
func Containers(c *view.Cluster) *Table {
	t := NewTable("the containers are empty", Columns("TASK", "DEVICE?", "CONTAINER~", "KIND", "NAME~", "BYTES>", "WHAT~")...)
	all := entries(c, (*view.Task).GetResources)
	place := map[*view.Task]int{}
	for i, task := range c.Tasks {
		place[task] = i
	}
	slices.SortStableFunc(all, func(a, b of[*view.Resource]) int {
		return cmp.Or(cmp.Compare(place[a.task], place[b.task]), cmp.Compare(a.e.Container, b.e.Container), cmp.Compare(b.e.Bytes, a.e.Bytes),
			cmp.Compare(a.e.Kind, b.e.Kind), cmp.Compare(a.e.Name, b.e.Name))
	})
	for _, r := range all {
		_, device, _ := strings.Cut(r.e.Device, "/device:")
		bytes := "-"
		if r.e.Bytes > 0 {
			bytes = bytesize.Text(r.e.Bytes)
		}
		what := r.e.Description
		if r.e.Shared {
			what = joined(what, "shared by the cluster")
		}
		if r.e.Durable {
			what = joined(what, "durable")
		}
		if len(r.e.HeldBy) > 0 {
			what = joined(what, "held by step "+view.StepName(r.e.HeldBy[0]))
		}
		t.Row(Task(r.task.Task), device, container(r.e.Container), r.e.Kind, r.e.Name, bytes, what)
	}
	return t
}

// linkRank orders links: those with a problem come first.
func linkRank(l *view.Link) int {
	switch {
	case l.State == "down":
		return 0
	case l.StalledSince > 0:
		return 1
	case l.State == "up":
		return 2
	}
	return 3
}

// links returns the links: those that are down or stalled first.
func links(c *view.Cluster) []of[*view.Link] {
	all := entries(c, (*view.Task).GetLinks)
	slices.SortStableFunc(all, func(a, b of[*view.Link]) int { return cmp.Compare(linkRank(a.e), linkRank(b.e)) })
	return all
}

func linkState(l *view.Link, now int64) string {
	if l.StalledSince > 0 {
		return "stalled for " + Age(now-l.StalledSince)
	}
	return l.State
}

func roundTrip(l *view.Link) string {
	if l.RoundTrip == 0 {
		return "-"
	}
	return time.Duration(l.RoundTrip).Round(time.Microsecond).String()
}

// Unused counts the links that nothing has needed.
func Unused(c *view.Cluster) (n int) {
	for _, l := range links(c) {
		if unused(l.e) {
			n++
		}
	}
	return n
}

func unused(l *view.Link) bool { return l.State == "none" && l.Reason == "" && l.MessagesReceived == 0 }

// Links lists the links that something has needed as each end sees them: those that are down or stalled first.
func Links(c *view.Cluster) *Table {
	t := NewTable("no links in use", Columns("FROM", "TO", "STATE", "SINCE", "TRIP>", "QUEUED>", "SENT>?", "RECEIVED>?", "MESSAGES>?")...)
	for _, l := range links(c) {
		if unused(l.e) {
			continue
		}
		now := clock(c, l.task)
		t.Row(Task(l.task.Task), Task(l.e.Task), linkState(l.e, now), ago(now, l.e.Since), roundTrip(l.e), bytesize.Text(l.e.Queued), bytesize.Text(l.e.BytesSent),
			bytesize.Text(l.e.BytesReceived), fmt.Sprintf("%d/%d", l.e.MessagesSent, l.e.MessagesReceived))
		t.Note(l.e.Reason)
	}
	return t
}

// EventLines returns the events of all tasks as lines, in the order in which they happened. Each begins with its time in a zone. They are
// not a table, since more may follow.
func EventLines(c *view.Cluster, zone *time.Location, columns int) []string {
	all := entries(c, (*view.Task).GetEvents)
	slices.SortStableFunc(all, func(a, b of[*view.Event]) int { return cmp.Compare(a.e.At, b.e.At) })
	lines := make([]string, len(all))
	for i, e := range all {
		line := fmt.Sprintf("%s  %-18s  %-16s  %s", time.Unix(0, e.e.At).In(zone).Format("2006-01-02 15:04:05.000"), Task(e.task.Task), e.e.Kind, Task(e.e.Subject))
		if e.e.Text != "" {
			line += "  " + e.e.Text
		}
		if line = plain.Line(line); columns > 0 {
			line = Cut(line, columns)
		}
		lines[i] = line
	}
	return lines
}
