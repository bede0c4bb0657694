package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// quantizeKernel is QuantizeV2, which converts floats to the nearest quantized numbers.
type quantizeKernel[T number] struct {
	dtype    tensor.DType
	mode     string
	toEven   bool // round halves to even instead of away from zero
	narrow   bool
	axis     int64
	minRange float32 // the minimum width of a range, relative to its larger end
}

// quantizeRows returns the rows for one type of numbers.
func quantizeRows[T number](dtype tensor.DType) []kernels.Def {
	return kernels.ForType("T", dtype, func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		mode, rounding, narrow := a.Str("mode"), a.Str("round_mode"), a.Bool("narrow_range")
		axis, least := a.Int("axis"), a.Float("ensure_minimum_range")
		if err := a.Err(); err != nil {
			return nil, err
		}
		switch {
		case mode != minCombined && mode != minFirst && mode != scaled:
			return nil, status.InvalidArgumentf("Mode string must be 'MIN_COMBINED', 'MIN_FIRST', or 'SCALED', is '%s'", mode)
		case rounding != "HALF_AWAY_FROM_ZERO" && rounding != "HALF_TO_EVEN":
			return nil, status.InvalidArgumentf("Round mode string must be 'HALF_AWAY_FROM_ZERO' or 'HALF_TO_EVEN', is '%s'", rounding)
		case rounding == "HALF_TO_EVEN" && mode != scaled:
			return nil, status.InvalidArgumentf("Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '%s'.", mode)
		}
		return &quantizeKernel[T]{dtype, mode, rounding == "HALF_TO_EVEN", narrow, max(axis, -1), least}, nil
	})
}

func (k *quantizeKernel[T]) Compute(ctx *kernels.Context) error {
	in, lows, highs := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	for i := range 3 {
		if err := args.CheckType(ctx, i, tensor.Float32); err != nil {
			return err
		}
	}
	if err := k.checkRanges(in, lows, highs); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, in.Shape())
	if err != nil {
		return err
	}
	before, slices, after := axisOf(in.Shape(), int(k.axis))
	var ends tensor.Shape
	if slices != 1 {
		if k.mode == minFirst {
			return status.Unimplementedf("MIN_FIRST mode is not implemented for Quantize with axis != -1.")
		}
		ends = lows.Shape()
	}
	outMin, err := ctx.Allocate(1, tensor.Float32, ends)
	if err != nil {
		return err
	}
	outMax, err := ctx.Allocate(2, tensor.Float32, ends)
	if err != nil {
		return err
	}
	src, dst := tensor.Of[float32](in), tensor.Of[T](out)
	end := ctx.Lookout()
	for i := range slices {
		if err := end.After(sliceTime * (before + 1)); err != nil {
			return err
		}
		s := span{tensor.Of[float32](lows)[i], tensor.Of[float32](highs)[i]}
		if s.max < s.min {
			return status.InvalidArgumentf("input_max_range must be larger than input_min_range.")
		}
		convert, used := k.conversion(k.widened(s))
		tensor.Of[float32](outMin)[i], tensor.Of[float32](outMax)[i] = used.min, used.max
		for b := range before {
			at := (b*slices + i) * after
			ctx.Parallel(after, element.CheapGrain, func(lo, hi int) { convert(dst[at+lo:at+hi], src[at+lo:at+hi]) })
		}
	}
	return nil
}

// sliceTime is the time in nanoseconds that a slice without elements takes.
const sliceTime = 64

// checkRanges checks the shapes of the ranges.
func (k *quantizeKernel[T]) checkRanges(in, lows, highs *tensor.Tensor) error {
	if k.axis >= int64(in.Rank()) {
		return status.InvalidArgumentf("Axis is on a zero-based index, so its value must always be less than number of input's dims, but given axis value was %d and input's dims was %d", k.axis, in.Rank())
	}
	const text = "If axis is specified, %[1]s must be a 1-D tensor whose size matches the axis dimension of the input and output tensors, but %[1]s "
	for i, name := range []string{"min_range", "max_range"} {
		t := []*tensor.Tensor{lows, highs}[i]
		switch {
		case k.axis < 0 && t.Len() != 1:
			return status.InvalidArgumentf("If axis is not specified, %s must contain a single float element, but it contains %d elements", name, t.Len())
		case k.axis < 0:
		case t.Rank() != 1:
			return status.InvalidArgumentf(text+"dims are %[2]d", name, t.Rank())
		case t.Len() != in.Dim(int(k.axis)):
			return status.InvalidArgumentf(text+"is a 1-D tensor of size %[2]d and input's axis dimension is of size %[3]d", name, t.Len(), in.Dim(int(k.axis)))
		}
	}
	return nil
}

// widened returns the range, extended to include zero and to have the minimum width.
func (k *quantizeKernel[T]) widened(s span) span {
	abs := func(v float32) float32 { return float32(math.Abs(float64(v))) }
	epsilon := larger(1, larger(abs(s.min), abs(s.max))) * k.minRange
	low := smaller(0, s.min)
	return span{low, larger(0, larger(s.max, low+epsilon))}
}

// conversion returns a function that quantizes floats of a range, and the range of the results.
func (k *quantizeKernel[T]) conversion(s span) (func(dst []T, src []float32), span) {
	lowest, highest := limits[T]()
	switch k.mode {
	case minFirst:
		return func(dst []T, src []float32) { toFirst(dst, src, s) }, s
	case minCombined:
		scale := float32(float64(highest-lowest) / float64(s.max-s.min))
		if lowest == 0 {
			return func(dst []T, src []float32) {
				for i, v := range src {
					dst[i] = T(element.Trunc32(float32((s.clamp(v)-s.min)*scale) + 0.5))
				}
			}, s
		}
		half := float32((float64(highest-lowest) + 1) / 2)
		return func(dst []T, src []float32) {
			for i, v := range src {
				dst[i] = T(element.Trunc32(round(float32((s.clamp(v)-s.min)*scale) - half)))
			}
		}, s
	}
	if k.narrow {
		lowest++
	}
	scale := min(sideScale(float32(lowest), s.min, math.MaxFloat32), sideScale(float32(highest), s.max, math.MaxFloat32))
	s = span{flushed(float32(lowest) / scale), flushed(float32(highest) / scale)}
	nearest := round
	if k.toEven {
		nearest = func(v float32) float32 { return float32(math.RoundToEven(float64(v))) }
	}
	return func(dst []T, src []float32) {
		for i, v := range src {
			dst[i] = T(element.Trunc32(nearest(s.clamp(v) * scale)))
		}
	}, s
}

// flushed returns 0 if v is subnormal, like TensorFlow's threads, which flush subnormals to zero.
func flushed(v float32) float32 {
	const least = 0x1p-126
	if v > -least && v < least {
		return 0
	}
	return v
}

// sideScale returns the scale that maps an end of a range to a number, or most if their signs differ.
func sideScale[F element.Floating](number, end, most F) F {
	if number*end > 0 {
		return number / end
	}
	return most
}
