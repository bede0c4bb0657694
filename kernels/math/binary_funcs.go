package math

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// mulNoNan is zero where b is, whatever a is.
func mulNoNan[T element.Floating | element.ComplexNum](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if b[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = a[i] * b[i]
		}
	}
}

func divNoNan[T element.Floating | element.ComplexNum](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if b[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = a[i] / b[i]
		}
	}
}

// floorDivSigned rounds towards negative infinity.
func floorDivSigned[T element.SignedInt](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		q := a[i] / b[i]
		if a[i]%b[i] != 0 && (a[i] < 0) != (b[i] < 0) {
			q--
		}
		dst[i] = q
	}
}

func floorDivFloat[T element.Floating](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Floor(float64(a[i] / b[i])))
	}
}

func truncDivFloat[T element.Floating](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Trunc(float64(a[i] / b[i])))
	}
}

func mod[T element.Integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] % b[i]
	}
}

// floorModSigned has the sign of the divisor.
func floorModSigned[T element.SignedInt](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		m := a[i] % b[i]
		if m != 0 && (m < 0) != (b[i] < 0) {
			m += b[i]
		}
		dst[i] = m
	}
}

// floorMod64 is floorModSigned for floats.
func floorMod64(a, b float64) float64 {
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}

// powInt computes powers by repeated squaring. The driver has already rejected negative exponents.
func powInt[T element.Integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		result, base := T(1), a[i]
		for e := b[i]; e > 0; e >>= 1 {
			if e&1 == 1 {
				result *= base
			}
			base *= base
		}
		dst[i] = result
	}
}

func squaredDifference32(dst, a, b []float32) {
	simd.Sub(dst, a, b)
	simd.Square(dst, dst)
}

func squaredDifferenceScalar(dst, v []float32, s float32) {
	simd.SubScalar(dst, v, s)
	simd.Square(dst, dst)
}

func squaredDifference[T element.Ordered](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		d := a[i] - b[i]
		dst[i] = d * d
	}
}

func xdivy[T element.Floating | element.ComplexNum](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if a[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = a[i] / b[i]
		}
	}
}

func xlogy64(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * log64(y)
}

func xlog1py64(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log1p(y)
}

// logProducts returns the rows of Xlogy and Xlog1py. For half types, TensorFlow rounds the logarithm before it multiplies.
func logProducts(log func(float64) float64, product func(x, y float64) float64) elementwise.BinaryRows {
	rows := elementwise.PerElement2(product)[:2]
	return append(rows, elementwise.On(halfLogProducts(log, element.Float16.Float, element.ToFloat16)),
		elementwise.On(halfLogProducts(log, element.BFloat16.Float, element.ToBFloat16)))
}

func halfLogProducts[H element.HalfFloat](log func(float64) float64, widen func(H) float32, narrow func(float32) H) func(dst, a, b []H) {
	return func(dst, a, b []H) {
		for i := range dst {
			x := widen(a[i])
			if x == 0 {
				dst[i] = narrow(0)
				continue
			}
			dst[i] = narrow(x * widen(narrow(float32(log(float64(widen(b[i])))))))
		}
	}
}

func less[T element.Ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}

func lessEqual[T element.Ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}

func greater[T element.Ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] > b[i]
	}
}

func greaterEqual[T element.Ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >= b[i]
	}
}

func equal[T comparable](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}

func notEqual[T comparable](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] != b[i]
	}
}

func logicalAnd(dst, a, b []bool) {
	for i := range dst {
		dst[i] = a[i] && b[i]
	}
}

func logicalOr(dst, a, b []bool) {
	for i := range dst {
		dst[i] = a[i] || b[i]
	}
}

func bitAnd[T element.Integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}

func bitOr[T element.Integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}

func bitXor[T element.Integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}

// shiftCount clamps a shift to the valid range for an element of that many bits.
func shiftCount[T element.Integer](v T, bits T) T { return min(max(v, 0), bits-1) }

// bitsOf is the number of bits of T.
func bitsOf[T element.Integer]() T {
	n := T(0)
	for v := T(1); v != 0; v <<= 1 {
		n++
	}
	return n
}

func leftShift[T element.Integer](dst, a, b []T) {
	bits := bitsOf[T]()
	for i := range dst {
		dst[i] = a[i] << shiftCount(b[i], bits)
	}
}

func rightShift[T element.Integer](dst, a, b []T) {
	bits := bitsOf[T]()
	for i := range dst {
		dst[i] = a[i] >> shiftCount(b[i], bits)
	}
}
