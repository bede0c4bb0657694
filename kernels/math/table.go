package math

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addBinary(table)
	addReduce(table.Op)
	addSegment(table.Op)
	addSpecial(table)
	addUnary(table)
	addVarious(table.Op)
	addCastGPU(table)
	addElementwiseGPU(table)
	addReduceGPU(table)
	addScanGPU(table)
	addSegmentGPU(table)
	addSelectGPU(table)
	return table
}

func addBinary(table *kernels.Table) {
	_, binary := elementwise.Into(table)
	plain, costly := elementwise.BinaryOptions{}, elementwise.BinaryOptions{Grain: element.CostlyGrain}
	yes, no := true, false

	adds := elementwise.Additions()
	binary("AddV2", plain, adds)
	binary("Add", plain, adds, elementwise.BinaryRows{elementwise.On(elementwise.Add[string])})
	binary("Sub", plain, elementwise.Joined(elementwise.Floats2(simd.Sub, elementwise.Sub[float64]),
		elementwise.Signed2(elementwise.Sub[int8], elementwise.Sub[int16], elementwise.Sub[int32], elementwise.Sub[int64]), elementwise.Unsigned2(elementwise.Sub[uint8], elementwise.Sub[uint16], elementwise.Sub[uint32], elementwise.Sub[uint64]),
		elementwise.Complex2(elementwise.Sub[complex64], elementwise.Sub[complex128])).Scalars(simd.SubScalar, simd.RSubScalar))
	binary("Mul", plain, elementwise.Joined(elementwise.Floats2(simd.Mul, elementwise.Mul[float64]),
		elementwise.Signed2(elementwise.Mul[int8], elementwise.Mul[int16], elementwise.Mul[int32], elementwise.Mul[int64]), elementwise.Unsigned2(elementwise.Mul[uint8], elementwise.Mul[uint16], elementwise.Mul[uint32], elementwise.Mul[uint64]),
		elementwise.Complex2(elementwise.Mul[complex64], elementwise.Mul[complex128])).Scalars(simd.MulScalar, simd.MulScalar))

	realDivs := elementwise.Joined(elementwise.Floats2(simd.Div, elementwise.Div[float64]),
		elementwise.Complex2(elementwise.Div[complex64], elementwise.Div[complex128])).Scalars(simd.DivScalar, simd.RDivScalar)
	intDivs := elementwise.Signed2(elementwise.Div[int8], elementwise.Div[int16], elementwise.Div[int32], elementwise.Div[int64]).Checked(isZero, errDivisionByZero)
	uintDivs := elementwise.Unsigned2(elementwise.Div[uint8], elementwise.Div[uint16], elementwise.Div[uint32], elementwise.Div[uint64]).Checked(isZero, errDivisionByZero)
	binary("RealDiv", plain, realDivs)
	binary("Div", plain, realDivs, intDivs, uintDivs)
	binary("TruncateDiv", plain, elementwise.Floats2(truncDivFloat[float32], truncDivFloat[float64]), intDivs, uintDivs)
	binary("FloorDiv", plain, elementwise.Floats2(floorDivFloat[float32], floorDivFloat[float64]), uintDivs,
		elementwise.Signed2(floorDivSigned[int8], floorDivSigned[int16], floorDivSigned[int32], floorDivSigned[int64]).Checked(isZero, errDivisionByZero))

	uintMods := elementwise.Unsigned2(mod[uint8], mod[uint16], mod[uint32], mod[uint64]).Checked(isZero, errDivisionByZero)
	mods := append(elementwise.Signed2(mod[int8], mod[int16], mod[int32], mod[int64]).Checked(isZero, errDivisionByZero), uintMods...)
	binary("Mod", costly, mods, elementwise.PerElement2(math.Mod))
	binary("TruncateMod", costly, mods, elementwise.PerElement2(math.Mod))
	binary("FloorMod", costly, uintMods, elementwise.PerElement2(floorMod64),
		elementwise.Signed2(floorModSigned[int8], floorModSigned[int16], floorModSigned[int32], floorModSigned[int64]).Checked(isZero, errDivisionByZero))

	binary("MulNoNan", plain, elementwise.Floats2(mulNoNan[float32], mulNoNan[float64]), elementwise.Complex2(mulNoNan[complex64], mulNoNan[complex128]))
	binary("DivNoNan", plain, elementwise.Floats2(divNoNan[float32], divNoNan[float64]), elementwise.Complex2(divNoNan[complex64], divNoNan[complex128]))
	binary("Xdivy", plain, elementwise.Floats2(xdivy[float32], xdivy[float64]), elementwise.Complex2(xdivy[complex64], xdivy[complex128]))
	binary("Xlogy", costly, logProducts(log64, xlogy64), perComplex2(xlogyComplex))
	binary("Xlog1py", costly, logProducts(math.Log1p, xlog1py64), perComplex2(xlog1pyComplex))
	binary("Atan2", costly, elementwise.PerElement2(math.Atan2))
	binary("NextAfter", costly, elementwise.Floats2(nextAfter32, nextAfter64)[:2])
	binary("Pow", costly, elementwise.Floats2(pow32, pow64), perComplex2(cmplx.Pow), elementwise.Unsigned2(powInt[uint8], powInt[uint16], powInt[uint32], powInt[uint64]),
		elementwise.Signed2(powInt[int8], powInt[int16], powInt[int32], powInt[int64]).Checked(isNegative, errNegativePower))
	binary("SquaredDifference", plain, elementwise.Floats2(squaredDifference32, squaredDifference[float64]).Scalars(squaredDifferenceScalar, squaredDifferenceScalar),
		elementwise.Signed2(squaredDifference[int8], squaredDifference[int16], squaredDifference[int32], squaredDifference[int64]),
		perComplex2(func(a, b complex128) complex128 { d := a - b; return cmplx.Conj(d) * d }))

	binary("Maximum", plain, elementwise.Floats2(simd.Max, elementwise.Maximum[float64]), elementwise.Signed2(elementwise.Maximum[int8], elementwise.Maximum[int16], elementwise.Maximum[int32], elementwise.Maximum[int64]),
		elementwise.Unsigned2(elementwise.Maximum[uint8], elementwise.Maximum[uint16], elementwise.Maximum[uint32], elementwise.Maximum[uint64]))
	binary("Minimum", plain, elementwise.Floats2(simd.Min, elementwise.Minimum[float64]), elementwise.Signed2(elementwise.Minimum[int8], elementwise.Minimum[int16], elementwise.Minimum[int32], elementwise.Minimum[int64]),
		elementwise.Unsigned2(elementwise.Minimum[uint8], elementwise.Minimum[uint16], elementwise.Minimum[uint32], elementwise.Minimum[uint64]))

	binary("Less", plain, elementwise.Floats2(less[float32], less[float64]), elementwise.Signed2(less[int8], less[int16], less[int32], less[int64]),
		elementwise.Unsigned2(less[uint8], less[uint16], less[uint32], less[uint64]))
	binary("LessEqual", plain, elementwise.Floats2(lessEqual[float32], lessEqual[float64]), elementwise.Signed2(lessEqual[int8], lessEqual[int16], lessEqual[int32], lessEqual[int64]),
		elementwise.Unsigned2(lessEqual[uint8], lessEqual[uint16], lessEqual[uint32], lessEqual[uint64]))
	binary("Greater", plain, elementwise.Floats2(greater[float32], greater[float64]), elementwise.Signed2(greater[int8], greater[int16], greater[int32], greater[int64]),
		elementwise.Unsigned2(greater[uint8], greater[uint16], greater[uint32], greater[uint64]))
	binary("GreaterEqual", plain, elementwise.Floats2(greaterEqual[float32], greaterEqual[float64]), elementwise.Signed2(greaterEqual[int8], greaterEqual[int16], greaterEqual[int32], greaterEqual[int64]),
		elementwise.Unsigned2(greaterEqual[uint8], greaterEqual[uint16], greaterEqual[uint32], greaterEqual[uint64]))
	binary("Equal", elementwise.BinaryOptions{Mismatch: &no}, elementwise.Floats2(equal[float32], equal[float64]), elementwise.Signed2(equal[int8], equal[int16], equal[int32], equal[int64]),
		elementwise.Unsigned2(equal[uint8], equal[uint16], equal[uint32], equal[uint64]), elementwise.Complex2(equal[complex64], equal[complex128]),
		elementwise.BinaryRows{elementwise.On(equal[bool]), elementwise.On(equal[string])}, elementwise.Quantized2(equal[int8], equal[int16], equal[int32], equal[uint8], equal[uint16]))
	binary("NotEqual", elementwise.BinaryOptions{Mismatch: &yes}, elementwise.Floats2(notEqual[float32], notEqual[float64]), elementwise.Signed2(notEqual[int8], notEqual[int16], notEqual[int32], notEqual[int64]),
		elementwise.Unsigned2(notEqual[uint8], notEqual[uint16], notEqual[uint32], notEqual[uint64]), elementwise.Complex2(notEqual[complex64], notEqual[complex128]),
		elementwise.BinaryRows{elementwise.On(notEqual[bool]), elementwise.On(notEqual[string])}, elementwise.Quantized2(notEqual[int8], notEqual[int16], notEqual[int32], notEqual[uint8], notEqual[uint16]))
	table.Op("LogicalAnd", untyped(elementwise.Binary(plain, elementwise.BinaryRows{elementwise.On(logicalAnd)})))
	table.Op("LogicalOr", untyped(elementwise.Binary(plain, elementwise.BinaryRows{elementwise.On(logicalOr)})))

	binary("BitwiseAnd", plain, elementwise.Signed2(bitAnd[int8], bitAnd[int16], bitAnd[int32], bitAnd[int64]),
		elementwise.Unsigned2(bitAnd[uint8], bitAnd[uint16], bitAnd[uint32], bitAnd[uint64]))
	binary("BitwiseOr", plain, elementwise.Signed2(bitOr[int8], bitOr[int16], bitOr[int32], bitOr[int64]),
		elementwise.Unsigned2(bitOr[uint8], bitOr[uint16], bitOr[uint32], bitOr[uint64]))
	binary("BitwiseXor", plain, elementwise.Signed2(bitXor[int8], bitXor[int16], bitXor[int32], bitXor[int64]),
		elementwise.Unsigned2(bitXor[uint8], bitXor[uint16], bitXor[uint32], bitXor[uint64]))
	binary("LeftShift", plain, elementwise.Signed2(leftShift[int8], leftShift[int16], leftShift[int32], leftShift[int64]),
		elementwise.Unsigned2(leftShift[uint8], leftShift[uint16], leftShift[uint32], leftShift[uint64]))
	binary("RightShift", plain, elementwise.Signed2(rightShift[int8], rightShift[int16], rightShift[int32], rightShift[int64]),
		elementwise.Unsigned2(rightShift[uint8], rightShift[uint16], rightShift[uint32], rightShift[uint64]))

	// Gradient ops take the op's output and the gradient with respect to it.
	same := elementwise.BinaryOptions{SameCount: true}
	binary("TanhGrad", same, elementwise.Floats2(tanhGrad[float32], tanhGrad[float64]),
		perComplex2(func(y, dy complex128) complex128 { return dy * (1 - y*y) }))
	binary("SigmoidGrad", same, elementwise.Floats2(sigmoidGrad[float32], sigmoidGrad[float64]),
		perComplex2(func(y, dy complex128) complex128 { return dy * y * (1 - y) }))
	binary("SqrtGrad", same, elementwise.Floats2(sqrtGrad[float32], sqrtGrad[float64]), perComplex2(sqrtGradComplex))
	binary("RsqrtGrad", same, elementwise.Floats2(rsqrtGrad[float32], rsqrtGrad[float64]), perComplex2(rsqrtGradComplex))
	binary("ReciprocalGrad", same, elementwise.Floats2(reciprocalGrad[float32], reciprocalGrad[float64]), perComplex2(reciprocalGradComplex))
	binary("InvGrad", same, elementwise.Floats2(reciprocalGrad[float32], reciprocalGrad[float64]), perComplex2(reciprocalGradComplex))
}

