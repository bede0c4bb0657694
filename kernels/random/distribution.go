package random

import (
	"math"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// distribution makes elements of random numbers, group elements at a time.
type distribution[T any] struct {
	group int
	// fixed makes a group of four numbers; variable of as many as it takes. One of them is there.
	fixed    func(x [4]uint32, dst *[4]T)
	variable func(x *philox.Numbers32, dst *[4]T)
}

// fillGrain is the groups that are worth a part of their own.
const fillGrain = 1 << 11

// fillRandom fills dst. Each group has its place in the generator's sequence, so that the result does
// not depend on how the work is divided; groups that take as many numbers as they need have a
// region each.
func fillRandom[T any](dev kernels.Device, gen philox.Philox, dst []T, d *distribution[T]) {
	groups := (len(dst) + d.group - 1) / d.group
	dev.Parallel(groups, fillGrain, func(lo, hi int) {
		var out [4]T
		own := gen
		x := philox.OneAtATime(&own)
		if d.fixed != nil {
			own.Skip(uint64(lo))
			part := dst[lo*d.group : min(hi*d.group, len(dst))]
			for ; len(part) >= len(out); part = part[d.group:] {
				// A group of fewer elements writes the next one's first, which follows.
				d.fixed(own.Next(), (*[4]T)(part))
			}
			for len(part) > 0 {
				d.fixed(own.Next(), &out)
				part = part[copy(part, out[:d.group]):]
			}
			return
		}
		for g := lo; g < hi; g++ {
			own = gen
			own.Skip(uint64(g) * uint64(d.group) * philox.ReservedPerOutput / 4)
			x.Used = len(x.Got)
			d.variable(&x, &out)
			copy(dst[g*d.group:], out[:d.group])
		}
	})
}

// normalPair and normalPairDouble make two normally distributed numbers by the Box-Muller transform.
func normalPair(x0, x1 uint32) (float32, float32) {
	u1 := max(philox.UnitFloat(x0), 1.0e-7)
	v1 := float32(2 * math.Pi * float64(philox.UnitFloat(x1)))
	u2 := element.Sqrt(-2 * float32(math.Log(float64(u1))))
	sin, cos := math.Sincos(float64(v1))
	return float32(sin) * u2, float32(cos) * u2
}

func normalPairDouble(x0, x1, x2, x3 uint32) (float64, float64) {
	u1 := max(philox.UnitDouble(x0, x1), 1.0e-7)
	sin, cos := math.Sincos(2 * math.Pi * philox.UnitDouble(x2, x3))
	u2 := math.Sqrt(-2 * math.Log(u1))
	return sin * u2, cos * u2
}

var uniform32 = distribution[float32]{group: 4, fixed: func(x [4]uint32, dst *[4]float32) {
	for i, v := range x {
		dst[i] = philox.UnitFloat(v)
	}
}}

var uniform64 = distribution[float64]{group: 2, fixed: func(x [4]uint32, dst *[4]float64) {
	dst[0], dst[1] = philox.UnitDouble(x[0], x[1]), philox.UnitDouble(x[2], x[3])
}}

var uniformHalf = distribution[element.Float16]{group: 4, fixed: func(x [4]uint32, dst *[4]element.Float16) {
	for i, v := range x {
		dst[i] = element.ToFloat16(element.Float16(15<<10|v&0x3ff).Float() - 1)
	}
}}

var uniformBFloat = distribution[element.BFloat16]{group: 4, fixed: func(x [4]uint32, dst *[4]element.BFloat16) {
	for i, v := range x {
		dst[i] = element.ToBFloat16(element.BFloat16(127<<7|v&0x7f).Float() - 1)
	}
}}

// uniformInt32 and uniformInt64 are [lo,hi), with the slight bias of a remainder.
func uniformInt32(lo, hi int32) *distribution[int32] {
	span := uint32(hi) - uint32(lo)
	return &distribution[int32]{group: 4, fixed: func(x [4]uint32, dst *[4]int32) {
		for i, v := range x {
			dst[i] = lo + int32(v%span)
		}
	}}
}

func uniformInt64(lo, hi int64) *distribution[int64] {
	span := uint64(hi) - uint64(lo)
	return &distribution[int64]{group: 2, fixed: func(x [4]uint32, dst *[4]int64) {
		for i := range 2 {
			dst[i] = lo + int64((uint64(x[2*i])|uint64(x[2*i+1])<<32)%span)
		}
	}}
}

// anyInt32 and anyInt64 are all values of a type.
func anyInt32[T int32 | uint32]() *distribution[T] {
	return &distribution[T]{group: 4, fixed: func(x [4]uint32, dst *[4]T) {
		for i, v := range x {
			dst[i] = T(v)
		}
	}}
}

func anyInt64[T int64 | uint64]() *distribution[T] {
	return &distribution[T]{group: 2, fixed: func(x [4]uint32, dst *[4]T) {
		for i := range 2 {
			dst[i] = T(uint64(x[2*i]) | uint64(x[2*i+1])<<32)
		}
	}}
}

// normal32 makes the normal distribution of a type that is computed as float.
func normal32[T any](round func(float32) T) *distribution[T] {
	return &distribution[T]{group: 4, fixed: func(x [4]uint32, dst *[4]T) {
		for i := 0; i < 4; i += 2 {
			a, b := normalPair(x[i], x[i+1])
			dst[i], dst[i+1] = round(a), round(b)
		}
	}}
}

var normal64 = distribution[float64]{group: 2, fixed: func(x [4]uint32, dst *[4]float64) {
	dst[0], dst[1] = normalPairDouble(x[0], x[1], x[2], x[3])
}}

// truncated32 makes the normal distribution without what lies two deviations or more from the mean.
func truncated32[T any](round func(float32) T) *distribution[T] {
	return &distribution[T]{group: 4, variable: func(x *philox.Numbers32, dst *[4]T) {
		for n := 0; ; {
			x0 := x.Next()
			a, b := normalPair(x0, x.Next())
			for _, v := range [2]float32{a, b} {
				if v > -2 && v < 2 {
					dst[n] = round(v)
					if n++; n == 4 {
						return
					}
				}
			}
		}
	}}
}

var truncated64 = distribution[float64]{group: 2, variable: func(x *philox.Numbers32, dst *[4]float64) {
	for n := 0; ; {
		x0, x1, x2, x3 := x.Next(), x.Next(), x.Next(), x.Next()
		a, b := normalPairDouble(x0, x1, x2, x3)
		for _, v := range [2]float64{a, b} {
			if v > -2 && v < 2 {
				dst[n] = v
				if n++; n == 2 {
					return
				}
			}
		}
	}
}}

func asFloat(v float32) float32 { return v }
