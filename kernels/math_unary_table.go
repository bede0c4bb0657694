package kernels

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/kernels/simd"
)

func init() {
	const cheap, costly = cheapGrain, costlyGrain
	Register(unary("Neg", cheap, floats1(simd.Neg, neg[float64]), complex1(neg[complex64], neg[complex128]),
		signed1(neg[int8], neg[int16], neg[int32], neg[int64]))...)
	Register(unary("Abs", cheap, fast1(simd.Abs, math.Abs), signed1(absInt[int8], absInt[int16], absInt[int32], absInt[int64]))...)
	Register(unary("Square", cheap, floats1(simd.Square, square[float64]), complex1(square[complex64], square[complex128]),
		signed1(square[int8], square[int16], square[int32], square[int64]),
		unsigned1(square[uint8], square[uint16], square[uint32], square[uint64]))...)
	Register(unary("Sign", cheap, floats1(sign[float32], sign[float64]), perComplex1(signComplex),
		signed1(sign[int8], sign[int16], sign[int32], sign[int64]))...)
	for _, op := range []string{"Reciprocal", "Inv"} {
		Register(unary(op, cheap, floats1(reciprocal[float32], reciprocal[float64]), complex1(reciprocal[complex64], reciprocal[complex128]))...)
	}
	Register(unary("Sqrt", cheap, fast1(simd.Sqrt, math.Sqrt), perComplex1(cmplx.Sqrt))...)
	Register(unary("Rsqrt", cheap, fast1(simd.Rsqrt, rsqrt64), perComplex1(func(v complex128) complex128 { return 1 / cmplx.Sqrt(v) }))...)
	Register(unary("Exp", costly, fast1(simd.Exp, math.Exp), perComplex1(cmplx.Exp))...)
	Register(unary("Log", costly, fast1(simd.Log, math.Log), perComplex1(cmplx.Log))...)
	Register(unary("Expm1", costly, perElement1(math.Expm1), perComplex1(func(v complex128) complex128 { return cmplx.Exp(v) - 1 }))...)
	Register(unary("Log1p", costly, perElement1(math.Log1p), perComplex1(func(v complex128) complex128 { return cmplx.Log(1 + v) }))...)
	Register(unary("Sin", costly, perElement1(math.Sin), perComplex1(cmplx.Sin))...)
	Register(unary("Cos", costly, perElement1(math.Cos), perComplex1(cmplx.Cos))...)
	Register(unary("Tan", costly, perElement1(math.Tan), perComplex1(cmplx.Tan))...)
	Register(unary("Asin", costly, perElement1(math.Asin), perComplex1(complexAsin))...)
	Register(unary("Acos", costly, perElement1(math.Acos), perComplex1(complexAcos))...)
	Register(unary("Atan", costly, perElement1(math.Atan), perComplex1(complexAtan))...)
	Register(unary("Sinh", costly, perElement1(math.Sinh), perComplex1(cmplx.Sinh))...)
	Register(unary("Cosh", costly, perElement1(math.Cosh), perComplex1(cmplx.Cosh))...)
	Register(unary("Tanh", costly, fast1(simd.Tanh, math.Tanh), perComplex1(complexTanh))...)
	Register(unary("Asinh", costly, perElement1(math.Asinh), perComplex1(complexAsinh))...)
	Register(unary("Acosh", costly, perElement1(math.Acosh), perComplex1(complexAcosh))...)
	Register(unary("Atanh", costly, perElement1(math.Atanh), perComplex1(complexAtanh))...)
	Register(unary("Sigmoid", costly, fast1(simd.Sigmoid, sigmoid64), perComplex1(func(v complex128) complex128 { return 1 / (1 + cmplx.Exp(-v)) }))...)
	Register(unary("Erf", costly, perElement1(math.Erf))...)
	Register(unary("Erfc", costly, perElement1(math.Erfc))...)
	Register(unary("Erfinv", costly, perElement1(math.Erfinv))...)
	Register(unary("Ndtri", costly, perElement1(ndtri64))...)
	Register(unary("Lgamma", costly, perElement1(lgamma64))...)
	Register(unary("Digamma", costly, perElement1(digamma64))...)
	Register(unary("Floor", cheap, perElement1(math.Floor))...)
	Register(unary("Ceil", cheap, perElement1(math.Ceil))...)
	Register(unary("Rint", cheap, perElement1(math.RoundToEven))...)
	Register(unary("Round", cheap, perElement1(math.RoundToEven), signed1(identity[int8], identity[int16], identity[int32], identity[int64]),
		unsigned1(identity[uint8], identity[uint16], identity[uint32], identity[uint64]))...)
	Register(unary("IsNan", cheap, floats1(isNaN[float32], isNaN[float64]))...)
	Register(unary("IsInf", cheap, floats1(isInf[float32], isInf[float64]))...)
	Register(unary("IsFinite", cheap, floats1(isFinite[float32], isFinite[float64]))...)
	Register(untyped(unary("LogicalNot", cheap, unaryRows{on1(logicalNot)}))...)
	Register(unary("Invert", cheap, signed1(invert[int8], invert[int16], invert[int32], invert[int64]),
		unsigned1(invert[uint8], invert[uint16], invert[uint32], invert[uint64]))...)
	Register(unary("PopulationCount", cheap, signed1(popCount[int8], popCount[int16], popCount[int32], popCount[int64]),
		unsigned1(popCount[uint8], popCount[uint16], popCount[uint32], popCount[uint64]))...)

	Register(unary("Conj", cheap, perComplex1(cmplx.Conj))...)
	for op, rows := range map[string]unaryRows{
		"Real": complex1(real64, real128), "Imag": complex1(imag64, imag128),
		"ComplexAbs": complex1(abs64, abs128), "Angle": complex1(angle64, angle128),
	} {
		Register(typed("Tout", unary(op, cheap, rows), rows)...)
	}
	makes := binaryRows{on(func(dst []complex64, a, b []float32) {
		for i := range dst {
			dst[i] = complex(a[i], b[i])
		}
	}), on(func(dst []complex128, a, b []float64) {
		for i := range dst {
			dst[i] = complex(a[i], b[i])
		}
	})}
	Register(binary("Complex", binaryOptions{}, makes)...)
}
