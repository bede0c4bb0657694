package show

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/bytesize"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
)

// Order is what the tasks of a Screen are sorted by.
type Order byte

// The orders, by the keys that choose them.
const (
	ByName    Order = 'n' // as declared
	ByCPU     Order = 'c'
	ByMemory  Order = 'm'
	BySteps   Order = 's'
	ByErrors  Order = 'e'
	ByLatency Order = 'l'
)

// orders are the names of the orders.
var orders = map[Order]string{ByName: "name", ByCPU: "CPU", ByMemory: "memory", BySteps: "steps", ByErrors: "errors", ByLatency: "latency"}

// Known reports whether the order exists.
func (o Order) Known() bool { return orders[o] != "" }

// Orders returns the keys with their meanings, for a line of help.
const Orders = "n name, c CPU, m memory, s steps, e errors, l latency"

// Screen is what top shows of a cluster at a moment.
type Screen struct {
	Before  *view.Cluster // an earlier look, which rates are computed from; nil for none
	Now     *view.Cluster
	Reasons []view.Reason // why steps do not end
	Order   Order
	// Columns and Lines are the size of the terminal; 0 for any.
	Columns, Lines int
	// Trouble is why what is shown is not up to date; empty if it is.
	Trouble string
}

// rates is what a task did between two looks. Unknown rates are NaN.
type rates struct {
	task           *view.Task
	place          int
	cpu            float64 // of one processor
	memory         int64
	steps, errors  float64 // in a second
	latency        *view.Histogram
	sent, received float64 // bytes in a second
}

func failures(t *view.Totals) (n int64) {
	for _, of := range t.GetStepsFailed() {
		n += of
	}
	return n
}

// rate returns a task's rates since an earlier look; without one, only what it has now.
func rate(before, now *view.Task, place int) rates {
	nan := math.NaN()
	p := now.GetProcess()
	r := rates{task: now, place: place, cpu: nan, steps: nan, errors: nan, sent: nan, received: nan, latency: &view.Histogram{},
		memory: cmp.Or(p.GetResident(), p.GetMemoryInUse())}
	seconds := time.Duration(p.GetClock() - before.GetProcess().GetClock()).Seconds()
	if before.GetProcess() == nil || p == nil || before.Process.Boot != p.Boot || seconds <= 0 {
		return r
	}
	a, b := before.GetTotals(), now.GetTotals()
	r.steps = float64(b.GetStepsDone()+failures(b)-a.GetStepsDone()-failures(a)) / seconds
	r.errors = float64(failures(b)-failures(a)) / seconds
	r.sent, r.received = float64(b.GetBytesSent()-a.GetBytesSent())/seconds, float64(b.GetBytesReceived()-a.GetBytesReceived())/seconds
	if p.CpuSeconds > 0 {
		r.cpu = (p.CpuSeconds - before.Process.CpuSeconds) / seconds
	}
	earlier := a.GetStepSeconds().GetCounts()
	for i, n := range b.GetStepSeconds().GetCounts() {
		if i < len(earlier) {
			n -= earlier[i]
		}
		r.latency.Counts = append(r.latency.Counts, n)
	}
	return r
}

// of returns the value that an order sorts by, the greatest first.
func (r *rates) of(o Order) float64 {
	known := func(f float64) float64 {
		if math.IsNaN(f) {
			return -1
		}
		return f
	}
	switch o {
	case ByCPU:
		return known(r.cpu)
	case ByMemory:
		return float64(r.memory)
	case BySteps:
		return known(r.steps)
	case ByErrors:
		return known(r.errors)
	case ByLatency:
		return r.latency.Quantile(0.99).Seconds()
	}
	return -float64(r.place)
}

func perSecond(f float64) string {
	if math.IsNaN(f) {
		return "-"
	}
	return digits(f)
}

