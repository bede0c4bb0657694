package math

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addAddN(table)
	addApprox(table)
	addArgMax(table)
	addBinCount(table)
	addBinary(table)
	addCast(table)
	addFFT(table)
	addReduce(table)
	addScan(table)
	addSearch(table)
	addSegment(table)
	addSelect(table)
	addSparseSegment(table)
	addSpecial(table)
	addUnary(table)
	addCastGPU(table)
	addElementwiseGPU(table)
	addReduceGPU(table)
	addScanGPU(table)
	addSegmentGPU(table)
	addSelectGPU(table)
	return table
}

func addAddN(table *kernels.Table) { registerAddN(table, elementwise.Additions()) }

func addApprox(table *kernels.Table) {
	approximatelyEqual(table, realDifference[float32])
	approximatelyEqual(table, realDifference[float64])
	approximatelyEqual(table, func(a, b element.Float16) float64 { return realDifference(a.Float(), b.Float()) })
	approximatelyEqual(table, func(a, b element.BFloat16) float64 { return realDifference(a.Float(), b.Float()) })
	approximatelyEqual(table, realDifference[int8])
	approximatelyEqual(table, realDifference[int16])
	approximatelyEqual(table, realDifference[int32])
	approximatelyEqual(table, realDifference[int64])
	approximatelyEqual(table, realDifference[uint8])
	approximatelyEqual(table, realDifference[uint16])
	approximatelyEqual(table, realDifference[uint32])
	approximatelyEqual(table, realDifference[uint64])
	approximatelyEqual(table, func(a, b complex64) float64 { return cmplx.Abs(complex128(a - b)) })
	approximatelyEqual(table, func(a, b complex128) float64 { return cmplx.Abs(a - b) })
}

