package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// neon is what Advanced SIMD provides; the rest is portable.
var neon = func() kernelSet {
	s := portable
	s.name = "neon"
	s.add, s.sub, s.mul, s.div, s.max, s.min = addNEON, subNEON, mulNEON, divNEON, maxNEON, minNEON
	s.reluGrad = reluGradNEON
	s.addScalar, s.subScalar, s.rsubScalar = addScalarNEON, subScalarNEON, rsubScalarNEON
	s.mulScalar, s.divScalar, s.rdivScalar = mulScalarNEON, divScalarNEON, rdivScalarNEON
	s.neg, s.abs, s.square, s.sqrt, s.rsqrt, s.relu = negNEON, absNEON, squareNEON, sqrtNEON, rsqrtNEON, reluNEON
	s.exp, s.log, s.tanh, s.sigmoid, s.erf, s.expSum = expNEON, logNEON, tanhNEON, sigmoidNEON, erfNEON, expSumNEON
	s.mix = mixNEON
	s.sum, s.maxOf, s.dot, s.axpy = sumInPiecesNEON, maxOfNEON, dotInPiecesNEON, axpyNEON
	s.normalizeRow, s.normalizeGradRow = normalizeRowNEON, normalizeGradRowNEON
	s.addSquaresRow, s.addProductsRow = addSquaresRowNEON, addProductsRowNEON
	s.adam, s.adamNesterov, s.momentum, s.momentumNesterov = adamNEON, adamNesterovNEON, momentumNEON, momentumNesterovNEON
	s.rmsProp, s.rmsPropCentered, s.adagrad = rmsPropNEON, rmsPropCenteredNEON, adagradNEON
	s.tiles, s.tiles64, s.tilesInt32 = &tilesNEON, &tiles64NEON, &tilesInt32NEON
	return s
}()

// hasNEON is what the assembly needs of a processor: see level_amd64.go.
func hasNEON() bool { return cpu.ARM64.HasASIMD }

// available returns the sets that this processor and operating system can run, fastest first.
func available() []*kernelSet {
	if hasNEON() {
		return []*kernelSet{&neon, &portable}
	}
	return []*kernelSet{&portable}
}

func findBFloatTiles() []bfloatTiling { return nil }

func best([]bfloatTiling) *kernelSet { return available()[0] }

// gatherRows copies m numbers of each of k rows, lds bytes apart, side by side.
func gatherRows(k int, src *float32, lds int, dst *float32, m int) {
	to := unsafe.Slice(dst, k*m)
	for i := range k {
		copy(to[i*m:][:m], unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(src), i*lds)), m))
	}
}

// sumPiece is the maximum number of elements summed in float32: each of the eight partial sums takes 64, as those of AVX-512 do.
const sumPiece = 512

func sumInPiecesNEON(a []float32) float32 {
	var total float64
	for len(a) > sumPiece {
		total += float64(sumNEON(a[:sumPiece]))
		a = a[sumPiece:]
	}
	return float32(total + float64(sumNEON(a)))
}

func dotInPiecesNEON(a, b []float32) float32 {
	var total float64
	for len(a) > sumPiece {
		total += float64(dotNEON(a[:sumPiece], b[:sumPiece]))
		a, b = a[sumPiece:], b[sumPiece:]
	}
	return float32(total + float64(dotNEON(a, b)))
}
