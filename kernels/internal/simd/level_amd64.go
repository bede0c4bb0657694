package simd

import "golang.org/x/sys/cpu"

var avx512 = kernelSet{
	name: "avx512",
	add:  addAVX512, sub: subAVX512, mul: mulAVX512, div: divAVX512, max: maxAVX512, min: minAVX512,
	reluGrad:  reluGradAVX512,
	addScalar: addScalarAVX512, subScalar: subScalarAVX512, rsubScalar: rsubScalarAVX512,
	mulScalar: mulScalarAVX512, divScalar: divScalarAVX512, rdivScalar: rdivScalarAVX512,
	neg: negAVX512, abs: absAVX512, square: squareAVX512, sqrt: sqrtAVX512, rsqrt: rsqrtAVX512,
	exp: expAVX512, log: logAVX512, tanh: tanhAVX512, sigmoid: sigmoidAVX512, relu: reluAVX512, erf: erfAVX512, expSum: expSumAVX512,
	sumOfProducts: sumOfProductsAVX512, sumOfTaps: sumOfTapsAVX512, maxOfTaps: maxOfTapsAVX512, maxGradOfTaps: maxGradOfTapsAVX512,
	meanOfTaps: meanOfTapsAVX512, tapProducts: &tapProducts{
		{tapProducts1x1AVX512, tapProducts1x2AVX512, tapProducts1x3AVX512},
		{tapProducts2x1AVX512, tapProducts2x2AVX512, tapProducts2x3AVX512},
		{tapProducts3x1AVX512, tapProducts3x2AVX512, tapProducts3x3AVX512},
	},
	filteredTaps: &filteredTaps{
		{filteredTaps1x1AVX512, filteredTaps1x2AVX512, filteredTaps1x3AVX512},
		{filteredTaps2x1AVX512, filteredTaps2x2AVX512, filteredTaps2x3AVX512},
		{filteredTaps3x1AVX512, filteredTaps3x2AVX512, filteredTaps3x3AVX512},
	},
	mix: mixAVX512, mixAt: mixAtAVX512,
	normalizeRow: normalizeRowAVX512, addSquaresRow: addSquaresRowAVX512, addProductsRow: addProductsRowAVX512, normalizeGradRow: normalizeGradRowAVX512,
	norms:   &normKernels{64, normalizeColumnsAVX512, addColumnsAVX512, addSquaresColumnsAVX512, addProductsColumnsAVX512, normalizeGradColumnsAVX512},
	sumEach: sumEachAVX512, maxOfEach: maxOfEachAVX512,
	sum: sumAVX512, maxOf: maxOfAVX512, dot: dotAVX512, axpy: axpyAVX512,
	narrow: narrowAVX512, widen: widenAVX512, interleave: interleaveAVX512,
	selections: &selections{select8AVX512, select16AVX512, select32AVX512, select64AVX512},
	truncate:   truncateAVX512, toDouble: toDoubleAVX512, fromDouble: fromDoubleAVX512,
	philox: philoxAVX512, unit: unitAVX512, normal: normalAVX512,
	adam: adamAVX512, adamNesterov: adamNesterovAVX512,
	momentum: momentumAVX512, momentumNesterov: momentumNesterovAVX512, rmsProp: rmsPropAVX512, rmsPropCentered: rmsPropCenteredAVX512,
	adagrad: adagradAVX512, ftrl: ftrlAVX512,
	rows: &rowKernels[float32]{addRowsAVX512, dotRowsAVX512}, rows64: &rowKernels[float64]{addRowsDoubleAVX512, dotRowsDoubleAVX512},
	pictures:     &picturesAVX512,
	butterflies4: butterflies4AVX512, butterflies2: butterflies2AVX512, untangle: untangleAVX512,
	untangleRow: untangleRowAVX512, loadNumbers: loadNumbersAVX512, storeNumbers: storeNumbersAVX512, mulNumbers: mulNumbersAVX512,
	tiles: &tilesAVX512, tiles64: &tiles64AVX512, tilesInt32: &tilesInt32AVX512,
}

