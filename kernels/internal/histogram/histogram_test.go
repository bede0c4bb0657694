package histogram

import (
	"math"
	"slices"
	"testing"
)

// TestHistogram compares buckets and sums with ones that are counted value by value. A bucket excludes its upper bound.
func TestHistogram(t *testing.T) {
	limits := bucketLimits()
	values := []float64{0, 0, 1e-13, -1e-13, 1, -1, 3.5, -2e19, 1e300, limits[900], limits[900], math.Nextafter(limits[900], 0), math.MaxFloat64}
	h := New()
	want := make([]float64, len(limits))
	var sum, squares float64
	for _, v := range values {
		h.Add(v)
		i := slices.IndexFunc(limits, func(limit float64) bool { return v < limit })
		if i < 0 {
			i = len(limits) - 1 // the last bucket includes its bound
		}
		want[i]++
		sum += v
		squares += v * v
	}
	p := h.Proto()
	if p.Num != float64(len(values)) || p.Min != -2e19 || p.Max != math.MaxFloat64 || p.Sum != sum || p.SumSquares != squares {
		t.Errorf("the histogram is %v", p)
	}
	got, at := make([]float64, len(limits)), 0
	for i, limit := range p.BucketLimit {
		if i > 0 && p.Bucket[i] == 0 && p.Bucket[i-1] == 0 {
			t.Errorf("two empty buckets follow one another, up to %v and %v", p.BucketLimit[i-1], limit)
		}
		for at < len(limits) && limits[at] < limit {
			at++
		}
		got[at] = p.Bucket[i]
	}
	if !slices.Equal(got, want) {
		t.Errorf("the buckets are %v\nwith the bounds %v", p.Bucket, p.BucketLimit)
	}
	if p := New().Proto(); p.Num != 0 || len(p.Bucket) != 1 || p.Bucket[0] != 0 || p.BucketLimit[0] != math.MaxFloat64 {
		t.Errorf("an empty histogram is %v", p)
	}
}