func addArgMax(table *kernels.Table) {
	argRows(table, tensor.Float32, float32(math.Inf(-1)), float32(math.Inf(1)))
	argRows(table, tensor.Float64, math.Inf(-1), math.Inf(1))
	argRows[int8](table, tensor.Int8, math.MinInt8, math.MaxInt8)
	argRows[int16](table, tensor.Int16, math.MinInt16, math.MaxInt16)
	argRows[int32](table, tensor.Int32, math.MinInt32, math.MaxInt32)
	argRows[int64](table, tensor.Int64, math.MinInt64, math.MaxInt64)
	argRows[uint8](table, tensor.Uint8, 0, math.MaxUint8)
	argRows[uint16](table, tensor.Uint16, 0, math.MaxUint16)
	argRows[uint32](table, tensor.Uint32, 0, math.MaxUint32)
	argRows[uint64](table, tensor.Uint64, 0, math.MaxUint64)
	argRows[uint8](table, tensor.Bool, 0, 1) // booleans are bytes of 0 and 1
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
	binary("Xlogy", costly, elementwise.PerElement2(xlogy64), perComplex2(xlogyComplex))
	binary("Xlog1py", costly, elementwise.PerElement2(xlog1py64), perComplex2(xlog1pyComplex))
	binary("Atan2", costly, elementwise.PerElement2(math.Atan2))
	binary("NextAfter", costly, elementwise.Floats2(nextAfter32, nextAfter64)[:2])
	binary("Pow", costly, elementwise.PerElement2(math.Pow), perComplex2(cmplx.Pow), elementwise.Unsigned2(powInt[uint8], powInt[uint16], powInt[uint32], powInt[uint64]),
		elementwise.Signed2(powInt[int8], powInt[int16], powInt[int32], powInt[int64]).Checked(isNegative, errNegativePower))
	binary("SquaredDifference", plain, elementwise.Floats2(squaredDifference[float32], squaredDifference[float64]),
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
	table.Add(untyped(elementwise.Binary("LogicalAnd", plain, elementwise.BinaryRows{elementwise.On(logicalAnd)}))...)
	table.Add(untyped(elementwise.Binary("LogicalOr", plain, elementwise.BinaryRows{elementwise.On(logicalOr)}))...)

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

	// Gradients take the op's output and the gradient of it.
	same := elementwise.BinaryOptions{SameCount: true}
	binary("TanhGrad", same, elementwise.Floats2(tanhGrad[float32], tanhGrad[float64]),
		perComplex2(func(y, dy complex128) complex128 { return dy * (1 - y*y) }))
	binary("SigmoidGrad", same, elementwise.Floats2(sigmoidGrad[float32], sigmoidGrad[float64]),
		perComplex2(func(y, dy complex128) complex128 { return dy * y * (1 - y) }))
	binary("SqrtGrad", same, elementwise.Floats2(sqrtGrad[float32], sqrtGrad[float64]), perComplex2(sqrtGradComplex))
	binary("RsqrtGrad", same, elementwise.Floats2(rsqrtGrad[float32], rsqrtGrad[float64]), perComplex2(rsqrtGradComplex))
	for _, op := range []string{"ReciprocalGrad", "InvGrad"} {
		binary(op, same, elementwise.Floats2(reciprocalGrad[float32], reciprocalGrad[float64]), perComplex2(reciprocalGradComplex))
	}
}

func addBinCount(table *kernels.Table) {
	bincountRows[float32](table)
	bincountRows[float64](table)
	bincountRows[int8](table)
	bincountRows[int16](table)
	bincountRows[int32](table)
	bincountRows[int64](table)
	bincountRows[uint8](table)
	bincountRows[uint16](table)
	bincountRows[uint32](table)
	bincountRows[uint64](table)
	bincountRows[complex64](table)
	bincountRows[complex128](table)
}

func addCast(table *kernels.Table) {
	sources := []elementwise.UnaryRows{
		castInts[int8](), castInts[int16](), castInts[int32](), castInts[int64](),
		castInts[uint8](), castInts[uint16](), castInts[uint32](), castInts[uint64](),
		castFloats[float32](), castFloats[float64](), castHalfs[element.Float16](), castHalfs[element.BFloat16](),
		castBools(), castComplex64(), castComplex128(),
	}
	plain := map[[2]tensor.DType]kernels.Kernel{}
	for _, rows := range sources {
		for _, row := range rows {
			if row.In != row.Out {
				plain[[2]tensor.DType{row.In.DType, row.Out.DType}] = &elementwise.UnaryKernel{UnaryRow: row, Grain: element.CheapGrain}
				registerCast(table, row.In.DType, row.Out.DType, &castKernel{plain: elementwise.UnaryKernel{UnaryRow: row, Grain: element.CheapGrain}})
			}
		}
		same := rows[0].In.DType
		table.Add(kernels.Def{Op: "Cast", Types: castTypes(same, same), New: func(*kernels.Construction) (any, error) { return kernels.Func(castToSame), nil }})
	}
	registerSmallCasts(table, plain)
}

func addFFT(table *kernels.Table) {
	pairs := map[tensor.DType]tensor.DType{tensor.Complex64: tensor.Float32, tensor.Complex128: tensor.Float64}
	row := func(op string, types map[string][]tensor.DType, k fft) {
		table.Add(kernels.Def{Op: op, Types: types, HostInputs: []string{"fft_length"}, Expensive: true, New: func(*kernels.Construction) (any, error) { return &k, nil }})
	}
	for rank, suffix := range []string{"", "2D", "3D"} {
		for c, r := range pairs {
			one, both := map[string][]tensor.DType{"Tcomplex": {c}}, map[string][]tensor.DType{"Tcomplex": {c}, "Treal": {r}}
			row("FFT"+suffix, one, fft{rank: rank + 1, out: c})
			row("IFFT"+suffix, one, fft{rank: rank + 1, inverse: true, out: c})
			row("RFFT"+suffix, both, fft{rank: rank + 1, real: true, out: c})
			row("IRFFT"+suffix, both, fft{rank: rank + 1, inverse: true, real: true, out: r})
		}
	}
}

func addReduce(table *kernels.Table) {
	table.Add(reduction("Sum", reduceFloats(reduce.SumFloat, reduce.Sums[float64]()), reduceComplex(reduce.Sums[complex64](), reduce.Sums[complex128]()),
		reduceInts(reduce.Sums[int8](), reduce.Sums[int16](), reduce.Sums[int32](), reduce.Sums[int64](), reduce.Sums[uint8](), reduce.Sums[uint16](), reduce.Sums[uint32](), reduce.Sums[uint64]()))...)
	table.Add(reduction("Mean", reduceFloats(averaged(reduce.SumFloat), averaged(reduce.Sums[float64]())), reduceComplex(averagedComplex(reduce.Sums[complex64]()), averagedComplex(reduce.Sums[complex128]())),
		[]reduceEntry{wideMean[int8](), wideMean[int16](), wideMean[int32](), reduceRow(averagedInt(reduce.Sums[int64]())),
			wideMean[uint8](), wideMean[uint16](), wideMean[uint32](), reduceRow(averagedInt(reduce.Sums[uint64]()))})...)
	table.Add(reduction("Prod", reduceFloats(products[float32](), products[float64]()), reduceComplex(products[complex64](), products[complex128]()),
		reduceInts(products[int8](), products[int16](), products[int32](), products[int64](), products[uint8](), products[uint16](), products[uint32](), products[uint64]()))...)
	table.Add(reduction("Max", reduceFloats(reduce.MaxFloat, maxima(math.Inf(-1))),
		reduceInts(maxima[int8](math.MinInt8), maxima[int16](math.MinInt16), maxima[int32](math.MinInt32), maxima[int64](math.MinInt64),
			maxima[uint8](0), maxima[uint16](0), maxima[uint32](0), maxima[uint64](0)))...)
	table.Add(reduction("Min", reduceFloats(reduce.MinFloat, minima(math.Inf(1))),
		reduceInts(minima[int8](math.MaxInt8), minima[int16](math.MaxInt16), minima[int32](math.MaxInt32), minima[int64](math.MaxInt64),
			minima[uint8](math.MaxUint8), minima[uint16](math.MaxUint16), minima[uint32](math.MaxUint32), minima[uint64](math.MaxUint64)))...)
	table.Add(reduction("EuclideanNorm", reduceFloats(reduce.Norms(reduce.SumFloat, simd.Square, simd.Sqrt), reduce.Norms(reduce.Sums[float64](), elementwise.Square[float64], elementwise.Each64(math.Sqrt))),
		reduceComplex(reduce.Norms(reduce.Sums[complex64](), squaredAbs[complex64], sqrtComplex[complex64]), reduce.Norms(reduce.Sums[complex128](), squaredAbs[complex128], sqrtComplex[complex128])),
		reduceInts(normsInt[int8](), normsInt[int16](), normsInt[int32](), normsInt[int64](), normsInt[uint8](), normsInt[uint16](), normsInt[uint32](), normsInt[uint64]()))...)
	table.Add(untyped(reduction("All", []reduceEntry{reduceRow(reduce.Reducer[bool]{Identity: true,
		Row:  func(a []bool) bool { return !slices.Contains(a, false) },
		Into: func(acc, a []bool) { logicalAnd(acc, acc, a) }})}))...)
	table.Add(untyped(reduction("Any", []reduceEntry{reduceRow(reduce.Reducer[bool]{Identity: false,
		Row:  func(a []bool) bool { return slices.Contains(a, true) },
		Into: func(acc, a []bool) { logicalOr(acc, acc, a) }})}))...)
}

func addScan(table *kernels.Table) {
	scanRows[float32](table)
	scanRows[float64](table)
	scanRows[int8](table)
	scanRows[int16](table)
	scanRows[int32](table)
	scanRows[int64](table)
	scanRows[uint8](table)
	scanRows[uint16](table)
	scanRows[uint32](table)
	scanRows[uint64](table)
	scanRows[complex64](table)
	scanRows[complex128](table)
}

func addSearch(table *kernels.Table) {
	bucketizeRows[float32](table)
	bucketizeRows[float64](table)
	bucketizeRows[int32](table)
	bucketizeRows[int64](table)
	searchRows[float32](table)
	searchRows[float64](table)
	searchRows[int8](table)
	searchRows[int16](table)
	searchRows[int32](table)
	searchRows[int64](table)
	searchRows[uint8](table)
	searchRows[uint16](table)
	searchRows[uint32](table)
	searchRows[uint64](table)
}

func addSegment(table *kernels.Table) {
	// Of an empty segment the maximum is the lowest finite number.
	segmentExtremes[float32](table, -math.MaxFloat32, math.MaxFloat32)
	segmentExtremes[float64](table, -math.MaxFloat64, math.MaxFloat64)
	segmentExtremes[int8](table, math.MinInt8, math.MaxInt8)
	segmentExtremes[int16](table, math.MinInt16, math.MaxInt16)
	segmentExtremes[int32](table, math.MinInt32, math.MaxInt32)
	segmentExtremes[int64](table, math.MinInt64, math.MaxInt64)
	segmentExtremes[uint8](table, 0, math.MaxUint8)
	segmentExtremes[uint16](table, 0, math.MaxUint16)
	segmentExtremes[uint32](table, 0, math.MaxUint32)
	segmentExtremes[uint64](table, 0, math.MaxUint64)
	segmentHalves(table, tensor.Float16, 65504)
	segmentHalves(table, tensor.BFloat16, element.BFloat16(0x7f7f).Float())
	segmentSums[complex64](table)
	complexSegmentMeans[complex64](table)
	segmentSums[complex128](table)
	complexSegmentMeans[complex128](table)
}

func addSelect(table *kernels.Table) {
	for _, t := range []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Bool, tensor.QInt8, tensor.QUint8} {
		selectRows[uint8](table, t)
	}
	for _, t := range []tensor.DType{tensor.Uint16, tensor.Int16, tensor.Float16, tensor.BFloat16, tensor.QInt16, tensor.QUint16} {
		selectRows[uint16](table, t)
	}
	for _, t := range []tensor.DType{tensor.Uint32, tensor.Int32, tensor.Float32, tensor.QInt32} {
		selectRows[uint32](table, t)
	}
	for _, t := range []tensor.DType{tensor.Uint64, tensor.Int64, tensor.Float64, tensor.Complex64} {
		selectRows[uint64](table, t)
	}
	selectRows[complex128](table, tensor.Complex128)
	selectRows[string](table, tensor.String)
	selectRows[tensor.Handle](table, tensor.Resource)
	selectRows[any](table, tensor.Variant)
	clipRows[float32](table)
	clipRows[float64](table)
	clipRows[int8](table)
	clipRows[int16](table)
	clipRows[int32](table)
	clipRows[int64](table)
	clipRows[uint8](table)
	clipRows[uint16](table)
	for dtype, kernel := range map[tensor.DType]kernels.Kernel{tensor.Complex64: &complexClipKernel[complex64, float32]{tensor.Complex64},
		tensor.Complex128: &complexClipKernel[complex128, float64]{tensor.Complex128}} {
		table.Add(kernels.Def{Op: "ClipByValue", Types: map[string][]tensor.DType{"T": {dtype}}, New: func(*kernels.Construction) (any, error) { return kernel, nil }})
	}
}