func addReduce(op func(op string, sets ...[]kernels.Def)) {
	op("Sum", reduction(reduceFloats(reduce.SumFloat, reduce.Sums[float64]()), reduceComplex(reduce.Sums[complex64](), reduce.Sums[complex128]()),
		reduceInts(reduce.Sums[int8](), reduce.Sums[int16](), reduce.Sums[int32](), reduce.Sums[int64](), reduce.Sums[uint8](), reduce.Sums[uint16](), reduce.Sums[uint32](), reduce.Sums[uint64]())))
	op("Mean", reduction(reduceFloats(averaged(reduce.SumFloat), averaged(reduce.Sums[float64]())), reduceComplex(averagedComplex(reduce.Sums[complex64]()), averagedComplex(reduce.Sums[complex128]())),
		[]reduceEntry{wideMean[int8](), wideMean[int16](), wideMean[int32](), reduceRow(averagedInt(reduce.Sums[int64]())),
			wideMean[uint8](), wideMean[uint16](), wideMean[uint32](), reduceRow(averagedInt(reduce.Sums[uint64]()))}))
	op("Prod", reduction(reduceFloats(products[float32](), products[float64]()), reduceComplex(products[complex64](), products[complex128]()),
		reduceInts(products[int8](), products[int16](), products[int32](), products[int64](), products[uint8](), products[uint16](), products[uint32](), products[uint64]())))
	op("Max", reduction(reduceFloats(reduce.MaxFloat, maxima(math.Inf(-1))),
		reduceInts(maxima[int8](math.MinInt8), maxima[int16](math.MinInt16), maxima[int32](math.MinInt32), maxima[int64](math.MinInt64),
			maxima[uint8](0), maxima[uint16](0), maxima[uint32](0), maxima[uint64](0))))
	op("Min", reduction(reduceFloats(reduce.MinFloat, minima(math.Inf(1))),
		reduceInts(minima[int8](math.MaxInt8), minima[int16](math.MaxInt16), minima[int32](math.MaxInt32), minima[int64](math.MaxInt64),
			minima[uint8](math.MaxUint8), minima[uint16](math.MaxUint16), minima[uint32](math.MaxUint32), minima[uint64](math.MaxUint64))))
	op("EuclideanNorm", reduction(reduceFloats(reduce.Norms(reduce.SumFloat, simd.Square, simd.Sqrt), reduce.Norms(reduce.Sums[float64](), elementwise.Square[float64], elementwise.Each64(math.Sqrt))),
		reduceComplex(reduce.Norms(reduce.Sums[complex64](), squaredAbs[complex64], sqrtComplex[complex64]), reduce.Norms(reduce.Sums[complex128](), squaredAbs[complex128], sqrtComplex[complex128])),
		reduceInts(normsInt[int8](), normsInt[int16](), normsInt[int32](), normsInt[int64](), normsInt[uint8](), normsInt[uint16](), normsInt[uint32](), normsInt[uint64]())))
	op("All", untyped(reduction([]reduceEntry{reduceRow(reduce.Reducer[bool]{Identity: true,
		Row:  func(a []bool) bool { return !slices.Contains(a, false) },
		Into: func(acc, a []bool) { logicalAnd(acc, acc, a) }})})))
	op("Any", untyped(reduction([]reduceEntry{reduceRow(reduce.Reducer[bool]{Identity: false,
		Row:  func(a []bool) bool { return slices.Contains(a, true) },
		Into: func(acc, a []bool) { logicalOr(acc, acc, a) }})})))
}

