package show

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/view"
)

// Age is how long ago something was, in nanoseconds, in one unit: 3s, 5m, 2h, 4d.
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

// ago tells when something was; a dash if that is not known.
func ago(now, then int64) string {
	if then == 0 {
		return "-"
	}
	return Age(now-then) + " ago"
}

// Bytes is a size in three digits or four: 512B, 1.5KiB, 20MiB.
func Bytes(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + "B"
	}
	f := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f /= 1 << 10; f < 1000 || unit == "TiB" {
			return digits(f) + unit
		}
	}
	return ""
}

// digits is a number with a fraction where it is small.
func digits(f float64) string {
	if f < 10 {
		return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Task is a task's name as TensorFlow's programs write it: /job:ps/task:0.
func Task(name string) string { return strings.Replace(name, "/replica:0", "", 1) }

// shortTasks has the names of tasks in a text as Task does.
func shortTasks(text string) string { return strings.ReplaceAll(text, "/replica:0", "") }

// taskList is tasks in a few words: those of one job share its name.
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

// container is a container's name, of which the default one is empty.
func container(name string) string { return cmp.Or(name, "(default)") }

// clock is the present moment on a task.
func clock(c *view.Cluster, t *view.Task) int64 {
	return cmp.Or(t.GetProcess().GetClock(), c.GetClock())
}

// plural counts things.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Missing tells what a look at a section does not show: the entries that the limit left out, and the tasks that did not
// tell.
func Missing(c *view.Cluster, section, entries string) []string {
	var lines []string
	for _, t := range c.Tasks {
		if n := t.Omitted[section]; n > 0 {
			lines = append(lines, fmt.Sprintf("%s has %d more %s than are listed (--limit)", Task(t.Task), n, entries))
		}
	}
	if section == "links" {
		if n := Unused(c); n > 0 {
			lines = append(lines, plural(int64(n), "link", "links")+" that nothing has needed yet left out")
		}
	}
	for _, t := range c.Tasks {
		if t.State != "up" {
			lines = append(lines, Plain(notUp(c, t)))
		}
	}
	return lines
}

// notUp tells of a task that is not up.
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
