package simd

// kernelSet is one implementation of everything in the package.
type kernelSet struct {
	name string

	add, sub, mul, div, max, min func(dst, a, b []float32)
	reluGrad                     func(dst, grad, features []float32)

	addScalar, subScalar, rsubScalar func(dst, a []float32, s float32)
	mulScalar, divScalar, rdivScalar func(dst, a []float32, s float32)

	neg, abs, square, sqrt, rsqrt func(dst, a []float32)
	exp, log, tanh, sigmoid, relu func(dst, a []float32)
	erf                           func(dst, a []float32)
	expSum                        func(dst, a []float32, shift float32) float32

	sumOfProducts        func(dst, a, b *float32, n int, t *int, accumulate int)
	sumOfTaps, maxOfTaps func(dst, a *float32, n int, t *int, accumulate int)
	maxGradOfTaps        func(dst, a, grad *float32, n int, t *int)
	meanOfTaps           func(dst, a *float32, n int, t *int, accumulate int, divisor float32)
	tapProducts          *tapProducts
	filteredTaps         *filteredTaps

	mix   func(dst, a, b []float32, part float32)
	mixAt func(dst, part []float32, src *float32, left, right *int32)

	normalizeRow     func(dst, x, mean, factor, offset []float32)
	addSquaresRow    func(sum, x, mean []float32)
	addProductsRow   func(sum, products, grad, x, mean []float32)
	normalizeGradRow func(dst, grad, x, mean, ofGrad, ofX, offset []float32)
	norms            *normKernels // nil selects a call for each row

	sum, maxOf func(a []float32) float32
	// These are for at least one row.
	sumEach, maxOfEach func(dst []float32, src *float32, width int) // nil selects a call for each row
	dot                func(a, b []float32) float32
	axpy               func(y, x []float32, alpha float32)

	// The lengths of narrow and widen are multiples of bfloatTurn.
	narrow func(dst []uint16, src []float32)
	widen  func(dst []float32, src []uint16)
	// These multiply bfloat16 matrices where the processor multiplies pairs of bfloat16; otherwise they are nil. bfloatTiles sets 32 rows
	// of C, ldc bytes apart, of which only the first rows count, to the product of the same number of rows of A, lda bytes apart, and
	// blocks blocks of B with 32 columns each. k is a multiple of 32. A block of B has its columns in two halves. For each pair of steps of
	// k in turn, a half has the two numbers of each column, 64 bytes in total.
	bfloatTiles func(k, rows int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int)
	interleave  func(pairs int, src *uint16, lds int, dst *uint16)

	selections *selections // nil selects the portable ones
	truncate   func(dst []int32, src []float32)
	// Their lengths are multiples of bfloatTurn.
	toDouble   func(dst []float64, src []float32)
	fromDouble func(dst []float32, src []float64)

	// The lengths of philox and normal are multiples of randomTurn.
	philox func(dst []uint32, lo, hi, key uint64)
	unit   func(dst []float32, src []uint32)
	normal func(dst []float32, src []uint32)

	// These transform the numbers of all rows, at least one; see asm.
	butterflies4 func(dst, src *float32, n, srcStep, dstStep, im int, w *float32, factors int)
	butterflies2 func(dst, src *float32, n, srcStep, dstStep, im int)
	untangle     func(up, down, a, b *float32, n int, w *float32)
	untangleRow  func(up, down, a, b *float32, n int, w *float32)
	loadNumbers  func(dst, src *float32, n, srcStep, im int)
	storeNumbers func(dst, src *float32, n, dstStep, im int, scale float32)
	mulNumbers   func(dst, w *float32, n int)

	rows     *rowKernels[float32] // nil selects the portable ones
	rows64   *rowKernels[float64]
	pictures *pictureKernels // nil selects the portable ones

	// rest1 and rest2 are 1-beta1 and 1-beta2.
	adam, adamNesterov func(v, m, vv, grad []float32, rate, beta1, rest1, rest2, eps float32)

	// keep is the momentum, rest is one minus the decay. For ftrl's parameters, see asm.
	momentum, momentumNesterov func(v, accum, grad []float32, rate, keep float32)
	rmsProp                    func(v, ms, mom, grad []float32, rate, rest, keep, eps float32)
	rmsPropCentered            func(v, ms, mom, grad, mg []float32, rate, rest, keep, eps float32)
	adagrad                    func(v, accum, grad []float32, rate, eps float32)
	ftrl                       func(v, accum, linear, grad []float32, rate, perRate, bound, ridge, shrink float32)

	// tiles are the inner kernels of the matrix product; nil selects the portable one.
	tiles      *tileSet[float32]
	tiles64    *tileSet[float64]
	tilesInt32 *tileSet[int32]
}

var portable = kernelSet{
	name: "go",
	add:  add, sub: sub, mul: mul, div: div, max: maximum, min: minimum,
	reluGrad:  reluGrad,
	addScalar: addScalar, subScalar: subScalar, rsubScalar: rsubScalar,
	mulScalar: mulScalar, divScalar: divScalar, rdivScalar: rdivScalar,
	neg: neg, abs: abs, square: square, sqrt: sqrt, rsqrt: rsqrt,
	exp: exp, log: log, tanh: tanh, sigmoid: sigmoid, relu: relu, erf: erf, expSum: expSum,
	mix:          mix,
	normalizeRow: normalizeRow, addSquaresRow: addSquaresRow, addProductsRow: addProductsRow, normalizeGradRow: normalizeGradRow,
	sum: sum, maxOf: maxOf, dot: dot, axpy: axpy,
	narrow: narrow, widen: widen,
	truncate: truncate, toDouble: convert[float64, float32], fromDouble: convert[float32, float64],
	philox: philox, unit: unit, normal: normal,
	adam: adam, adamNesterov: adamNesterov,
	momentum: momentum, momentumNesterov: momentumNesterov, rmsProp: rmsProp, rmsPropCentered: rmsPropCentered,
	adagrad: adagrad, ftrl: ftrl,
}

// bfloatTiling is an implementation of kernelSet.bfloatTiles.
type bfloatTiling struct {
	name  string
	tiles func(k, rows int, a *uint16, lda int, b *uint16, blocks int, c *float32, ldc int)
}

// bfloatTilings are those that this processor and operating system can run. The best set has the first one.
var bfloatTilings = findBFloatTiles()

// active is set before main starts and changes only in tests.
var active = best(bfloatTilings)

// Level names the implementation in use: "avx512", "avx2", "neon" or "go".
func Level() string { return active.name }
