package quantized

import (
	"math"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// number is the integer type of the elements of a quantized type.
type number interface {
	int8 | uint8 | int16 | uint16 | int32
}

// limits returns the least and the greatest number of a type.
func limits[T number]() (lowest, highest int64) {
	bits := bitsOf[T]()
	if zero := T(0); zero-1 > zero {
		return 0, 1<<bits - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

func bitsOf[T number]() int {
	var v T
	return int(unsafe.Sizeof(v)) * 8
}

// span is a range of floats.
type span struct{ min, max float32 }

// first maps numbers of T to floats in the mode MIN_FIRST: the least number maps to the least float, rounded to a multiple of the scale.
type first struct{ scale, least float32 }

func firstOf[T number](s span) first {
	steps := float64(int64(1) << bitsOf[T]())
	scale := float32(float64(s.max-s.min) / (steps - 1))
	if s.max == s.min {
		return first{scale, s.min}
	}
	return first{scale, round(s.min/scale) * scale}
}

// float returns the float that a number represents.
func (f first) float(v, lowest float32) float32 {
	return (f.least - float32(lowest*f.scale)) + float32(v*f.scale)
}

// toFirst sets dst to the numbers nearest to the floats of src in the mode MIN_FIRST.
func toFirst[T number](dst []T, src []float32, s span) {
	lowest, highest := limits[T]()
	scale := float32(0)
	if s.max != s.min {
		scale = float32((float64(int64(1)<<bitsOf[T]()) - 1) / float64(s.max-s.min))
	}
	least := round(s.min * scale)
	from, to := max(float32(lowest), -2.147483648e+09), min(float32(highest), 2.147483520e+09)
	for i, v := range src {
		dst[i] = T(element.Trunc32(min(max(round(v*scale)-(least-float32(lowest)), from), to)))
	}
}

// round rounds to the nearest integer, and halves away from zero.
func round(v float32) float32 { return float32(math.Round(float64(v))) }

// clamp limits v to the range.
func (s span) clamp(v float32) float32 { return clamped(v, s.min, s.max) }

// clamped limits v to two bounds. A NaN bound has no effect.
func clamped[F element.Floating](v, low, high F) F {
	if v > high {
		v = high
	}
	if v < low {
		v = low
	}
	return v
}

// axisOf splits a shape at an axis: the sizes before, at and after it. With axis -1, the whole tensor is one slice.
func axisOf(shape tensor.Shape, axis int) (before, slices, after int) {
	if axis < 0 {
		return 1, 1, shape.Elements()
	}
	return shape[:axis].Elements(), int(shape[axis]), shape[axis+1:].Elements()
}
