package pipeline

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// A step is repeated for its time after each loss: what waits for hours between two outages outlives both. What is not back in time fails, however
// long each attempt takes to find that out.
func TestRetriedAfterEachLoss(t *testing.T) {
	const limit, outage = time.Minute, 40 * time.Second
	for name, c := range map[string]struct {
		waits   []time.Duration // of the step at its server, before each loss
		attempt time.Duration   // how long it takes while the server is not there
		over    bool            // the server does not come back after the last loss
		fails   time.Duration   // at the latest, after that
	}{
		"lost once":                {[]time.Duration{2 * time.Hour}, 0, false, 0},
		"lost twice":               {[]time.Duration{0, 2 * time.Hour}, 0, false, 0},
		"lost again and again":     {[]time.Duration{time.Hour, 31 * time.Second, 25 * time.Hour, time.Minute}, 5 * time.Second, false, 0},
		"lost for good":            {[]time.Duration{2 * time.Hour}, 0, true, limit},
		"lost for good at last":    {[]time.Duration{time.Minute, 2 * time.Hour}, 0, true, limit},
		"lost without any refusal": {[]time.Duration{2 * time.Hour}, 20 * time.Second, true, limit + 20*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := c.waits
				back := time.Time{} // when the server is there
				_, err := retried(t.Context(), limit, func() (int, error) {
					lost := status.Errorf(status.Unavailable, "lost")
					switch {
					case time.Now().Before(back):
						time.Sleep(c.attempt)
						return 0, lost
					case len(left) == 0:
						return 1, nil
					}
					time.Sleep(left[0])
					left = left[1:]
					back = time.Now().Add(outage)
					if c.over && len(left) == 0 {
						back = time.Now().Add(24 * 365 * time.Hour)
					}
					return 0, lost
				})
				if c.over != (status.CodeOf(err) == status.Unavailable) || len(left) > 0 {
					t.Errorf("%v, with %d losses left", err, len(left))
				}
				if since := time.Since(back.Add(-24 * 365 * time.Hour)); c.over && since > c.fails {
					t.Errorf("it fails %v after the loss", since)
				}
			})
		})
	}
}
