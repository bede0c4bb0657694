package math

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// castInts returns the casts from integers S to every number type.
func castInts[S element.Integer]() elementwise.UnaryRows {
	return elementwise.UnaryRows{
		elementwise.On1(element.Convert[S, int8]), elementwise.On1(element.Convert[S, int16]), elementwise.On1(element.Convert[S, int32]), elementwise.On1(element.Convert[S, int64]),
		elementwise.On1(element.Convert[S, uint8]), elementwise.On1(element.Convert[S, uint16]), elementwise.On1(element.Convert[S, uint32]), elementwise.On1(element.Convert[S, uint64]),
		elementwise.On1(element.Convert[S, float32]), elementwise.On1(element.Convert[S, float64]), elementwise.On1(narrowed[element.Float16](element.Convert[S, float32])), elementwise.On1(narrowed[element.BFloat16](element.Convert[S, float32])),
		elementwise.On1(convertComplex[S, complex64]), elementwise.On1(convertComplex[S, complex128]), elementwise.On1(nonZero[S]),
	}
}

// castFloat32 and castFloat64 return the casts from floats to every number type.
func castFloat32() elementwise.UnaryRows {
	return append(castFloats[float32](),
		elementwise.On1(truncSmall[int8]), elementwise.On1(truncSmall[int16]), elementwise.On1(simd.Truncate),
		elementwise.On1(truncSmall[uint8]), elementwise.On1(truncSmall[uint16]),
		elementwise.On1(element.Convert[float32, float32]), elementwise.On1(simd.Doubles),
		elementwise.On1(element.Narrow[element.Float16]), elementwise.On1(element.Narrow[element.BFloat16]))
}

func castFloat64() elementwise.UnaryRows {
	return append(castFloats[float64](),
		elementwise.On1(truncDouble[int8]), elementwise.On1(truncDouble[int16]), elementwise.On1(truncDouble[int32]),
		elementwise.On1(truncDouble[uint8]), elementwise.On1(truncDouble[uint16]),
		elementwise.On1(simd.FloatsOfDoubles), elementwise.On1(element.Convert[float64, float64]),
		elementwise.On1(narrowed[element.Float16](simd.FloatsOfDoubles)), elementwise.On1(narrowed[element.BFloat16](simd.FloatsOfDoubles)))
}

// castFloats returns the casts that share one function between both float types.
func castFloats[S element.Floating]() elementwise.UnaryRows {
	return elementwise.UnaryRows{
		elementwise.On1(truncInt64[S]), elementwise.On1(truncUint32[S]), elementwise.On1(truncUint64[S]),
		elementwise.On1(convertComplex[S, complex64]), elementwise.On1(convertComplex[S, complex128]), elementwise.On1(nonZero[S]),
	}
}

// castHalves returns the casts from half types, which go through float32.
func castHalves[H element.HalfFloat]() elementwise.UnaryRows {
	return elementwise.UnaryRows{
		elementwise.On1(fromHalf[H](truncSmall[int8])), elementwise.On1(fromHalf[H](truncSmall[int16])),
		elementwise.On1(fromHalf[H](simd.Truncate)), elementwise.On1(fromHalf[H](truncInt64[float32])),
		elementwise.On1(fromHalf[H](truncSmall[uint8])), elementwise.On1(fromHalf[H](truncSmall[uint16])),
		elementwise.On1(fromHalf[H](truncUint32[float32])), elementwise.On1(fromHalf[H](truncUint64[float32])),
		elementwise.On1(element.Widen[H]), elementwise.On1(fromHalf[H](simd.Doubles)),
		elementwise.On1(fromHalf[H](element.Narrow[element.Float16])), elementwise.On1(fromHalf[H](element.Narrow[element.BFloat16])),
		elementwise.On1(fromHalf[H](convertComplex[float32, complex64])), elementwise.On1(fromHalf[H](convertComplex[float32, complex128])),
		elementwise.On1(fromHalf[H](nonZero[float32])),
	}
}

