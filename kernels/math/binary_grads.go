package math

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/kernels/internal/element"
)

// These are gradients of elementwise functions, in terms of the result y and its gradient dy. A gradient of zero stays zero even where the
// factor is infinite. tanh and sigmoid need no such check: their factors are bounded.

func tanhGrad[T element.Floating](dst, y, dy []T) {
	y, dy = y[:len(dst)], dy[:len(dst)]
	for i := range dst {
		dst[i] = dy[i] * (1 - y[i]*y[i])
	}
}

func sigmoidGrad[T element.Floating](dst, y, dy []T) {
	y, dy = y[:len(dst)], dy[:len(dst)]
	for i := range dst {
		dst[i] = dy[i] * y[i] * (1 - y[i])
	}
}

func sqrtGrad[T element.Floating](dst, y, dy []T) {
	y, dy = y[:len(dst)], dy[:len(dst)]
	for i := range dst {
		if dy[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = 0.5 * dy[i] / y[i]
		}
	}
}

func rsqrtGrad[T element.Floating](dst, y, dy []T) {
	y, dy = y[:len(dst)], dy[:len(dst)]
	for i := range dst {
		if dy[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = -0.5 * (dy[i] * y[i]) * (y[i] * y[i])
		}
	}
}

func reciprocalGrad[T element.Floating](dst, y, dy []T) {
	y, dy = y[:len(dst)], dy[:len(dst)]
	for i := range dst {
		if dy[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = -y[i] * y[i] * dy[i]
		}
	}
}

func sqrtGradComplex(y, dy complex128) complex128 {
	if dy == 0 {
		return 0
	}
	return 0.5 * dy / cmplx.Conj(y)
}

func rsqrtGradComplex(y, dy complex128) complex128 {
	if dy == 0 {
		return 0
	}
	c := cmplx.Conj(y)
	return -0.5 * (dy * c) * (c * c)
}

func reciprocalGradComplex(y, dy complex128) complex128 {
	if dy == 0 {
		return 0
	}
	c := cmplx.Conj(y)
	return -c * c * dy
}

func xlogyComplex(x, y complex128) complex128 {
	if x == 0 {
		return 0
	}
	return x * cmplx.Log(y)
}

func xlog1pyComplex(x, y complex128) complex128 {
	if x == 0 {
		return 0
	}
	return x * cmplx.Log(1+y)
}

func nextAfter32(dst, a, b []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(nextAfter(float64(a[i]), float64(b[i]), int64(int32(math.Float32bits(a[i]))), int64(int32(math.Float32bits(b[i]))), math.MinInt32)))
	}
}

func nextAfter64(dst, a, b []float64) {
	for i := range dst {
		dst[i] = math.Float64frombits(uint64(nextAfter(a[i], b[i], int64(math.Float64bits(a[i])), int64(math.Float64bits(b[i])), math.MinInt64)))
	}
}

// nextAfter returns the bits of the number next to x in the direction of y, given both numbers' bits and the sign's. It compares the bits,
// since the thread may take subnormal numbers for zeros.
func nextAfter(x, y float64, xBits, yBits, sign int64) int64 {
	if x != x {
		return xBits
	}
	if y != y {
		return yBits
	}
	// place is the number's place in the order of all numbers. That of zeros is 0.
	place := func(bits int64) int64 {
		if bits < 0 {
			return sign - bits
		}
		return bits
	}
	from, to := place(xBits), place(yBits)
	switch {
	case from == to:
		return yBits
	case from < 0 && from < to: // also from the greatest negative number to -0
		return xBits - 1
	case from < to:
		return from + 1
	case from > 0:
		return from - 1
	}
	return sign - (from - 1)
}