func addSegment(op func(op string, sets ...[]kernels.Def)) {
	op("SegmentSum", segmentSums(false))
	op("SegmentProd", segmentProducts(false))
	op("SegmentMean", segmentMeans())
	op("SegmentMax", segmentMaxima(false))
	op("SegmentMin", segmentMinima(false))
	op("UnsortedSegmentSum", segmentSums(true))
	op("UnsortedSegmentProd", segmentProducts(true))
	op("UnsortedSegmentMax", segmentMaxima(true))
	op("UnsortedSegmentMin", segmentMinima(true))
	op("SparseSegmentSum", sparseSegments(unscaled, false), sparseIntegers(unscaled, false))
	op("SparseSegmentSumWithNumSegments", sparseSegments(unscaled, true), sparseIntegers(unscaled, true))
	op("SparseSegmentSumGrad", sparseSegmentGrads(unscaled, false))
	op("SparseSegmentSumGradV2", sparseSegmentGrads(unscaled, true))
	op("SparseSegmentMean", sparseSegments(scaledMean, false))
	op("SparseSegmentMeanWithNumSegments", sparseSegments(scaledMean, true))
	op("SparseSegmentMeanGrad", sparseSegmentGrads(scaledMean, false))
	op("SparseSegmentMeanGradV2", sparseSegmentGrads(scaledMean, true))
	op("SparseSegmentSqrtN", sparseSegments(scaledSqrtN, false))
	op("SparseSegmentSqrtNWithNumSegments", sparseSegments(scaledSqrtN, true))
	op("SparseSegmentSqrtNGrad", sparseSegmentGrads(scaledSqrtN, false))
	op("SparseSegmentSqrtNGradV2", sparseSegmentGrads(scaledSqrtN, true))
}

