package remote

import (
	"log/slog"
	"testing"

	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
)

// TestTaskChanges checks which losses are warnings: those that were not announced, whether gossip or the link learned of the goodbye, and which came
// first, and whether or not the task's next process was up before anybody noticed.
func TestTaskChanges(t *testing.T) {
	up := func(boot uint64) TaskStatus { return TaskStatus{State: stateUp, Boot: boot} }
	leaving := TaskStatus{State: stateUp, Boot: 1, Reason: "it is leaving"}
	down := func(boot uint64, reason string) TaskStatus {
		return TaskStatus{State: stateDown, Boot: boot, Reason: reason}
	}
	const broken = "the connection was reset"
	for _, c := range []struct {
		before, now TaskStatus
		kind        string
		level       slog.Level
	}{
		{up(1), down(1, broken), "task down", slog.LevelWarn},
		{up(1), down(1, ""), "task down", slog.LevelWarn},
		{up(1), down(1, membership.HasLeft), "task down", slog.LevelInfo},
		{up(1), down(1, link.Leaving+": its server is stopping"), "task down", slog.LevelInfo},
		{leaving, down(1, broken), "task down", slog.LevelInfo},
		{leaving, down(2, broken), "task down", slog.LevelWarn}, // the next process of the task
		{TaskStatus{}, down(1, broken), "task down", slog.LevelWarn},
		{TaskStatus{}, up(1), "task up", slog.LevelInfo},
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
