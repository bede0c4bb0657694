package kernels

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/simd"
)

// The errors of integer arithmetic, in TensorFlow's words.
var (
	errDivisionByZero = status.New(status.InvalidArgument, "Integer division by zero")
	errNegativePower  = status.New(status.InvalidArgument, "Integers to negative integer powers are not allowed")
)

func isZero(v int64) bool     { return v == 0 }
func isNegative(v int64) bool { return v < 0 }

// joined makes one set of rows of several.
func joined(sets ...binaryRows) binaryRows { return slices.Concat(sets...) }

// additions are the rows of an addition.
func additions() binaryRows {
	return joined(floats2(simd.Add, add[float64]),
		signed2(add[int8], add[int16], add[int32], add[int64]), unsigned2(add[uint8], add[uint16], add[uint32], add[uint64]),
		complex2(add[complex64], add[complex128])).scalars(simd.AddScalar, simd.AddScalar)
}

func init() {
	plain, costly := binaryOptions{}, binaryOptions{grain: costlyGrain}
	yes, no := true, false

	adds := additions()
	Register(binary("AddV2", plain, adds)...)
	Register(binary("Add", plain, adds, binaryRows{on(add[string])})...)
	Register(binary("Sub", plain, joined(floats2(simd.Sub, sub[float64]),
		signed2(sub[int8], sub[int16], sub[int32], sub[int64]), unsigned2(sub[uint8], sub[uint16], sub[uint32], sub[uint64]),
		complex2(sub[complex64], sub[complex128])).scalars(simd.SubScalar, simd.RSubScalar))...)
	Register(binary("Mul", plain, joined(floats2(simd.Mul, mul[float64]),
		signed2(mul[int8], mul[int16], mul[int32], mul[int64]), unsigned2(mul[uint8], mul[uint16], mul[uint32], mul[uint64]),
		complex2(mul[complex64], mul[complex128])).scalars(simd.MulScalar, simd.MulScalar))...)

	realDivs := joined(floats2(simd.Div, div[float64]),
		complex2(div[complex64], div[complex128])).scalars(simd.DivScalar, simd.RDivScalar)
	intDivs := signed2(div[int8], div[int16], div[int32], div[int64]).checked(isZero, errDivisionByZero)
	uintDivs := unsigned2(div[uint8], div[uint16], div[uint32], div[uint64]).checked(isZero, errDivisionByZero)
	Register(binary("RealDiv", plain, realDivs)...)
	Register(binary("Div", plain, realDivs, intDivs, uintDivs)...)
	Register(binary("TruncateDiv", plain, floats2(truncDivFloat[float32], truncDivFloat[float64]), intDivs, uintDivs)...)
	Register(binary("FloorDiv", plain, floats2(floorDivFloat[float32], floorDivFloat[float64]), uintDivs,
		signed2(floorDivSigned[int8], floorDivSigned[int16], floorDivSigned[int32], floorDivSigned[int64]).checked(isZero, errDivisionByZero))...)

	uintMods := unsigned2(mod[uint8], mod[uint16], mod[uint32], mod[uint64]).checked(isZero, errDivisionByZero)
	mods := append(signed2(mod[int8], mod[int16], mod[int32], mod[int64]).checked(isZero, errDivisionByZero), uintMods...)
	Register(binary("Mod", costly, mods, perElement2(math.Mod))...)
	Register(binary("TruncateMod", costly, mods, perElement2(math.Mod))...)
	Register(binary("FloorMod", costly, uintMods, perElement2(floorMod64),
		signed2(floorModSigned[int8], floorModSigned[int16], floorModSigned[int32], floorModSigned[int64]).checked(isZero, errDivisionByZero))...)

	Register(binary("MulNoNan", plain, floats2(mulNoNan[float32], mulNoNan[float64]), complex2(mulNoNan[complex64], mulNoNan[complex128]))...)
	Register(binary("DivNoNan", plain, floats2(divNoNan[float32], divNoNan[float64]), complex2(divNoNan[complex64], divNoNan[complex128]))...)
	Register(binary("Xdivy", plain, floats2(xdivy[float32], xdivy[float64]), complex2(xdivy[complex64], xdivy[complex128]))...)
	Register(binary("Xlogy", costly, perElement2(xlogy64), perComplex2(xlogyComplex))...)
	Register(binary("Xlog1py", costly, perElement2(xlog1py64), perComplex2(xlog1pyComplex))...)
	Register(binary("Atan2", costly, perElement2(math.Atan2))...)
	Register(binary("NextAfter", costly, floats2(nextAfter32, nextAfter64)[:2])...)
	Register(binary("Pow", costly, perElement2(math.Pow), perComplex2(cmplx.Pow), unsigned2(powInt[uint8], powInt[uint16], powInt[uint32], powInt[uint64]),
		signed2(powInt[int8], powInt[int16], powInt[int32], powInt[int64]).checked(isNegative, errNegativePower))...)
	Register(binary("SquaredDifference", plain, floats2(squaredDifference[float32], squaredDifference[float64]),
		signed2(squaredDifference[int8], squaredDifference[int16], squaredDifference[int32], squaredDifference[int64]),
		perComplex2(func(a, b complex128) complex128 { d := a - b; return cmplx.Conj(d) * d }))...)

	Register(binary("Maximum", plain, floats2(simd.Max, maximum[float64]), signed2(maximum[int8], maximum[int16], maximum[int32], maximum[int64]),
		unsigned2(maximum[uint8], maximum[uint16], maximum[uint32], maximum[uint64]))...)
	Register(binary("Minimum", plain, floats2(simd.Min, minimum[float64]), signed2(minimum[int8], minimum[int16], minimum[int32], minimum[int64]),
		unsigned2(minimum[uint8], minimum[uint16], minimum[uint32], minimum[uint64]))...)

	Register(binary("Less", plain, floats2(less[float32], less[float64]), signed2(less[int8], less[int16], less[int32], less[int64]),
		unsigned2(less[uint8], less[uint16], less[uint32], less[uint64]))...)
	Register(binary("LessEqual", plain, floats2(lessEqual[float32], lessEqual[float64]), signed2(lessEqual[int8], lessEqual[int16], lessEqual[int32], lessEqual[int64]),
		unsigned2(lessEqual[uint8], lessEqual[uint16], lessEqual[uint32], lessEqual[uint64]))...)
	Register(binary("Greater", plain, floats2(greater[float32], greater[float64]), signed2(greater[int8], greater[int16], greater[int32], greater[int64]),
		unsigned2(greater[uint8], greater[uint16], greater[uint32], greater[uint64]))...)
	Register(binary("GreaterEqual", plain, floats2(greaterEqual[float32], greaterEqual[float64]), signed2(greaterEqual[int8], greaterEqual[int16], greaterEqual[int32], greaterEqual[int64]),
		unsigned2(greaterEqual[uint8], greaterEqual[uint16], greaterEqual[uint32], greaterEqual[uint64]))...)
	Register(binary("Equal", binaryOptions{mismatch: &no}, floats2(equal[float32], equal[float64]), signed2(equal[int8], equal[int16], equal[int32], equal[int64]),
		unsigned2(equal[uint8], equal[uint16], equal[uint32], equal[uint64]), complex2(equal[complex64], equal[complex128]),
		binaryRows{on(equal[bool]), on(equal[string])}, quantized2(equal[int8], equal[int16], equal[int32], equal[uint8], equal[uint16]))...)
	Register(binary("NotEqual", binaryOptions{mismatch: &yes}, floats2(notEqual[float32], notEqual[float64]), signed2(notEqual[int8], notEqual[int16], notEqual[int32], notEqual[int64]),
		unsigned2(notEqual[uint8], notEqual[uint16], notEqual[uint32], notEqual[uint64]), complex2(notEqual[complex64], notEqual[complex128]),
		binaryRows{on(notEqual[bool]), on(notEqual[string])}, quantized2(notEqual[int8], notEqual[int16], notEqual[int32], notEqual[uint8], notEqual[uint16]))...)
	Register(untyped(binary("LogicalAnd", plain, binaryRows{on(logicalAnd)}))...)
	Register(untyped(binary("LogicalOr", plain, binaryRows{on(logicalOr)}))...)

	Register(binary("BitwiseAnd", plain, signed2(bitAnd[int8], bitAnd[int16], bitAnd[int32], bitAnd[int64]),
		unsigned2(bitAnd[uint8], bitAnd[uint16], bitAnd[uint32], bitAnd[uint64]))...)
	Register(binary("BitwiseOr", plain, signed2(bitOr[int8], bitOr[int16], bitOr[int32], bitOr[int64]),
		unsigned2(bitOr[uint8], bitOr[uint16], bitOr[uint32], bitOr[uint64]))...)
	Register(binary("BitwiseXor", plain, signed2(bitXor[int8], bitXor[int16], bitXor[int32], bitXor[int64]),
		unsigned2(bitXor[uint8], bitXor[uint16], bitXor[uint32], bitXor[uint64]))...)
	Register(binary("LeftShift", plain, signed2(leftShift[int8], leftShift[int16], leftShift[int32], leftShift[int64]),
		unsigned2(leftShift[uint8], leftShift[uint16], leftShift[uint32], leftShift[uint64]))...)
	Register(binary("RightShift", plain, signed2(rightShift[int8], rightShift[int16], rightShift[int32], rightShift[int64]),
		unsigned2(rightShift[uint8], rightShift[uint16], rightShift[uint32], rightShift[uint64]))...)

	// Gradients take the op's output and the gradient of it.
	same := binaryOptions{sameCount: true}
	Register(binary("TanhGrad", same, floats2(tanhGrad[float32], tanhGrad[float64]),
		perComplex2(func(y, dy complex128) complex128 { return dy * (1 - y*y) }))...)
	Register(binary("SigmoidGrad", same, floats2(sigmoidGrad[float32], sigmoidGrad[float64]),
		perComplex2(func(y, dy complex128) complex128 { return dy * y * (1 - y) }))...)
	Register(binary("SqrtGrad", same, floats2(sqrtGrad[float32], sqrtGrad[float64]), perComplex2(sqrtGradComplex))...)
	Register(binary("RsqrtGrad", same, floats2(rsqrtGrad[float32], rsqrtGrad[float64]), perComplex2(rsqrtGradComplex))...)
	for _, op := range []string{"ReciprocalGrad", "InvGrad"} {
		Register(binary(op, same, floats2(reciprocalGrad[float32], reciprocalGrad[float64]), perComplex2(reciprocalGradComplex))...)
	}
}

// untyped takes the type attribute out of rows of ops that have none.
func untyped(rows []Def) []Def {
	for i := range rows {
		rows[i].Types = nil
	}
	return rows
}

// perComplex2 makes rows of a function of two complex numbers.
func perComplex2(f func(a, b complex128) complex128) binaryRows {
	return complex2(
		func(dst, a, b []complex64) {
			for i := range dst {
				dst[i] = complex64(f(complex128(a[i]), complex128(b[i])))
			}
		},
		func(dst, a, b []complex128) {
			for i := range dst {
				dst[i] = f(a[i], b[i])
			}
		})
}
