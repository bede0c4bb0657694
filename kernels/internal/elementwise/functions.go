package elementwise

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// DifferentShapes returns TensorFlow's error for input i of ops whose inputs must have the same shape.
func DifferentShapes(ctx *kernels.Context, i int, first, other tensor.Shape) error {
	return status.InvalidArgumentf("Inputs to operation %s of type %s must have the same size and shape.  Input 0: %v != input %d: %v",
		ctx.Node.Name, ctx.Node.Op, first, i, other)
}

// Add sets dst to the sums of a and b; strings are concatenated.
func Add[T element.Numeric | string](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// Sub sets dst to the differences of a and b.
func Sub[T element.Numeric](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

// Mul sets dst to the products of a and b.
func Mul[T element.Numeric](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// Div sets dst to the quotients of a and b. Integer division truncates; the driver has already checked the divisors.
func Div[T element.Numeric](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

// Maximum sets dst to the greater ones of a and b, or NaN where either is NaN.
func Maximum[T element.Ordered](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

// Minimum sets dst to the lesser ones of a and b, or NaN where either is NaN.
func Minimum[T element.Ordered](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}

// Additions returns the rows of an addition.
func Additions() BinaryRows {
	return Joined(Floats2(simd.Add, Add[float64]),
		Signed2(Add[int8], Add[int16], Add[int32], Add[int64]), Unsigned2(Add[uint8], Add[uint16], Add[uint32], Add[uint64]),
		Complex2(Add[complex64], Add[complex128])).Scalars(simd.AddScalar, simd.AddScalar)
}

// Each64 makes a slice function from a function of a float64.
func Each64(f func(float64) float64) func(dst, a []float64) {
	return func(dst, a []float64) {
		for i, v := range a {
			dst[i] = f(v)
		}
	}
}

// Square sets dst to the squares of a.
func Square[T element.Numeric](dst, a []T) {
	for i, v := range a {
		dst[i] = v * v
	}
}
