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
		dst[i] = math.Nextafter32(a[i], b[i])
	}
}

func nextAfter64(dst, a, b []float64) {
	for i := range dst {
		dst[i] = math.Nextafter(a[i], b[i])
	}
}
