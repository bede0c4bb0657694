package simd

import "fmt"

// block is the maximum number of elements per call of a kernel. The scheduler cannot interrupt assembly, so a call must stay short (some 10
// µs).
const block = 1 << 15

func checkLengths(want int, lengths ...int) {
	for _, n := range lengths {
		if n != want {
			panic(fmt.Sprintf("simd: slices of lengths %d and %d", want, n))
		}
	}
}

func binary(f func(dst, a, b []float32), dst, a, b []float32) {
	if len(dst) != len(a) || len(dst) != len(b) {
		checkLengths(len(dst), len(a), len(b))
	}
	for len(dst) > block {
		f(dst[:block], a[:block], b[:block])
		dst, a, b = dst[block:], a[block:], b[block:]
	}
	f(dst, a, b)
}

func withScalar(f func(dst, a []float32, s float32), dst, a []float32, s float32) {
	if len(dst) != len(a) {
		checkLengths(len(dst), len(a))
	}
	for len(dst) > block {
		f(dst[:block], a[:block], s)
		dst, a = dst[block:], a[block:]
	}
	f(dst, a, s)
}

func unary(f func(dst, a []float32), dst, a []float32) {
	if len(dst) != len(a) {
		checkLengths(len(dst), len(a))
	}
	for len(dst) > block {
		f(dst[:block], a[:block])
		dst, a = dst[block:], a[block:]
	}
	f(dst, a)
}

// Add sets dst = a + b.
func Add(dst, a, b []float32) { binary(active.add, dst, a, b) }

// Sub sets dst = a - b.
func Sub(dst, a, b []float32) { binary(active.sub, dst, a, b) }

// Mul sets dst = a * b.
func Mul(dst, a, b []float32) { binary(active.mul, dst, a, b) }

// Div sets dst = a / b.
func Div(dst, a, b []float32) { binary(active.div, dst, a, b) }

// Max sets dst to the greater of a and b, to b where they are equal (which matters for zeros of different sign), and to NaN where either is
// NaN.
func Max(dst, a, b []float32) { binary(active.max, dst, a, b) }

// Min sets dst to the lesser of a and b, to b where they are equal (which matters for zeros of different sign), and to NaN where either is
// NaN.
func Min(dst, a, b []float32) { binary(active.min, dst, a, b) }

// AddScalar sets dst = a + s.
func AddScalar(dst, a []float32, s float32) { withScalar(active.addScalar, dst, a, s) }

// SubScalar sets dst = a - s.
func SubScalar(dst, a []float32, s float32) { withScalar(active.subScalar, dst, a, s) }

// RSubScalar sets dst = s - a.
func RSubScalar(dst, a []float32, s float32) { withScalar(active.rsubScalar, dst, a, s) }

// MulScalar sets dst = a * s.
func MulScalar(dst, a []float32, s float32) { withScalar(active.mulScalar, dst, a, s) }

// DivScalar sets dst = a / s.
func DivScalar(dst, a []float32, s float32) { withScalar(active.divScalar, dst, a, s) }

// RDivScalar sets dst = s / a.
func RDivScalar(dst, a []float32, s float32) { withScalar(active.rdivScalar, dst, a, s) }

// Neg sets dst = -a by flipping the sign bit.
func Neg(dst, a []float32) { unary(active.neg, dst, a) }

// Abs sets dst = |a|.
func Abs(dst, a []float32) { unary(active.abs, dst, a) }

// Square sets dst = a * a.
func Square(dst, a []float32) { unary(active.square, dst, a) }

// Sqrt sets dst to the square root of a, correctly rounded; NaN below zero.
func Sqrt(dst, a []float32) { unary(active.sqrt, dst, a) }

// Rsqrt sets dst = 1 / sqrt(a); an infinity of the sign of a at zero.
func Rsqrt(dst, a []float32) { unary(active.rsqrt, dst, a) }

// Exp sets dst to e to the a, +Inf beyond the range of float32 and 0 below
// its smallest number. It is within 2 units in the last place.
func Exp(dst, a []float32) { unary(active.exp, dst, a) }

// Log sets dst to the natural logarithm of a: -Inf at zero, NaN below it. It
// is within 2 units in the last place.
func Log(dst, a []float32) { unary(active.log, dst, a) }

// Tanh sets dst to the hyperbolic tangent of a. It is within 2 units in the
// last place.
func Tanh(dst, a []float32) { unary(active.tanh, dst, a) }

// Sigmoid sets dst = 1 / (1 + exp(-a)). It is within 3 units in the last place, even where the result is near zero.
func Sigmoid(dst, a []float32) { unary(active.sigmoid, dst, a) }

// Erf sets dst to the error function of a. It is within 2 units in the last
// place.
func Erf(dst, a []float32) { unary(active.erf, dst, a) }

// ExpSum sets dst to the exponentials of a - shift, as Exp does, and returns their sum.
func ExpSum(dst, a []float32, shift float32) float32 {
	checkLengths(len(dst), len(a))
	var sum float32
	for len(dst) > block {
		sum += active.expSum(dst[:block], a[:block], shift)
		dst, a = dst[block:], a[block:]
	}
	return sum + active.expSum(dst, a, shift)
}

// Relu sets dst to a where it is positive or NaN, and to +0 elsewhere.
func Relu(dst, a []float32) { unary(active.relu, dst, a) }

// ReluGrad sets dst = grad * (features > 0). As in TensorFlow, it is a product: an infinite or NaN gradient yields NaN even where features
// <= 0.
func ReluGrad(dst, grad, features []float32) { binary(active.reluGrad, dst, grad, features) }
