package simd

import "math"

// Axpy adds alpha * x to y, with or without rounding the product first,
// depending on the processor.
func Axpy(y []float32, alpha float32, x []float32) {
	if len(y) != len(x) {
		checkLengths(len(y), len(x))
	}
	for len(y) > block {
		active.axpy(y[:block], x[:block], alpha)
		y, x = y[block:], x[block:]
	}
	active.axpy(y, x, alpha)
}

// Sum returns the sum of a, 0 if it is empty. Partial sums of a block are
// kept apart, and those of the blocks added in float64, so that the error
// does not grow with the length of a.
func Sum(a []float32) float32 {
	if len(a) <= block {
		return active.sum(a)
	}
	var total float64
	for len(a) > block {
		total += float64(active.sum(a[:block]))
		a = a[block:]
	}
	return float32(total + float64(active.sum(a)))
}

// MaxOf returns the greatest element of a, NaN if there is one anywhere, -Inf
// if a is empty.
func MaxOf(a []float32) float32 {
	top := float32(math.Inf(-1))
	for len(a) > block {
		top = max(top, active.maxOf(a[:block]))
		a = a[block:]
	}
	return max(top, active.maxOf(a))
}

// dotProduct returns the sum of the products of the elements of a and b.
func dotProduct(a, b []float32) float32 {
	if len(a) <= block {
		return active.dot(a, b)
	}
	var total float64
	for len(a) > block {
		total += float64(active.dot(a[:block], b[:block]))
		a, b = a[block:], b[block:]
	}
	return float32(total + float64(active.dot(a, b)))
}