func addSparseSegment(table *kernels.Table) {
	sparseSegmentRows[float32](table)
	sparseSegmentRows[float64](table)
	sparseSegmentRows[int8](table)
	sparseSegmentRows[int16](table)
	sparseSegmentRows[int32](table)
	sparseSegmentRows[int64](table)
	sparseSegmentRows[uint8](table)
	sparseSegmentRows[uint16](table)
	sparseSegmentRows[uint32](table)
	sparseSegmentRows[uint64](table)
	sparseSegmentGradRows[float32](table)
	sparseSegmentGradRows[float64](table)
}

func addSpecial(table *kernels.Table) {
	unary, binary := elementwise.Into(table)
	for op, f := range map[string]func(float64) float64{
		"BesselI0": besselI0, "BesselI0e": besselI0e, "BesselI1": besselI1, "BesselI1e": besselI1e,
		"BesselK0": besselK0, "BesselK0e": besselK0e, "BesselK1": besselK1, "BesselK1e": besselK1e,
		"BesselJ0": math.J0, "BesselJ1": besselJ1, "BesselY0": besselY0, "BesselY1": besselY1,
		"Dawsn": dawson, "FresnelSin": fresnelSin, "FresnelCos": fresnelCos, "Spence": spence, "Expint": expint,
	} {
		unary(op, element.BlockLen, elementwise.PerElement1(f))
	}
	costly := elementwise.BinaryOptions{Grain: element.BlockLen}
	binary("Zeta", costly, elementwise.PerElement2(zeta))
	binary("Polygamma", costly, elementwise.Floats2(elementwise.EachPair(polygamma[float32]), elementwise.EachPair(polygamma[float64])))
	binary("Igamma", costly, elementwise.PerElement2(igamma))
	binary("Igammac", costly, elementwise.PerElement2(igammac))
	binary("IgammaGradA", costly, elementwise.PerElement2(igammaGradA))
	binary("RandomGammaGrad", costly, elementwise.PerElement2(gammaSampleGrad))
	betaincRows[float32](table)
	betaincRows[float64](table)
}

