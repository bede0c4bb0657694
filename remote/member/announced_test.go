package member

import (
	"log/slog"
	"testing"

	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
)

// TestTaskChanges checks which losses are warnings: those that were not announced, whether gossip or the link learned of the goodbye, and which came
// first, and whether or not the task's next process was up before anybody noticed.
func TestTaskChanges(t *testing.T) {
	up := func(boot uint64) sighting { return sighting{TaskStatus: TaskStatus{State: stateUp, Boot: boot}} }
	leaving := sighting{up(1).TaskStatus, true}
	down := func(boot uint64, reason string) sighting {
		return sighting{TaskStatus: TaskStatus{State: stateDown, Boot: boot, Reason: reason}}
	}
	const broken = "the connection was reset"
	for _, c := range []struct {
		before, now sighting
		kind        string
		level       slog.Level
	}{
		{up(1), down(1, broken), "task down", slog.LevelWarn},
		{up(1), down(1, ""), "task down", slog.LevelWarn},
		{up(1), down(1, membership.HasLeft), "task down", slog.LevelInfo},
		{up(1), down(1, link.Leaving+": its server is stopping"), "task down", slog.LevelInfo},
		{leaving, down(1, broken), "task down", slog.LevelInfo},
		{leaving, down(2, broken), "task down", slog.LevelWarn}, // the next process of the task
		{sighting{}, down(1, broken), "task down", slog.LevelWarn},
		{sighting{}, up(1), "task up", slog.LevelInfo},
		{down(1, broken), up(2), "task up", slog.LevelInfo},
		{up(1), leaving, "task leaving", slog.LevelInfo},
		{up(1), up(2), "task restarted", slog.LevelWarn},
		{leaving, up(2), "task restarted", slog.LevelInfo},
	} {
		if kind, level := taskChange(c.before, c.now); kind != c.kind || level != c.level {
			t.Errorf("from %+v to %+v: %s %q, not %s %q", c.before, c.now, level, kind, c.level, c.kind)
		}
	}
}

// Tasks that log together log a change once, however many see it, and again when one sees it again. Others log all that they see.
func TestTogether(t *testing.T) {
	var together Together
	now := TaskStatus{Task: "w", Boot: 1}
	next := TaskStatus{Task: "w", Boot: 2}
	for i, s := range []struct {
		by, kind string
		now      TaskStatus
		want     bool
	}{
		{"a", "task up", now, true}, {"b", "task up", now, false}, {"a", "task down", now, true}, {"a", "task up", now, true}, {"c", "task up", now, false},
		{"b", "task down", now, false}, {"b", "task up", now, false}, {"b", "task up", now, true}, {"b", "task up", next, true}, {"a", "task up", next, false},
	} {
		if got := together.first(s.by, s.kind, s.now); got != s.want {
			t.Errorf("line %d: %s is logged for %s: %v", i, s.kind, s.by, got)
		}
		if !(*Together)(nil).first(s.by, s.kind, s.now) {
			t.Error("a task alone does not log what it sees")
		}
	}
}
