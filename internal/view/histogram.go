package view

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// buckets is the number of bounds in a Durations. The last bound is 2^(buckets-1) times 16 microseconds, about two minutes.
const buckets = 24

// BucketBound returns the upper bound of a bucket of a Histogram; ok is false for the last one, which has none.
func BucketBound(i int) (bound time.Duration, ok bool) {
	return 16 * time.Microsecond << i, i < buckets
}

// Durations counts durations. The zero value is empty. All methods may be called concurrently.
type Durations struct {
	counts [buckets + 1]atomic.Int64
	sum    atomic.Int64
}

// Add counts a duration n times.
func (d *Durations) Add(took time.Duration, n int64) {
	took = max(took, 0)
	i := 0
	if took > 16*time.Microsecond {
		i = min(bits.Len64(uint64((took-1)/(16*time.Microsecond))), buckets)
	}
	d.counts[i].Add(n)
	d.sum.Add(n * int64(took))
}

// Histogram returns the counts so far.
func (d *Durations) Histogram() *Histogram {
	h := &Histogram{Counts: make([]int64, len(d.counts)), Sum: time.Duration(d.sum.Load()).Seconds()}
	for i := range d.counts {
		h.Counts[i] = d.counts[i].Load()
	}
	return h
}

// Count returns the number of durations in a histogram.
func (h *Histogram) Count() (n int64) {
	for _, c := range h.GetCounts() {
		n += c
	}
	return n
}

// Quantile estimates the duration that a fraction q of all durations, from 0 to 1, do not exceed: the upper bound of its bucket, or twice
// the last bound. It is 0 if there are no durations.
func (h *Histogram) Quantile(q float64) time.Duration {
	left := int64(q*float64(h.Count()) + 0.5)
	for i, c := range h.GetCounts() {
		if left -= c; left <= 0 && c > 0 {
			bound, _ := BucketBound(i)
			return bound
		}
	}
	return 0
}