func addUnary(table *kernels.Table) {
	unary, binary := elementwise.Into(table)
	const cheap, costly = element.CheapGrain, element.CostlyGrain
	unary("Neg", cheap, elementwise.Floats1(simd.Neg, neg[float64]), elementwise.Complex1(neg[complex64], neg[complex128]),
		elementwise.Signed1(neg[int8], neg[int16], neg[int32], neg[int64]))
	unary("Abs", cheap, elementwise.Fast1(simd.Abs, math.Abs), elementwise.Signed1(absInt[int8], absInt[int16], absInt[int32], absInt[int64]))
	unary("Square", cheap, elementwise.Floats1(simd.Square, elementwise.Square[float64]), elementwise.Complex1(elementwise.Square[complex64], elementwise.Square[complex128]),
		elementwise.Signed1(elementwise.Square[int8], elementwise.Square[int16], elementwise.Square[int32], elementwise.Square[int64]),
		elementwise.Unsigned1(elementwise.Square[uint8], elementwise.Square[uint16], elementwise.Square[uint32], elementwise.Square[uint64]))
	unary("Sign", cheap, elementwise.Floats1(sign[float32], sign[float64]), elementwise.PerComplex1(signComplex),
		elementwise.Signed1(sign[int8], sign[int16], sign[int32], sign[int64]))
	for _, op := range []string{"Reciprocal", "Inv"} {
		unary(op, cheap, elementwise.Floats1(reciprocal[float32], reciprocal[float64]), elementwise.Complex1(reciprocal[complex64], reciprocal[complex128]))
	}
	unary("Sqrt", cheap, elementwise.Fast1(simd.Sqrt, math.Sqrt), elementwise.PerComplex1(cmplx.Sqrt))
	unary("Rsqrt", cheap, elementwise.Fast1(simd.Rsqrt, rsqrt64), elementwise.PerComplex1(func(v complex128) complex128 { return 1 / cmplx.Sqrt(v) }))
	unary("Exp", costly, elementwise.Fast1(simd.Exp, math.Exp), elementwise.PerComplex1(cmplx.Exp))
	unary("Log", costly, elementwise.Fast1(simd.Log, math.Log), elementwise.PerComplex1(cmplx.Log))
	unary("Expm1", costly, elementwise.PerElement1(math.Expm1), elementwise.PerComplex1(func(v complex128) complex128 { return cmplx.Exp(v) - 1 }))
	unary("Log1p", costly, elementwise.PerElement1(math.Log1p), elementwise.PerComplex1(func(v complex128) complex128 { return cmplx.Log(1 + v) }))
	unary("Sin", costly, elementwise.PerElement1(math.Sin), elementwise.PerComplex1(cmplx.Sin))
	unary("Cos", costly, elementwise.PerElement1(math.Cos), elementwise.PerComplex1(cmplx.Cos))
	unary("Tan", costly, elementwise.PerElement1(math.Tan), elementwise.PerComplex1(cmplx.Tan))
	unary("Asin", costly, elementwise.PerElement1(math.Asin), elementwise.PerComplex1(complexAsin))
	unary("Acos", costly, elementwise.PerElement1(math.Acos), elementwise.PerComplex1(complexAcos))
	unary("Atan", costly, elementwise.PerElement1(math.Atan), elementwise.PerComplex1(complexAtan))
	unary("Sinh", costly, elementwise.PerElement1(math.Sinh), elementwise.PerComplex1(cmplx.Sinh))
	unary("Cosh", costly, elementwise.PerElement1(math.Cosh), elementwise.PerComplex1(cmplx.Cosh))
	unary("Tanh", costly, elementwise.Fast1(simd.Tanh, math.Tanh), elementwise.PerComplex1(complexTanh))
	unary("Asinh", costly, elementwise.PerElement1(math.Asinh), elementwise.PerComplex1(complexAsinh))
	unary("Acosh", costly, elementwise.PerElement1(math.Acosh), elementwise.PerComplex1(complexAcosh))
	unary("Atanh", costly, elementwise.PerElement1(math.Atanh), elementwise.PerComplex1(complexAtanh))
	unary("Sigmoid", costly, elementwise.Fast1(simd.Sigmoid, sigmoid64), elementwise.PerComplex1(func(v complex128) complex128 { return 1 / (1 + cmplx.Exp(-v)) }))
	unary("Erf", costly, elementwise.PerElement1(math.Erf))
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
	table.Add(untyped(elementwise.Unary("LogicalNot", cheap, elementwise.UnaryRows{elementwise.On1(logicalNot)}))...)
	unary("Invert", cheap, elementwise.Signed1(invert[int8], invert[int16], invert[int32], invert[int64]),
		elementwise.Unsigned1(invert[uint8], invert[uint16], invert[uint32], invert[uint64]))
	unary("PopulationCount", cheap, elementwise.Signed1(popCount[int8], popCount[int16], popCount[int32], popCount[int64]),
		elementwise.Unsigned1(popCount[uint8], popCount[uint16], popCount[uint32], popCount[uint64]))

	unary("Conj", cheap, elementwise.PerComplex1(cmplx.Conj))
	for op, rows := range map[string]elementwise.UnaryRows{
		"Real": elementwise.Complex1(real64, real128), "Imag": elementwise.Complex1(imag64, imag128),
		"ComplexAbs": elementwise.Complex1(abs64, abs128), "Angle": elementwise.Complex1(angle64, angle128),
	} {
		table.Add(elementwise.Typed("Tout", elementwise.Unary(op, cheap, rows), rows)...)
	}
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