func percent(f float64) string {
	if math.IsNaN(f) {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", f*100)
}

// quantile returns a latency as text. A histogram knows it up to a factor of two.
func quantile(h *view.Histogram, q float64) string {
	d := h.Quantile(q)
	switch {
	case d == 0:
		return "-"
	case d < time.Millisecond:
		return fmt.Sprintf("<%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("<%dms", (d + time.Millisecond - 1).Milliseconds())
	}
	return "<" + digits(d.Seconds()) + "s"
}

// rates returns the rates of all tasks, in the screen's order.
func (s *Screen) rates() []rates {
	earlier := map[string]*view.Task{}
	for _, t := range s.Before.GetTasks() {
		earlier[t.Task] = t
	}
	all := make([]rates, len(s.Now.Tasks))
	for i, t := range s.Now.Tasks {
		all[i] = rate(earlier[t.Task], t, i)
	}
	slices.SortStableFunc(all, func(a, b rates) int { return cmp.Compare(b.of(s.Order), a.of(s.Order)) })
	return all
}

// Render returns as many lines of the screen as fit.
func (s *Screen) Render() []string {
	all := s.rates()
	lines := s.head(all)
	blocks := [][]string{s.tasks(all), s.steps(), s.queues(), s.links()}
	if s.Lines > 0 {
		blocks = s.fit(blocks, s.Lines-len(lines))
	}
	for _, b := range blocks {
		if len(b) > 0 {
			lines = append(append(lines, ""), b...)
		}
	}
	if s.Columns > 0 {
		for i, line := range lines {
			lines[i] = Cut(line, s.Columns)
		}
	}
	return lines
}

// fit shortens the blocks to the given number of lines in total, with an empty line before each. Each gets an equal share, and lines that
// one does not need go to the others. The last line of a shortened block says how many lines are missing.
func (s *Screen) fit(blocks [][]string, lines int) [][]string {
	blocks = slices.DeleteFunc(blocks, func(b []string) bool { return len(b) == 0 })
	quotas, left := make([]int, len(blocks)), lines-len(blocks)
	for changed := true; changed && left > 0; {
		changed = false
		for i, b := range blocks {
			if quotas[i] < len(b) && left > 0 {
				quotas[i]++
				left--
				changed = true
			}
		}
	}
	for i, b := range blocks {
		switch q := quotas[i]; {
		case q < 2:
			blocks[i] = nil
		case q < len(b):
			blocks[i] = append(slices.Clone(b[:q-1]), fmt.Sprintf("… %d more lines", len(b)-q+1))
		}
	}
	return blocks
}

// head returns a summary of the cluster.
func (s *Screen) head(all []rates) []string {
	states := map[string]int{}
	var sessions, running, steps, failing float64
	for _, r := range all {
		states[r.task.State]++
		sessions += float64(len(r.task.Sessions)) + float64(r.task.Omitted["sessions"])
		for _, session := range r.task.Sessions {
			running += float64(session.Steps)
		}
		if !math.IsNaN(r.steps) {
			steps += r.steps
			failing += r.errors
		}
	}
	var parts []string
	for _, state := range []string{"up", "silent", "down", "never seen"} {
		if n := states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	line := fmt.Sprintf("%s  %s: %s; %s; %s; %s steps/s, %s errors/s; sorted by %s", time.Unix(0, s.Now.Clock).Format(time.TimeOnly),
		view.Count(int64(len(all)), "task"), strings.Join(parts, ", "), view.Count(int64(sessions), "session"), view.Count(int64(running), "running step"), digits(steps), digits(failing), orders[s.Order])
	lines := wrap(line, s.Columns)
	if s.Trouble != "" {
		lines = append(lines, plain.Line(s.Trouble))
	}
	return lines
}

func (s *Screen) tasks(all []rates) []string {
	t := NewTable("no tasks", Columns("TASK", "STATE", "CPU>", "MEMORY>", "STEPS/S>", "ERRORS/S>", "P50>", "P99>", "SESSIONS>?", "CLIENTS>?", "SENT/S>?", "RECEIVED/S>?")...)
	for _, r := range all {
		if r.task.State != "up" {
			t.Row(Task(r.task.Task), r.task.State)
			t.Note(r.task.Reason)
			continue
		}
		network := func(f float64) string {
			if math.IsNaN(f) {
				return "-"
			}
			return bytesize.Text(int64(f))
		}
		t.Row(Task(r.task.Task), r.task.State, percent(r.cpu), bytesize.Text(r.memory), perSecond(r.steps), perSecond(r.errors), quantile(r.latency, 0.5), quantile(r.latency, 0.99),
			number(int64(len(r.task.Sessions))+r.task.Omitted["sessions"]), number(r.task.GetTotals().GetClientConnections()), network(r.sent), network(r.received))
		t.Note(refusing(r.task))
	}
	return t.Lines(s.Columns)
}

// steps lists the steps that have run for longer than Slow.
func (s *Screen) steps() []string {
	if len(s.Reasons) == 0 {
		return nil
	}
	slow := &view.Cluster{Clock: s.Now.Clock}
	for _, t := range s.Now.Tasks {
		only := &view.Task{Task: t.Task, Process: t.Process}
		for _, st := range t.Steps {
			if slices.ContainsFunc(s.Reasons, func(r view.Reason) bool { return r.Step == st.Id }) {
				only.Steps = append(only.Steps, st)
			}
		}
		slow.Tasks = append(slow.Tasks, only)
	}
	return Steps(slow, s.Reasons).Lines(s.Columns)
}

func (s *Screen) queues() []string {
	if len(queues(s.Now)) == 0 {
		return nil
	}
	return Queues(s.Now).Lines(s.Columns)
}

func (s *Screen) links() []string {
	t := Links(s.Now)
	if t.Len() == 0 {
		return nil
	}
	return t.Lines(s.Columns)
}