// castBools returns the casts from booleans, which count as 0 and 1.
func castBools() elementwise.UnaryRows {
	return elementwise.UnaryRows{
		elementwise.On1(fromBool(element.Convert[uint8, int8])), elementwise.On1(fromBool(element.Convert[uint8, int16])), elementwise.On1(fromBool(element.Convert[uint8, int32])), elementwise.On1(fromBool(element.Convert[uint8, int64])),
		elementwise.On1(fromBool(element.Convert[uint8, uint8])), elementwise.On1(fromBool(element.Convert[uint8, uint16])), elementwise.On1(fromBool(element.Convert[uint8, uint32])), elementwise.On1(fromBool(element.Convert[uint8, uint64])),
		elementwise.On1(fromBool(element.Convert[uint8, float32])), elementwise.On1(fromBool(element.Convert[uint8, float64])),
		elementwise.On1(fromBool(narrowed[element.Float16](element.Convert[uint8, float32]))), elementwise.On1(fromBool(narrowed[element.BFloat16](element.Convert[uint8, float32]))),
		elementwise.On1(fromBool(convertComplex[uint8, complex64])), elementwise.On1(fromBool(convertComplex[uint8, complex128])),
	}
}

// castComplex64 and castComplex128 return the casts from a complex type, which use the real part.
func castComplex64() elementwise.UnaryRows {
	rows := elementwise.UnaryRows{elementwise.On1(func(dst []complex128, a []complex64) {
		for i, v := range a {
			dst[i] = complex128(v)
		}
	})}
	for _, r := range castFloat32() {
		if !r.Out.DType.IsComplex() {
			rows = append(rows, after(real64, r))
		}
	}
	return rows
}

func castComplex128() elementwise.UnaryRows {
	rows := elementwise.UnaryRows{elementwise.On1(func(dst []complex64, a []complex128) {
		for i, v := range a {
			dst[i] = complex64(v)
		}
	})}
	for _, r := range castFloat64() {
		if !r.Out.DType.IsComplex() {
			rows = append(rows, after(real128, r))
		}
	}
	return rows
}

func convertComplex[S element.Integer | element.Floating, D element.ComplexNum](dst []D, a []S) {
	for i, v := range a {
		dst[i] = D(complex(float64(v), 0))
	}
}

func nonZero[S element.Numeric](dst []bool, a []S) {
	for i, v := range a {
		dst[i] = v != 0
	}
}

// A value that does not fit an integer becomes what the processor's conversion to 32 or 64 bits yields, as in TensorFlow: the least
// integer. Narrower integers take the low bits of the 32-bit result, uint32 those of the 64-bit one.

func trunc64[S element.Floating](v S) int64 {
	if v >= math.MinInt64 && v < math.MaxInt64 {
		return int64(v)
	}
	return math.MinInt64
}

func truncSmall[D int8 | int16 | uint8 | uint16](dst []D, a []float32) {
	var x [element.HalfBlock]int32
	for len(dst) > 0 {
		n := min(len(dst), element.HalfBlock)
		simd.Truncate(x[:n], a[:n])
		for i, v := range x[:n] {
			dst[i] = D(v)
		}
		dst, a = dst[n:], a[n:]
	}
}

func truncDouble[D int8 | int16 | int32 | uint8 | uint16](dst []D, a []float64) {
	for i, v := range a {
		dst[i] = D(element.Trunc32(v))
	}
}

func truncInt64[S element.Floating](dst []int64, a []S) {
	for i, v := range a {
		dst[i] = trunc64(v)
	}
}

func truncUint32[S element.Floating](dst []uint32, a []S) {
	for i, v := range a {
		dst[i] = uint32(trunc64(v))
	}
}

func truncUint64[S element.Floating](dst []uint64, a []S) {
	for i, v := range a {
		if v >= 1<<63 && v < 1<<64 {
			dst[i] = uint64(v-1<<63) | 1<<63
		} else {
			dst[i] = uint64(trunc64(v))
		}
	}
}

// narrowed adapts f to a half type by rounding the floats that it yields.
func narrowed[H element.HalfFloat, S any](f func(dst []float32, a []S)) func(dst []H, a []S) {
	return func(dst []H, a []S) {
		var x [element.HalfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), element.HalfBlock)
			f(x[:n], a[:n])
			element.Narrow(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}

// fromHalf adapts f, which takes floats, to take halves.
func fromHalf[H element.HalfFloat, D any](f func(dst []D, a []float32)) func(dst []D, a []H) {
	return func(dst []D, a []H) {
		var x [element.HalfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), element.HalfBlock)
			element.Widen(x[:n], a[:n])
			f(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}

// fromBool adapts f, which takes bytes, to take booleans.
func fromBool[D any](f func(dst []D, a []uint8)) func(dst []D, a []bool) {
	return func(dst []D, a []bool) {
		var x [element.BlockLen]uint8
		for len(dst) > 0 {
			n := min(len(dst), element.BlockLen)
			for i, v := range a[:n] {
				x[i] = 0
				if v {
					x[i] = 1
				}
			}
			f(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}
