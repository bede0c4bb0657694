package summary

import (
	"math"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/histogram"
)

// binTime is the time in nanoseconds to find a number's bin.
const binTime = 16

// histogramValue returns the summary of a tensor's distribution. nan and inf are the error texts for values of these kinds.
func histogramValue(ctx *kernels.Context, tag string, t *tensor.Tensor, nan, inf string) (*summarypb.Summary_Value, error) {
	h := histogram.New()
	var block [512]float64
	end := ctx.Lookout()
	for i := 0; i < t.Len(); i += len(block) {
		if err := end.After(binTime * len(block)); err != nil {
			return nil, err
		}
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
			h.Add(v)
		}
	}
	return &summarypb.Summary_Value{Tag: tag, Value: &summarypb.Summary_Value_Histo{Histo: h.Proto()}}, nil
}

// unsupportedSummary returns the error for elements that are not numbers.
func unsupportedSummary(t tensor.DType) error {
	return status.Unimplementedf("SummaryFileWriter %v not supported.", t)
}

// realParts maps types to functions that set dst to a tensor's elements, starting at a position; for complex types, to their real parts.
// Types that are not numbers have no function.
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

// read sets dst to the elements starting at from, and reports whether they are numbers.
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