func addVarious(op func(op string, sets ...[]kernels.Def)) {
	op("AddN", addNRows())
	op("AccumulateNV2", addNRows())
	op("ApproximateEqual", approximatelyEqual())
	op("ArgMax", argRows(false))
	op("ArgMin", argRows(true))
	op("Cast", castRows())

	op("Bincount", bincountRows(countAll, counting))
	op("DenseBincount", bincountRows(countDense, binaryOutput))
	op("SparseBincount", bincountRows(countSparse, binaryOutput))
	op("RaggedBincount", bincountRows(countRagged, binaryOutput))

	op("FFT", fftRows(fft{rank: 1}))
	op("FFT2D", fftRows(fft{rank: 2}))
	op("FFT3D", fftRows(fft{rank: 3}))
	op("IFFT", fftRows(fft{rank: 1, inverse: true}))
	op("IFFT2D", fftRows(fft{rank: 2, inverse: true}))
	op("IFFT3D", fftRows(fft{rank: 3, inverse: true}))
	op("RFFT", fftRows(fft{rank: 1, real: true}))
	op("RFFT2D", fftRows(fft{rank: 2, real: true}))
	op("RFFT3D", fftRows(fft{rank: 3, real: true}))
	op("IRFFT", fftRows(fft{rank: 1, inverse: true, real: true}))
	op("IRFFT2D", fftRows(fft{rank: 2, inverse: true, real: true}))
	op("IRFFT3D", fftRows(fft{rank: 3, inverse: true, real: true}))

	op("Cumsum", scanRows(false))
	op("Cumprod", scanRows(true))
	op("CumulativeLogsumexp", logSumScans())

	op("Bucketize", bucketize[float32](), bucketize[float64](), bucketize[int32](), bucketize[int64]())
	op("LowerBound", boundRows(false))
	op("UpperBound", boundRows(true))
	op("NthElement", nth[float32](), nth[float64](), nth[int8](), nth[int16](), nth[int32](), nth[int64](), nth[uint8](), nth[uint16](), nth[uint32](), nth[uint64]())

	op("Select", selectRows(false))
	op("SelectV2", selectRows(true))
	op("ClipByValue", clipOf[float32](), clipOf[float64](), clipOf[int8](), clipOf[int16](), clipOf[int32](), clipOf[int64](), clipOf[uint8](), clipOf[uint16](),
		clipComplexOf[complex64, float32](), clipComplexOf[complex128, float64]())
}

