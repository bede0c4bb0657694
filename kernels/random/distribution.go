package random

import (
	"math"
	"unsafe"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// distribution turns random numbers into elements: group elements for every four numbers.
type distribution[T any] struct {
	group int
	// fixed turns a list of numbers into elements, and may overwrite the list. variable makes one group from as many numbers as it needs.
	// Exactly one of them is set.
	fixed    func(dst []T, x []uint32)
	variable func(x *philox.Numbers32, dst *[4]T)
}

// fillGrain is the number of groups that justify a part of their own. fillBlock is the number of groups made at once, whose numbers fit the
// first-level cache.
const (
	fillGrain = 1 << 11
	fillBlock = 1 << 9
)

// fillRandom fills dst. Each group has a fixed position in the generator's sequence, so the result does not depend on how the work is
// divided. Groups that take a variable number of random numbers have a region each.
func fillRandom[T any](ctx *kernels.Context, gen philox.Philox, dst []T, d *distribution[T]) {
	groups := (len(dst) + d.group - 1) / d.group
	ctx.Parallel(groups, fillGrain, func(lo, hi int) {
		own := gen
		if d.fixed != nil {
			own.Skip(uint64(lo))
			fillFixed(&own, dst[lo*d.group:min(hi*d.group, len(dst))], d)
			return
		}
		var out [4]T
		x := philox.OneAtATime(&own)
		for g := lo; g < hi; g++ {
			own = gen
			own.Skip(uint64(g) * uint64(d.group) * philox.ReservedPerOutput / 4)
			x.Used = len(x.Got)
			d.variable(&x, &out)
			copy(dst[g*d.group:], out[:d.group])
		}
	})
}

// fillFixed fills dst by groups of four numbers. The last group may be incomplete.
func fillFixed[T any](gen *philox.Philox, dst []T, d *distribution[T]) {
	groups := (len(dst) + d.group - 1) / d.group
	numbers := make([]uint32, 4*min(groups, fillBlock))
	for len(dst) > 0 {
		part := dst[:min(len(dst), len(numbers)/4*d.group)]
		x := numbers[:(len(part)+d.group-1)/d.group*4]
		gen.Fill(x)
		d.fixed(part, x)
		dst = dst[len(part):]
	}
}

// normalPairDouble returns two normally distributed numbers, by the Box-Muller transform.
func normalPairDouble(x0, x1, x2, x3 uint32) (float64, float64) {
	u1 := max(philox.UnitDouble(x0, x1), 1.0e-7)
	sin, cos := math.Sincos(2 * math.Pi * philox.UnitDouble(x2, x3))
	u2 := math.Sqrt(-2 * math.Log(u1))
	return sin * u2, cos * u2
}

var uniform32 = distribution[float32]{group: 4, fixed: func(dst []float32, x []uint32) { simd.UnitFloats(dst, x[:len(dst)]) }}

var uniform64 = distribution[float64]{group: 2, fixed: func(dst []float64, x []uint32) {
	for i := range dst {
		dst[i] = philox.UnitDouble(x[2*i], x[2*i+1])
	}
}}

var uniformHalf = distribution[element.Float16]{group: 4, fixed: func(dst []element.Float16, x []uint32) {
	for i := range dst {
		dst[i] = element.ToFloat16(element.Float16(15<<10|x[i]&0x3ff).Float() - 1)
	}
}}

var uniformBFloat = distribution[element.BFloat16]{group: 4, fixed: func(dst []element.BFloat16, x []uint32) {
	for i := range dst {
		dst[i] = element.ToBFloat16(element.BFloat16(127<<7|x[i]&0x7f).Float() - 1)
	}
}}

// uniformInt32 and uniformInt64 are uniform over [lo,hi), with the slight bias of a remainder.
func uniformInt32(lo, hi int32) *distribution[int32] {
	span := uint32(hi) - uint32(lo)
	return &distribution[int32]{group: 4, fixed: func(dst []int32, x []uint32) {
		for i := range dst {
			dst[i] = lo + int32(x[i]%span)
		}
	}}
}

func uniformInt64(lo, hi int64) *distribution[int64] {
	span := uint64(hi) - uint64(lo)
	return &distribution[int64]{group: 2, fixed: func(dst []int64, x []uint32) {
		for i := range dst {
			dst[i] = lo + int64((uint64(x[2*i])|uint64(x[2*i+1])<<32)%span)
		}
	}}
}

// anyInt32 and anyInt64 are uniform over all values of a type.
func anyInt32[T int32 | uint32]() *distribution[T] {
	return &distribution[T]{group: 4, fixed: func(dst []T, x []uint32) {
		for i := range dst {
			dst[i] = T(x[i])
		}
	}}
}

func anyInt64[T int64 | uint64]() *distribution[T] {
	return &distribution[T]{group: 2, fixed: func(dst []T, x []uint32) {
		for i := range dst {
			dst[i] = T(uint64(x[2*i]) | uint64(x[2*i+1])<<32)
		}
	}}
}

var normal32 = distribution[float32]{group: 4, fixed: func(dst []float32, x []uint32) {
	n := len(dst) &^ 1
	simd.Normals(dst[:n], x[:n])
	if n < len(dst) {
		dst[n], _ = simd.NormalPair(x[n], x[n+1])
	}
}}

// normalHalf returns the normal distribution of a half type. It computes float32 values in the memory of the random numbers.
func normalHalf[H element.HalfFloat]() *distribution[H] {
	return &distribution[H]{group: 4, fixed: func(dst []H, x []uint32) {
		floats := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
		simd.Normals(floats, x)
		element.Narrow(dst, floats[:len(dst)])
	}}
}

var normal64 = distribution[float64]{group: 2, fixed: func(dst []float64, x []uint32) {
	for i := 0; i < len(dst); i += 2 {
		a, b := normalPairDouble(x[2*i], x[2*i+1], x[2*i+2], x[2*i+3])
		dst[i] = a
		if i+1 < len(dst) {
			dst[i+1] = b
		}
	}
}}

// truncated32 returns the normal distribution without values two or more standard deviations from the mean.
func truncated32[T any](round func(float32) T) *distribution[T] {
	return &distribution[T]{group: 4, variable: func(x *philox.Numbers32, dst *[4]T) {
		for n := 0; ; {
			x0 := x.Next()
			a, b := simd.NormalPair(x0, x.Next())
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
