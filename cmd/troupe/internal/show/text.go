package show

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
)

// Age formats an age in nanoseconds in one unit: 3s, 5m, 2h, 4d.
func Age(nanoseconds int64) string {
	d := max(time.Duration(nanoseconds), 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// ago returns when something was, or a dash if that is not known.
func ago(now, then int64) string {
	if then == 0 {
		return "-"
	}
	return Age(now-then) + " ago"
}

// digits formats a number, with a fraction if it is small.
func digits(f float64) string {
	if f < 10 {
		return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Task returns a task's name as TensorFlow's programs write it: /job:ps/task:0.
func Task(name string) string { return strings.Replace(name, "/replica:0", "", 1) }

// shortTasks shortens the names of tasks in a text as Task does.
func shortTasks(text string) string { return strings.ReplaceAll(text, "/replica:0", "") }

// taskList names tasks briefly: those of one job share its name.
func taskList(names []string) string {
	const listed = 3
	short := make([]string, 0, listed+1)
	for i, n := range names {
		if i == listed {
			short = append(short, fmt.Sprintf("%d more", len(names)-i))
			break
		}
		short = append(short, Task(n))
	}
	return strings.Join(short, ", ")
}

// container returns a container's name for people. The default container has an empty name.
func container(name string) string { return cmp.Or(name, "(default)") }

// clock returns the present time on a task.
func clock(c *view.Cluster, t *view.Task) int64 {
	return cmp.Or(t.GetProcess().GetClock(), c.GetClock())
}

// Missing describes what a section does not show: the entries that the limit left out, the tasks that did not answer, and
// below resources the tasks that refuse changes of those that are durable.
func Missing(c *view.Cluster, section, entries string) []string {
	var lines []string
	for _, t := range c.Tasks {
		if n := t.Omitted[section]; n > 0 {
			lines = append(lines, fmt.Sprintf("%s has %d more %s than are listed (--limit)", Task(t.Task), n, entries))
		}
	}
	if section == "links" {
		if n := Unused(c); n > 0 {
			lines = append(lines, view.Count(int64(n), "link")+" that nothing has needed yet left out")
		}
	}
	for _, t := range c.Tasks {
		if t.State != "up" {
			lines = append(lines, plain.Line(notUp(c, t)))
		}
	}
	if section == "resources" {
		for _, t := range c.Tasks {
			if why := refusing(t); why != "" {
				lines = append(lines, Task(t.Task)+" "+why)
			}
		}
	}
	return lines
}

// refusing says that a task refuses changes of durable containers, and why; it is empty if it does not.
func refusing(t *view.Task) string {
	why := t.GetData().GetRefusing()
	if why == "" {
		return ""
	}
	return plain.Line("refuses what adds to durable containers: " + why)
}

// notUp describes a task that is not up.
func notUp(c *view.Cluster, t *view.Task) string {
	text := fmt.Sprintf("%s is %s", Task(t.Task), t.State)
	if t.Since > 0 && t.State == "down" {
		text += " for " + Age(c.Clock-t.Since)
	}
	if t.Reason != "" {
		text += ": " + t.Reason
	}
	return text
}