func addSpecial(table *kernels.Table) {
	unary, binary := elementwise.Into(table)
	unary("BesselI0", element.BlockLen, elementwise.PerElement1(besselI0))
	unary("BesselI0e", element.BlockLen, elementwise.PerElement1(besselI0e))
	unary("BesselI1", element.BlockLen, elementwise.PerElement1(besselI1))
	unary("BesselI1e", element.BlockLen, elementwise.PerElement1(besselI1e))
	unary("BesselK0", element.BlockLen, elementwise.PerElement1(besselK0))
	unary("BesselK0e", element.BlockLen, elementwise.PerElement1(besselK0e))
	unary("BesselK1", element.BlockLen, elementwise.PerElement1(besselK1))
	unary("BesselK1e", element.BlockLen, elementwise.PerElement1(besselK1e))
	unary("BesselJ0", element.BlockLen, elementwise.PerElement1(math.J0))
	unary("BesselJ1", element.BlockLen, elementwise.PerElement1(besselJ1))
	unary("BesselY0", element.BlockLen, elementwise.PerElement1(besselY0))
	unary("BesselY1", element.BlockLen, elementwise.PerElement1(besselY1))
	unary("Dawsn", element.BlockLen, elementwise.PerElement1(dawson))
	unary("FresnelSin", element.BlockLen, elementwise.PerElement1(fresnelSin))
	unary("FresnelCos", element.BlockLen, elementwise.PerElement1(fresnelCos))
	unary("Spence", element.BlockLen, elementwise.PerElement1(spence))
	unary("Expint", element.BlockLen, elementwise.PerElement1(expint))
	costly := elementwise.BinaryOptions{Grain: element.BlockLen}
	binary("Zeta", costly, elementwise.PerElement2(zeta))
	binary("Polygamma", costly, elementwise.Floats2(elementwise.EachPair(polygamma[float32]), elementwise.EachPair(polygamma[float64])))
	binary("Igamma", costly, elementwise.PerElement2(igamma))
	binary("Igammac", costly, elementwise.PerElement2(igammac))
	binary("IgammaGradA", costly, elementwise.PerElement2(igammaGradA))
	binary("RandomGammaGrad", costly, elementwise.PerElement2(gammaSampleGrad))
	table.Op("Betainc", betaincOf[float32](), betaincOf[float64]())
}

