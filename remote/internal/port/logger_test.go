package port

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestLibraryLogsOneLevelLower checks that what the actor library logs is written one level lower, or not at all.
func TestLibraryLogsOneLevelLower(t *testing.T) {
	for _, c := range []struct{ least, level, written slog.Level }{
		{slog.LevelWarn, slog.LevelError, slog.LevelWarn},
		{slog.LevelInfo, slog.LevelWarn, slog.LevelInfo},
		{slog.LevelDebug, slog.LevelInfo, slog.LevelDebug},
	} {
		var b bytes.Buffer
		log := slog.New(quieter{slog.NewTextHandler(&b, &slog.HandlerOptions{Level: c.least})})
		log.Log(t.Context(), c.level, "said")
		log.Log(t.Context(), c.level-1, "not said")
		if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level="+c.written.String()+" msg=said") {
			t.Errorf("from %v on, a record of level %v is written as %q", c.least, c.level, got)
		}
	}
}
