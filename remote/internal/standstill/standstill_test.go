package standstill

import (
	"testing"
	"time"
)

func TestLook(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, looks := range map[string][]struct {
		at    time.Duration
		count int
		work  bool
		still time.Duration
	}{
		"work that has done nothing before the first look": {{0, 0, true, 0}, {time.Second, 0, true, time.Second}, {3 * time.Second, 0, true, 3 * time.Second}},
		"work that goes on": {{0, 5, true, 0}, {time.Second, 6, true, 0}, {2 * time.Second, 6, true, time.Second}, {3 * time.Second, 7, true, 0}},
		"work that begins after a rest": {{0, 0, false, 0}, {time.Hour, 0, false, 0}, {time.Hour + time.Second, 0, true, time.Second},
			{time.Hour + 2*time.Second, 0, false, 0}},
		"a count that begins anew": {{0, 9, true, 0}, {time.Second, 9, true, time.Second}, {2 * time.Second, 0, true, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var w Watch[int]
			for _, l := range looks {
				if still := w.Look(begin.Add(l.at), l.count, l.work); still != l.still {
					t.Errorf("after %v: %v, want %v", l.at, still, l.still)
				}
			}
		})
	}
}