func addUnary(table *kernels.Table) {
	unary, binary := elementwise.Into(table)
	const cheap, costly = element.CheapGrain, element.CostlyGrain
	unary("Neg", cheap, elementwise.Floats1(simd.Neg, neg[float64]), elementwise.Complex1(neg[complex64], neg[complex128]),
		elementwise.Signed1(neg[int8], neg[int16], neg[int32], neg[int64]))
	unary("Abs", cheap, elementwise.Floats1(simd.Abs, elementwise.Each64(math.Abs)), elementwise.Signed1(absInt[int8], absInt[int16], absInt[int32], absInt[int64]))
	unary("Square", cheap, elementwise.Floats1(simd.Square, elementwise.Square[float64]), elementwise.Complex1(elementwise.Square[complex64], elementwise.Square[complex128]),
		elementwise.Signed1(elementwise.Square[int8], elementwise.Square[int16], elementwise.Square[int32], elementwise.Square[int64]),
		elementwise.Unsigned1(elementwise.Square[uint8], elementwise.Square[uint16], elementwise.Square[uint32], elementwise.Square[uint64]))
	unary("Sign", cheap, elementwise.Floats1(sign[float32], sign[float64]), elementwise.PerComplex1(signComplex),
		elementwise.Signed1(sign[int8], sign[int16], sign[int32], sign[int64]))
	unary("Reciprocal", cheap, elementwise.Floats1(reciprocal[float32], reciprocal[float64]), elementwise.Complex1(reciprocal[complex64], reciprocal[complex128]))
	unary("Inv", cheap, elementwise.Floats1(reciprocal[float32], reciprocal[float64]), elementwise.Complex1(reciprocal[complex64], reciprocal[complex128]))
	unary("Sqrt", cheap, elementwise.Fast1(simd.Sqrt, math.Sqrt), elementwise.PerComplex1(cmplx.Sqrt))
	unary("Rsqrt", cheap, elementwise.Fast1(simd.Rsqrt, rsqrt64), elementwise.PerComplex1(func(v complex128) complex128 { return 1 / cmplx.Sqrt(v) }))
	unary("Exp", costly, elementwise.Fast1(simd.Exp, exp64), elementwise.PerComplex1(cmplx.Exp))
	unary("Log", costly, elementwise.Fast1(simd.Log, log64), elementwise.PerComplex1(cmplx.Log))
	unary("Expm1", costly, elementwise.PerElement1(math.Expm1), elementwise.PerComplex1(func(v complex128) complex128 { return cmplx.Exp(v) - 1 }))
	unary("Log1p", costly, elementwise.PerElement1(math.Log1p), elementwise.PerComplex1(func(v complex128) complex128 { return cmplx.Log(1 + v) }))
	unary("Sin", costly, elementwise.Fast1(elementwise.Each32(math.Sin), sin64), elementwise.PerComplex1(cmplx.Sin))
	unary("Cos", costly, elementwise.Fast1(elementwise.Each32(math.Cos), cos64), elementwise.PerComplex1(cmplx.Cos))
	unary("Tan", costly, elementwise.Fast1(elementwise.Each32(math.Tan), tan64), elementwise.PerComplex1(cmplx.Tan))
	unary("Asin", costly, elementwise.PerElement1(asin64), elementwise.PerComplex1(complexAsin))
	unary("Acos", costly, elementwise.PerElement1(acos64), elementwise.PerComplex1(complexAcos))
	unary("Atan", costly, elementwise.PerElement1(math.Atan), elementwise.PerComplex1(complexAtan))
	unary("Sinh", costly, elementwise.Kept1(sinh64), elementwise.PerComplex1(cmplx.Sinh))
	unary("Cosh", costly, elementwise.PerElement1(cosh64), elementwise.PerComplex1(cmplx.Cosh))
	unary("Tanh", costly, elementwise.Fast1(simd.Tanh, math.Tanh), elementwise.PerComplex1(complexTanh))
	unary("Asinh", costly, elementwise.PerElement1(math.Asinh), elementwise.PerComplex1(complexAsinh))
	unary("Acosh", costly, elementwise.PerElement1(math.Acosh), elementwise.PerComplex1(complexAcosh))
	unary("Atanh", costly, elementwise.PerElement1(math.Atanh), elementwise.PerComplex1(complexAtanh))
	unary("Sigmoid", costly, elementwise.Fast1(simd.Sigmoid, sigmoid64), elementwise.PerComplex1(func(v complex128) complex128 { return 1 / (1 + cmplx.Exp(-v)) }))
	unary("Erf", costly, elementwise.Fast1(simd.Erf, math.Erf))
	unary("Erfc", costly, elementwise.PerElement1(math.Erfc))
	unary("Erfinv", costly, elementwise.PerElement1(math.Erfinv))
	unary("Ndtri", costly, elementwise.PerElement1(ndtri64))
	unary("Lgamma", costly, elementwise.PerElement1(lgamma64))
	unary("Digamma", costly, elementwise.PerElement1(digamma64))
	unary("Floor", cheap, elementwise.PerElement1(math.Floor))
	unary("Ceil", cheap, elementwise.PerElement1(math.Ceil))
	unary("Rint", cheap, elementwise.PerElement1(math.RoundToEven))
	unary("Round", cheap, elementwise.PerElement1(math.RoundToEven), elementwise.Signed1(identity[int8], identity[int16], identity[int32], identity[int64]),
		elementwise.Unsigned1(identity[uint8], identity[uint16], identity[uint32], identity[uint64]))
	unary("IsNan", cheap, elementwise.Floats1(isNaN[float32], isNaN[float64]))
	unary("IsInf", cheap, elementwise.Floats1(isInf[float32], isInf[float64]))
	unary("IsFinite", cheap, elementwise.Floats1(isFinite[float32], isFinite[float64]))
	table.Op("LogicalNot", untyped(elementwise.Unary(cheap, elementwise.UnaryRows{elementwise.On1(logicalNot)})))
	unary("Invert", cheap, elementwise.Signed1(invert[int8], invert[int16], invert[int32], invert[int64]),
		elementwise.Unsigned1(invert[uint8], invert[uint16], invert[uint32], invert[uint64]))
	unary("PopulationCount", cheap, elementwise.Signed1(popCount[int8], popCount[int16], popCount[int32], popCount[int64]),
		elementwise.Unsigned1(popCount[uint8], popCount[uint16], popCount[uint32], popCount[uint64]))

	unary("Conj", cheap, elementwise.PerComplex1(cmplx.Conj))
	table.Op("Real", partOf(elementwise.Complex1(real64, real128)))
	table.Op("Imag", partOf(elementwise.Complex1(imag64, imag128)))
	table.Op("ComplexAbs", partOf(elementwise.Complex1(abs64, abs128)))
	table.Op("Angle", partOf(elementwise.Complex1(angle64, angle128)))
	makes := elementwise.BinaryRows{elementwise.On(func(dst []complex64, a, b []float32) {
		for i := range dst {
			dst[i] = complex(a[i], b[i])
		}
	}), elementwise.On(func(dst []complex128, a, b []float64) {
		for i := range dst {
			dst[i] = complex(a[i], b[i])
		}
	})}
	binary("Complex", elementwise.BinaryOptions{}, makes)
}

// partOf returns the rows of an op on complex numbers whose results are real.
func partOf(rows elementwise.UnaryRows) []kernels.Def {
	return elementwise.Typed("Tout", elementwise.Unary(element.CheapGrain, rows), rows)
}