var avx2 = kernelSet{
	name: "avx2",
	add:  addAVX2, sub: subAVX2, mul: mulAVX2, div: divAVX2, max: maxAVX2, min: minAVX2,
	reluGrad:  reluGradAVX2,
	addScalar: addScalarAVX2, subScalar: subScalarAVX2, rsubScalar: rsubScalarAVX2,
	mulScalar: mulScalarAVX2, divScalar: divScalarAVX2, rdivScalar: rdivScalarAVX2,
	neg: negAVX2, abs: absAVX2, square: squareAVX2, sqrt: sqrtAVX2, rsqrt: rsqrtAVX2,
	exp: expAVX2, log: logAVX2, tanh: tanhAVX2, sigmoid: sigmoidAVX2, relu: reluAVX2, erf: erfAVX2, expSum: expSumAVX2,
	sumOfProducts: sumOfProductsAVX2, sumOfTaps: sumOfTapsAVX2, maxOfTaps: maxOfTapsAVX2, maxGradOfTaps: maxGradOfTapsAVX2,
	meanOfTaps: meanOfTapsAVX2, tapProducts: &tapProducts{
		{tapProducts1x1AVX2, tapProducts1x2AVX2, tapProducts1x3AVX2},
		{tapProducts2x1AVX2, tapProducts2x2AVX2, tapProducts2x3AVX2},
		{tapProducts3x1AVX2, tapProducts3x2AVX2, tapProducts3x3AVX2},
	},
	filteredTaps: &filteredTaps{
		{filteredTaps1x1AVX2, filteredTaps1x2AVX2, filteredTaps1x3AVX2},
		{filteredTaps2x1AVX2, filteredTaps2x2AVX2, filteredTaps2x3AVX2},
		{filteredTaps3x1AVX2, filteredTaps3x2AVX2, filteredTaps3x3AVX2},
	},
	mix: mixAVX2, mixAt: mixAtAVX2,
	normalizeRow: normalizeRowAVX2, addSquaresRow: addSquaresRowAVX2, addProductsRow: addProductsRowAVX2, normalizeGradRow: normalizeGradRowAVX2,
	norms:   &normKernels{16, normalizeColumnsAVX2, addColumnsAVX2, addSquaresColumnsAVX2, addProductsColumnsAVX2, normalizeGradColumnsAVX2},
	sumEach: sumEachAVX2, maxOfEach: maxOfEachAVX2,
	sum: sumAVX2, maxOf: maxOfAVX2, dot: dotAVX2, axpy: axpyAVX2,
	narrow: narrowAVX2, widen: widenAVX2,
	selections: &selections{select8AVX2, select16AVX2, select32AVX2, select64AVX2},
	truncate:   truncateAVX2, toDouble: toDoubleAVX2, fromDouble: fromDoubleAVX2,
	philox: philoxAVX2, unit: unitAVX2, normal: normalAVX2,
	adam: adamAVX2, adamNesterov: adamNesterovAVX2,
	momentum: momentumAVX2, momentumNesterov: momentumNesterovAVX2, rmsProp: rmsPropAVX2, rmsPropCentered: rmsPropCenteredAVX2,
	adagrad: adagradAVX2, ftrl: ftrlAVX2,
	rows: &rowKernels[float32]{addRowsAVX2, dotRowsAVX2}, rows64: &rowKernels[float64]{addRowsDoubleAVX2, dotRowsDoubleAVX2},
	pictures:     &picturesAVX2,
	butterflies4: butterflies4AVX2, butterflies2: butterflies2AVX2, untangle: untangleAVX2,
	untangleRow: untangleRowAVX2, loadNumbers: loadNumbersAVX2, storeNumbers: storeNumbersAVX2, mulNumbers: mulNumbersAVX2,
	tiles: &tilesAVX2, tiles64: &tiles64AVX2, tilesInt32: &tilesInt32AVX2,
}

var picturesAVX2 = pictureKernels{
	inverse: [2]func(dst *uint8, stride int, block, quanta *int16){AccurateTransform: inverseAccurateAVX2, FastTransform: inverseFastAVX2},
	inverseTwo: [2]func(dst, second *uint8, stride int, block, quanta *int16){
		AccurateTransform: inverseAccurateTwoAVX2, FastTransform: inverseFastTwoAVX2,
	},
	upsampleBoth: upsampleBothAVX2, upsampleAcross: upsampleAcrossAVX2, repeatAcross: repeatAcrossAVX2, colours: coloursAVX2,
}

// picturesAVX512 is picturesAVX2 with replacements for the kernels that need more than 16 registers.
var picturesAVX512 = func() pictureKernels {
	k := picturesAVX2
	k.inverse[AccurateTransform], k.inverseTwo[AccurateTransform] = inverseAccurateAVX512, inverseAccurateTwoAVX512
	return k
}()

// These are the processor features that assembly needs, by the end of its functions' names or by its functions. A test holds each function to
// the features that its gate names here.

func hasAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2 }

func hasAVX512() bool {
	return hasAVX2() && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL
}

func hasBFloatDots() bool { return hasAVX512() && cpu.X86.HasAVX512BF16 }

// hasBFloatTiles is not all that tiles need: the operating system has to permit them, too.
func hasBFloatTiles() bool { return hasAVX512() && cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 }

// available returns the sets that this processor and operating system can run, fastest first.
func available() []*kernelSet {
	sets := []*kernelSet{&portable}
	if hasAVX2() {
		sets = append([]*kernelSet{&avx2}, sets...)
	}
	if hasAVX512() {
		sets = append([]*kernelSet{&avx512}, sets...)
	}
	return sets
}

func findBFloatTiles() (found []bfloatTiling) {
	if tiles := findTiles(); tiles != nil {
		found = append(found, bfloatTiling{"tiles", tiles})
	}
	if hasBFloatDots() {
		found = append(found, bfloatTiling{"dots", bfloatDots})
	}
	return found
}

func best(products []bfloatTiling) *kernelSet {
	if len(products) > 0 {
		avx512.bfloatTiles = products[0].tiles
	}
	return available()[0]
}
