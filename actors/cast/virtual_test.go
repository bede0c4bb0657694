package cast

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// A message to a virtual actor that moves is sent anew for some time each time that the actor has no task: a request may wait for it for hours, also more
// than once. Without a task, it fails in time.
func TestMessagesAnew(t *testing.T) {
	for name, c := range map[string]struct {
		waits []time.Duration // at tasks, before the actor moves
		gone  time.Duration   // how long it has no task each time
		fails bool
	}{
		"it moves":                     {[]time.Duration{0}, 10 * time.Second, false},
		"it moves twice":               {[]time.Duration{2 * time.Hour, 2 * time.Hour}, 10 * time.Second, false},
		"it moves again and again":     {[]time.Duration{0, time.Minute, 25 * time.Hour, 61 * time.Second}, 14 * time.Second, false},
		"it has no task":               {[]time.Duration{0}, time.Hour, true},
		"it has no task after a while": {[]time.Duration{2 * time.Hour}, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left, there := slices.Clone(c.waits), time.Now()
				s := &Cast{life: context.Background()}
				err := s.anew(t.Context(), true, func() error {
					if time.Now().Before(there) {
						return elsewhere("it has no task")
					}
					if len(left) == 0 {
						return nil
					}
					time.Sleep(left[0])
					left, there = left[1:], time.Now().Add(c.gone)
					return elsewhere("it moves")
				})
				if c.fails != (status.CodeOf(err) == status.Unavailable) || len(left) > 0 {
					t.Errorf("%v, with %d moves left", err, len(left))
				}
				if waited := time.Since(there.Add(-c.gone)); c.fails && waited > relocateWithin {
					t.Errorf("it fails %v after the move", waited)
				}
			})
		})
	}
}
