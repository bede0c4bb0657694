// Package standstill measures for how long work has made no progress.
package standstill

import "time"

// Watch observes a count that changes while work makes progress. Its zero value is ready to use. It must not be used concurrently.
type Watch[C comparable] struct {
	count C
	since time.Time // of the last Look that found a changed count or no work; zero before the first Look
}

// Look records the count, and whether there is work that should change it. It returns for how long successive calls have found work and
// an unchanged count. It returns 0 when it finds work for the first time.
func (w *Watch[C]) Look(now time.Time, count C, work bool) time.Duration {
	if !work || count != w.count || w.since.IsZero() {
		w.count, w.since = count, now
	}
	return now.Sub(w.since)
}
