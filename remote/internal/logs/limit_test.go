package logs

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimit checks that a flood of one message is cut short and counted, and leaves room for others.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := slog.New(Limit(slog.NewTextHandler(&out, nil)))
		other := log.With("task", 1).WithGroup("g")
		for range 5000 {
			log.Warn("flood")
			other.Warn("flood", "n", 2)
		}
		log.Warn("another")
		if n := strings.Count(out.String(), "msg=flood"); n != burst {
			t.Errorf("%d records were written", n)
		}
		if !strings.Contains(out.String(), "msg=another") {
			t.Error("another message was displaced")
		}
		out.Reset()
		time.Sleep(time.Second)
		log.Warn("flood")
		if want := "msg=flood suppressed=9950"; !strings.Contains(out.String(), want) {
			t.Errorf("%s, want %s", &out, want)
		}
	})
}
