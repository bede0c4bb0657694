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

// sign is -1, 0 or 1; NaN for NaN.
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

func sigmoid64(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

func lgamma64(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.Inf(1)
	}
	l, _ := math.Lgamma(v)
	return l
}

// digamma64 is the derivative of the logarithm of the gamma function: reflected to positive
// arguments, moved to where the asymptotic series converges.
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
		if x < -0.5 { // the tangent has a period of 1, of which large arguments leave few digits
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
	return math.Log(x) - 0.5/x - series - shift - reflected
}

// ndtri64 is the inverse of the normal distribution function. In the tails, where math.Erfcinv has no digits left, it
// solves for the function's logarithm by Newton's method, which comes from one side as that is concave.
func ndtri64(p float64) float64 {
	switch {
	case p < 0 || p > 1:
		return math.NaN()
	case p > 0.5 && p < 1:
		return -ndtri64(1 - p)
	case !(p > 0 && p < 0.1):
		return -math.Sqrt2 * math.Erfcinv(2*p)
	}
	x := -math.Sqrt(-2 * math.Log(p))
	for range 50 {
		below := math.Erfc(-x/math.Sqrt2) / 2
		step := math.Log(below/p) * below * math.Sqrt(2*math.Pi) * math.Exp(x*x/2)
		x -= step
		if math.Abs(step) <= 1e-16*math.Abs(x) {
			break
		}
	}
	return x
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

// isFinite uses that the difference of an infinity or NaN with itself is NaN.
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

// popCount counts the bits that are set; bits of the sign's extension do not count.
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
