// Package histogram builds the histograms of summaries.
package histogram

import (
	"math"
	"slices"
	"sync"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
)

// bucketLimits returns the upper bounds of a histogram's buckets: each is 10% farther from zero than the one before, from 1e-12 to 1e20 on
// both sides.
var bucketLimits = sync.OnceValue(func() []float64 {
	var up []float64
	for v := 1.0e-12; v < 1.0e20; v *= 1.1 {
		up = append(up, v)
	}
	up = append(up, math.MaxFloat64)
	limits := make([]float64, 0, 2*len(up)+1)
	for _, v := range slices.Backward(up) {
		limits = append(limits, -v)
	}
	return append(append(limits, 0), up...)
})

// Histogram counts values in buckets. It is not safe for concurrent use.
type Histogram struct {
	min, max, num, sum, squares float64
	counts                      []float64
}

// New returns an empty histogram.
func New() *Histogram {
	return &Histogram{min: math.MaxFloat64, max: -math.MaxFloat64, counts: make([]float64, len(bucketLimits()))}
}

// Add counts a value.
func (h *Histogram) Add(v float64) {
	// A bucket excludes its upper bound.
	limits := bucketLimits()
	lo, hi := 0, len(limits)
	for lo < hi {
		if mid := (lo + hi) / 2; limits[mid] > v {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	h.counts[min(lo, len(limits)-1)]++
	h.min, h.max = min(h.min, v), max(h.max, v)
	h.num++
	h.sum += v
	h.squares += float64(v * v)
}

// Proto returns the histogram as a message in which consecutive empty buckets are merged.
func (h *Histogram) Proto() *summarypb.HistogramProto {
	p := &summarypb.HistogramProto{Min: h.min, Max: h.max, Num: h.num, Sum: h.sum, SumSquares: h.squares}
	limits := bucketLimits()
	for i := 0; i < len(h.counts); i++ {
		if h.counts[i] == 0 {
			for i+1 < len(h.counts) && h.counts[i+1] == 0 {
				i++
			}
		}
		p.BucketLimit = append(p.BucketLimit, limits[i])
		p.Bucket = append(p.Bucket, h.counts[i])
	}
	return p
}
