package actors

import (
	"time"

	"github.com/troupe-run/troupe/internal/view"
)

// logCut names a step that is cancelled because the time to drain has ended.
func (t *Task) logCut(step uint64, session, master string, began int64, more ...any) {
	about := []any{"step", view.StepName(step), "session", session, "master", master, "seconds", time.Since(time.Unix(0, began)).Seconds()}
	t.Log.Warn("a step is cancelled: the time to drain has ended", append(about, more...)...)
}
