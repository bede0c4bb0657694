package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

// castInts makes rows from integers S to every number type.
func castInts[S integer]() unaryRows {
	return unaryRows{
		on1(convert[S, int8]), on1(convert[S, int16]), on1(convert[S, int32]), on1(convert[S, int64]),
		on1(convert[S, uint8]), on1(convert[S, uint16]), on1(convert[S, uint32]), on1(convert[S, uint64]),
		on1(convert[S, float32]), on1(convert[S, float64]), on1(narrowed[float16](convert[S, float32])), on1(narrowed[bfloat16](convert[S, float32])),
		on1(convertComplex[S, complex64]), on1(convertComplex[S, complex128]), on1(nonZero[S]),
	}
}

// castFloats makes rows from floats S to every number type.
func castFloats[S floating]() unaryRows {
	return unaryRows{
		on1(truncSmall[S, int8]), on1(truncSmall[S, int16]), on1(truncSmall[S, int32]), on1(truncInt64[S]),
		on1(truncSmall[S, uint8]), on1(truncSmall[S, uint16]), on1(truncUint32[S]), on1(truncUint64[S]),
		on1(convert[S, float32]), on1(convert[S, float64]), on1(narrowed[float16](convert[S, float32])), on1(narrowed[bfloat16](convert[S, float32])),
		on1(convertComplex[S, complex64]), on1(convertComplex[S, complex128]), on1(nonZero[S]),
	}
}

// castHalfs makes rows from halves by way of float.
func castHalfs[H halfFloat]() unaryRows {
	return unaryRows{
		on1(fromHalf[H](truncSmall[float32, int8])), on1(fromHalf[H](truncSmall[float32, int16])),
		on1(fromHalf[H](truncSmall[float32, int32])), on1(fromHalf[H](truncInt64[float32])),
		on1(fromHalf[H](truncSmall[float32, uint8])), on1(fromHalf[H](truncSmall[float32, uint16])),
		on1(fromHalf[H](truncUint32[float32])), on1(fromHalf[H](truncUint64[float32])),
		on1(fromHalf[H](convert[float32, float32])), on1(fromHalf[H](convert[float32, float64])),
		on1(fromHalf[H](narrow[float16])), on1(fromHalf[H](narrow[bfloat16])),
		on1(fromHalf[H](convertComplex[float32, complex64])), on1(fromHalf[H](convertComplex[float32, complex128])),
		on1(fromHalf[H](nonZero[float32])),
	}
}

// castBools makes rows from booleans, which count as 0 and 1.
func castBools() unaryRows {
	return unaryRows{
		on1(fromBool(convert[uint8, int8])), on1(fromBool(convert[uint8, int16])), on1(fromBool(convert[uint8, int32])), on1(fromBool(convert[uint8, int64])),
		on1(fromBool(convert[uint8, uint8])), on1(fromBool(convert[uint8, uint16])), on1(fromBool(convert[uint8, uint32])), on1(fromBool(convert[uint8, uint64])),
		on1(fromBool(convert[uint8, float32])), on1(fromBool(convert[uint8, float64])),
		on1(fromBool(narrowed[float16](convert[uint8, float32]))), on1(fromBool(narrowed[bfloat16](convert[uint8, float32]))),
		on1(fromBool(convertComplex[uint8, complex64])), on1(fromBool(convertComplex[uint8, complex128])),
	}
}

// castComplex64 and castComplex128 make rows of a complex type by way of the real part.
func castComplex64() unaryRows {
	rows := unaryRows{on1(nonZero[complex64]), on1(func(dst []complex128, a []complex64) {
		for i, v := range a {
			dst[i] = complex128(v)
		}
	})}
	for _, r := range castFloats[float32]() {
		if r.out.dtype != tensor.Bool && !r.out.dtype.IsComplex() {
			rows = append(rows, after(real64, r))
		}
	}
	return rows
}

func castComplex128() unaryRows {
	rows := unaryRows{on1(nonZero[complex128]), on1(func(dst []complex64, a []complex128) {
		for i, v := range a {
			dst[i] = complex64(v)
		}
	})}
	for _, r := range castFloats[float64]() {
		if r.out.dtype != tensor.Bool && !r.out.dtype.IsComplex() {
			rows = append(rows, after(real128, r))
		}
	}
	return rows
}

func convert[S, D integer | floating](dst []D, a []S) {
	dst = dst[:len(a)]
	for i, v := range a {
		dst[i] = D(v)
	}
}

func convertComplex[S integer | floating, D complexNum](dst []D, a []S) {
	for i, v := range a {
		dst[i] = D(complex(float64(v), 0))
	}
}

func nonZero[S numeric](dst []bool, a []S) {
	for i, v := range a {
		dst[i] = v != 0
	}
}

// What does not fit an integer becomes what the processor's conversion to 32 or 64 bits makes of
// it, as in TensorFlow: the least integer. Narrower integers get the low bits of 32, uint32 those of 64.

func trunc32[S floating](v S) int32 {
	if v > math.MinInt32-1.0 && v < math.MaxInt32+1.0 {
		return int32(v)
	}
	return math.MinInt32
}

func trunc64[S floating](v S) int64 {
	if v >= math.MinInt64 && v < math.MaxInt64 {
		return int64(v)
	}
	return math.MinInt64
}

func truncSmall[S floating, D int8 | int16 | int32 | uint8 | uint16](dst []D, a []S) {
	for i, v := range a {
		dst[i] = D(trunc32(v))
	}
}

func truncInt64[S floating](dst []int64, a []S) {
	for i, v := range a {
		dst[i] = trunc64(v)
	}
}

func truncUint32[S floating](dst []uint32, a []S) {
	for i, v := range a {
		dst[i] = uint32(trunc64(v))
	}
}

func truncUint64[S floating](dst []uint64, a []S) {
	for i, v := range a {
		if v >= 1<<63 && v < 1<<64 {
			dst[i] = uint64(v-1<<63) | 1<<63
		} else {
			dst[i] = uint64(trunc64(v))
		}
	}
}

// narrowed follows a function that yields floats by rounding to halves.
func narrowed[H halfFloat, S any](f func(dst []float32, a []S)) func(dst []H, a []S) {
	return func(dst []H, a []S) {
		var x [halfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), halfBlock)
			f(x[:n], a[:n])
			narrow(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}

// fromHalf gives a function of floats halves.
func fromHalf[H halfFloat, D any](f func(dst []D, a []float32)) func(dst []D, a []H) {
	return func(dst []D, a []H) {
		var x [halfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), halfBlock)
			widen(x[:n], a[:n])
			f(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}

// fromBool gives a function of bytes booleans.
func fromBool[D any](f func(dst []D, a []uint8)) func(dst []D, a []bool) {
	return func(dst []D, a []bool) {
		var x [blockLen]uint8
		for len(dst) > 0 {
			n := min(len(dst), blockLen)
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
