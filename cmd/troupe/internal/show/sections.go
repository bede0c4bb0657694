package show

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/view"
)

// of is an entry of a section with its task.
type of[E any] struct {
	task *view.Task
	e    E
}

// entries gathers a section of all tasks.
func entries[E any](c *view.Cluster, section func(*view.Task) []E) (all []of[E]) {
	for _, t := range c.Tasks {
		for _, e := range section(t) {
			all = append(all, of[E]{t, e})
		}
	}
	return all
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// Sessions lists the sessions of all tasks: those that run steps first, and of these the one that was used last.
func Sessions(c *view.Cluster) *Table {
	t := NewTable(Columns("SESSION", "MASTER", "USED", "STEPS>", "DONE>?", "FAILED>", "CLIENT~", "OPENED?", "NODES>?", "PLANS>?")...)
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
	var gone, working, failed string
	if s.LeaseEnds > 0 {
		gone = "its client is gone, and it ends in " + Age(s.LeaseEnds-now)
	}
	if s.Working != "" {
		working = fmt.Sprintf("%s for %s", s.Working, Age(now-s.WorkingSince))
		if s.ChangesWaiting > 0 {
			working += fmt.Sprintf(", and %d wait for that", s.ChangesWaiting)
		}
	}
	if s.LastError != "" {
		failed = "last error: " + s.LastError
	}
	return joined(gone, working, failed)
}

// Slow is how long a step runs before the tables tell why.
const Slow = time.Second

// step is a step as all tasks tell of it.
type step struct {
	*view.Step           // the master's, if it has told
	seconds      float64 // the most that a task tells
	where        []string
	master, fail string
}

// steps joins what the tasks tell of each step; the oldest first.
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
		for _, owing := range s.Owed { // those that have not told
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

// what is what a step computes: its fetches and targets.
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

// state tells how a step does.
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

// Steps lists the steps that run, the oldest first. reasons are of those that are slow, and stand below them.
func Steps(c *view.Cluster, reasons []view.Reason) *Table {
	t := NewTable(Columns("STEP", "SESSION", "MASTER", "RUNS>", "STATE", "ON~?", "FETCHES~")...)
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

// fill is how full the queue is, from 0 to 1; -1 if it has no limit.
func (q queueOf) fill() float64 {
	if q.q.Capacity <= 0 {
		return -1
	}
	return float64(q.q.Size) / float64(q.q.Capacity)
}

// queues gathers the queues: those that steps wait for first, and of these the one that they have waited for longest; then the fullest.
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

// since is how old the oldest wait is, the greatest first.
func (q queueOf) since(c *view.Cluster) int64 {
	if q.q.WaitingSince == 0 {
		return 0
	}
	return q.q.WaitingSince - clock(c, q.task)
}

// bar draws how full something is, in that many columns.
func bar(fill float64, columns int) string {
	full := min(max(int(fill*float64(columns)+0.5), 0), columns)
	return strings.Repeat("#", full) + strings.Repeat(".", columns-full)
}

// filled tells how full a queue is.
func (q queueOf) filled() string {
	switch f := q.fill(); {
	case q.q.Capacity < 0:
		return fmt.Sprintf("%d, no limit", q.q.Size)
	default:
		return fmt.Sprintf("%s %d/%d", bar(f, 8), q.q.Size, q.q.Capacity)
	}
}

// waits tells who waits for a queue.
func (q queueOf) waits(now int64) string {
	var enqueues, dequeues, text string
	if n := q.q.EnqueuesWaiting; n > 0 {
		enqueues = plural(n, "enqueue", "enqueues")
	}
	if n := q.q.DequeuesWaiting; n > 0 {
		dequeues = plural(n, "dequeue", "dequeues")
		if q.q.Lacking > 0 {
			dequeues += fmt.Sprintf(" (%d lacking)", q.q.Lacking)
		}
	}
	if text = joined(enqueues, dequeues); text != "" && q.q.WaitingSince > 0 {
		text += " for " + Age(now-q.q.WaitingSince)
	}
	return text
}

func (q queueOf) closed() string {
	switch {
	case !q.q.Closed:
		return ""
	case q.q.ClosedBecause != "":
		return "closed: " + q.q.ClosedBecause
	}
	return "closed"
}

// last tells of the steps that put something in and took something out last.
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
	t := NewTable(Columns("QUEUE~", "TASK", "CONTAINER~", "KIND", "FILLED", "IN>?", "OUT>?", "WAITING~")...)
	for _, q := range queues(c) {
		now := clock(c, q.task)
		t.Row(q.r.Name, Task(q.task.Task), container(q.r.Container), strings.TrimSuffix(q.q.Kind, "Queue"), q.filled(), number(q.q.Enqueued), number(q.q.Dequeued),
			q.waits(now))
		t.Note(joined(q.closed(), q.last(now)))
	}
	return t
}

// Containers lists what the named containers hold, by task and container; the largest first.
func Containers(c *view.Cluster) *Table {
	t := NewTable(Columns("TASK", "DEVICE?", "CONTAINER~", "KIND", "NAME~", "BYTES>", "WHAT~")...)
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
			bytes = Bytes(r.e.Bytes)
		}
		what := r.e.Description
		if len(r.e.HeldBy) > 0 {
			what = joined(what, "held by step "+view.StepName(r.e.HeldBy[0]))
		}
		t.Row(Task(r.task.Task), device, container(r.e.Container), r.e.Kind, r.e.Name, bytes, what)
	}
	return t
}

// linkRank sorts links: what is wrong comes first.
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

// links gathers the links: those that are down or stalled first.
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
	t := NewTable(Columns("FROM", "TO", "STATE", "SINCE", "TRIP>", "QUEUED>", "SENT>?", "RECEIVED>?", "MESSAGES>?")...)
	for _, l := range links(c) {
		if unused(l.e) {
			continue
		}
		now := clock(c, l.task)
		t.Row(Task(l.task.Task), Task(l.e.Task), linkState(l.e, now), ago(now, l.e.Since), roundTrip(l.e), Bytes(l.e.Queued), Bytes(l.e.BytesSent),
			Bytes(l.e.BytesReceived), fmt.Sprintf("%d/%d", l.e.MessagesSent, l.e.MessagesReceived))
		t.Note(l.e.Reason)
	}
	return t
}

// EventLines are the events of all tasks in the order in which they happened, as lines: each begins with its time in a zone. They are
// no table, since more may follow.
func EventLines(c *view.Cluster, zone *time.Location, columns int) []string {
	all := entries(c, (*view.Task).GetEvents)
	slices.SortStableFunc(all, func(a, b of[*view.Event]) int { return cmp.Compare(a.e.At, b.e.At) })
	lines := make([]string, len(all))
	for i, e := range all {
		line := fmt.Sprintf("%s  %-18s  %-16s  %s", time.Unix(0, e.e.At).In(zone).Format("2006-01-02 15:04:05.000"), Task(e.task.Task), e.e.Kind, Task(e.e.Subject))
		if e.e.Text != "" {
			line += "  " + e.e.Text
		}
		if line = Plain(line); columns > 0 {
			line = Cut(line, columns)
		}
		lines[i] = line
	}
	return lines
}
