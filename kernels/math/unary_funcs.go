package math

import (
	"math"
	"math/bits"
	"math/cmplx"

	"github.com/troupe-run/troupe/kernels/internal/element"
)

func neg[T element.Numeric](dst, a []T) {
	for i, v := range a {
		dst[i] = -v
	}
}

func absInt[T element.SignedInt](dst, a []T) {
	for i, v := range a {
		dst[i] = max(v, -v)
	}
}

// sign returns -1, 0 or 1, and NaN for NaN.
func sign[T element.SignedInt | element.Floating](dst, a []T) {
	for i, v := range a {
		switch {
		case v > 0:
			dst[i] = 1
		case v < 0:
			dst[i] = -1
		case v == 0:
			dst[i] = 0
		default:
			dst[i] = v
		}
	}
}

func signComplex(v complex128) complex128 {
	if v == 0 {
		return 0
	}
	return v / complex(cmplx.Abs(v), 0)
}

func identity[T element.Integer](dst, a []T) { copy(dst, a) }

func reciprocal[T element.Floating | element.ComplexNum](dst, a []T) {
	for i, v := range a {
		dst[i] = 1 / v
	}
}

func rsqrt64(v float64) float64 { return 1 / math.Sqrt(v) }

func sigmoid64(v float64) float64 {
	if v < -700 { // exp(-v) may overflow where its inverse does not
		return math.Exp(v)
	}
	return 1 / (1 + math.Exp(-v))
}

// digamma64 is the derivative of the logarithm of the gamma function. Negative arguments are reflected, and small ones shifted to where the
// asymptotic series converges.
func digamma64(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, -1):
		return math.NaN()
	case math.IsInf(x, 1):
		return x
	case x <= 0 && x == math.Floor(x):
		return math.NaN()
	}
	reflected := 0.0
	if x < 0 {
		part := x
		if x < -0.5 { // the tangent has period 1; reduce before large arguments lose their digits
			part = x - math.Round(x)
		}
		reflected = math.Pi / math.Tan(math.Pi*part)
		x = 1 - x
	}
	shift := 0.0
	for x < 10 {
		shift += 1 / x
		x++
	}
	r := 1 / (x * x)
	series := r * (1.0/12 - r*(1.0/120-r*(1.0/252-r*(1.0/240-r*(1.0/132-r*(691.0/32760-r/12))))))
	return log64(x) - 0.5/x - series - shift - reflected
}

// ndtri64 is the inverse of the normal distribution function. In the tails, where math.Erfcinv has few digits left, or none, it solves for the
// function's logarithm by Newton's method, which converges from one side since that logarithm is concave.
func ndtri64(p float64) float64 {
	switch {
	case p < 0 || p > 1:
		return math.NaN()
	case p > 0.5 && p < 1:
		return -ndtri64(1 - p)
	case !(p > 0 && p < 0.25):
		return -math.Sqrt2 * math.Erfcinv(2*p)
	}
	logP := log64(p)
	x := -math.Sqrt(-2 * logP)
	if p > 0.1 {
		x = -math.Sqrt2 * math.Erfcinv(2*p)
	}
	for range 50 {
		var step float64
		if p < 1e-280 { // the function, or its derivative's inverse, lacks full precision
			r := 1 / (x * x)
			ratio := 1 - r*(1-r*(3-r*(15-r*105)))
			step = (math.Log(ratio/-x) - x*x/2 - math.Log(2*math.Pi)/2 - logP) * ratio / -x
		} else {
			below := normalBelow(x)
			step = math.Log(below/p) * below * math.Sqrt(2*math.Pi) * math.Exp(x*x/2)
		}
		x -= step
		if math.Abs(step) <= 1e-16*math.Abs(x) {
			break
		}
	}
	return x
}

// normalBelow is the normal distribution function of a negative number. The function of complementary errors changes much where its argument is
// rounded, so it is corrected by what the rounding has lost.
func normalBelow(x float64) float64 {
	const high, low = 0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55 // 1/√2
	at := -x * high
	lost := math.FMA(-x, high, -at) - x*low
	return (math.Erfc(at) - lost*2/math.SqrtPi*math.Exp(-at*at)) / 2
}

func isNaN[T element.Floating](dst []bool, a []T) {
	for i, v := range a {
		dst[i] = v != v
	}
}

func isInf[T element.Floating](dst []bool, a []T) {
	for i, v := range a {
		dst[i] = math.IsInf(float64(v), 0)
	}
}

// isFinite relies on v-v being NaN for infinities and NaN.
func isFinite[T element.Floating](dst []bool, a []T) {
	for i, v := range a {
		dst[i] = v-v == 0
	}
}

func logicalNot(dst, a []bool) {
	for i, v := range a {
		dst[i] = !v
	}
}

func invert[T element.Integer](dst, a []T) {
	for i, v := range a {
		dst[i] = ^v
	}
}

// popCount counts the bits that are set, excluding sign extension.
func popCount[T element.Integer](dst []uint8, a []T) {
	mask := uint64(1)<<bitsOf[T]() - 1
	for i, v := range a {
		dst[i] = uint8(bits.OnesCount64(uint64(v) & mask))
	}
}

func real64(dst []float32, a []complex64) {
	for i, v := range a {
		dst[i] = real(v)
	}
}

func real128(dst []float64, a []complex128) {
	for i, v := range a {
		dst[i] = real(v)
	}
}

func imag64(dst []float32, a []complex64) {
	for i, v := range a {
		dst[i] = imag(v)
	}
}

func imag128(dst []float64, a []complex128) {
	for i, v := range a {
		dst[i] = imag(v)
	}
}

func abs64(dst []float32, a []complex64) {
	for i, v := range a {
		dst[i] = float32(cmplx.Abs(complex128(v)))
	}
}

func abs128(dst []float64, a []complex128) {
	for i, v := range a {
		dst[i] = cmplx.Abs(v)
	}
}

func angle64(dst []float32, a []complex64) {
	for i, v := range a {
		dst[i] = float32(cmplx.Phase(complex128(v)))
	}
}

func angle128(dst []float64, a []complex128) {
	for i, v := range a {
		dst[i] = cmplx.Phase(v)
	}
}
