package summary

import (
	"math"
	"slices"
	"sync"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// bucketLimits are the upper ends of a histogram's buckets: each a tenth farther from zero than the
// one before, from 1e-12 to 1e20 on both sides.
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

// histogram counts values in buckets.
type histogram struct {
	min, max, num, sum, squares float64
	counts                      []float64
}

func newHistogram() *histogram {
	return &histogram{min: math.MaxFloat64, max: -math.MaxFloat64, counts: make([]float64, len(bucketLimits()))}
}

func (h *histogram) add(v float64) {
	// A bucket does not hold its upper end.
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

// proto is the histogram as a message, in which buckets without values that follow each other are one.
func (h *histogram) proto() *summarypb.HistogramProto {
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

// histogramValue is the summary of a tensor's distribution. nan and inf are the errors for values of these kinds.
func histogramValue(tag string, t *tensor.Tensor, nan, inf string) (*summarypb.Summary_Value, error) {
	h := newHistogram()
	var block [512]float64
	for i := 0; i < t.Len(); i += len(block) {
		part := block[:min(len(block), t.Len()-i)]
		if !realParts64.read(part, t, i) {
			return nil, unsupportedSummary(t.DType())
		}
		for _, v := range part {
			switch {
			case v != v:
				return nil, status.New(status.InvalidArgument, nan)
			case math.IsInf(v, 0):
				return nil, status.New(status.InvalidArgument, inf)
			}
			h.add(v)
		}
	}
	return &summarypb.Summary_Value{Tag: tag, Value: &summarypb.Summary_Value_Histo{Histo: h.proto()}}, nil
}

// unsupportedSummary is the error for elements that are no numbers.
func unsupportedSummary(t tensor.DType) error {
	return status.Unimplementedf("SummaryFileWriter %v not supported.", t)
}

// realParts set dst to the elements of a tensor from a position on, those of complex types to their real parts. Types
// that are no numbers have none.
type realParts[D element.Floating] map[tensor.DType]func(dst []D, t *tensor.Tensor, from int)

var (
	realParts32 = newRealParts[float32]()
	realParts64 = newRealParts[float64]()
)

func newRealParts[D element.Floating]() realParts[D] {
	return realParts[D]{
		tensor.Float32: convertPart[float32, D], tensor.Float64: convertPart[float64, D],
		tensor.Float16:  realPart[D](func(v element.Float16) float64 { return float64(v.Float()) }),
		tensor.BFloat16: realPart[D](func(v element.BFloat16) float64 { return float64(v.Float()) }),
		tensor.Int8:     convertPart[int8, D], tensor.Int16: convertPart[int16, D],
		tensor.Int32: convertPart[int32, D], tensor.Int64: convertPart[int64, D],
		tensor.Uint8: convertPart[uint8, D], tensor.Uint16: convertPart[uint16, D],
		tensor.Uint32: convertPart[uint32, D], tensor.Uint64: convertPart[uint64, D],
		tensor.Bool:       convertPart[uint8, D],
		tensor.Complex64:  realPart[D](func(v complex64) float64 { return float64(real(v)) }),
		tensor.Complex128: realPart[D](func(v complex128) float64 { return real(v) }),
	}
}

// read sets dst, and tells whether the elements are numbers.
func (r realParts[D]) read(dst []D, t *tensor.Tensor, from int) bool {
	part, ok := r[t.DType()]
	if ok {
		part(dst, t, from)
	}
	return ok
}

func convertPart[S element.Integer | element.Floating, D element.Floating](dst []D, t *tensor.Tensor, from int) {
	element.Convert(dst, tensor.Of[S](t)[from:][:len(dst)])
}

func realPart[D element.Floating, S tensor.Elem](number func(S) float64) func(dst []D, t *tensor.Tensor, from int) {
	return func(dst []D, t *tensor.Tensor, from int) {
		for i, v := range tensor.Of[S](t)[from:][:len(dst)] {
			dst[i] = D(number(v))
		}
	}
}
