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

// sumBlock is the maximum number of elements summed in float32. In AVX-512, each of 64 partial sums takes 64 of them, which keeps the
// rounding error near 1e-6 even if every addition rounds the same way.
const sumBlock = 1 << 12

// Sum returns the sum of a, 0 if it is empty. It keeps partial sums within a block and adds the sums of the blocks in float64, so the error
// does not grow with the length of a.
func Sum(a []float32) float32 {
	if len(a) <= sumBlock {
		return active.sum(a)
	}
	var total float64
	for len(a) > sumBlock {
		total += float64(active.sum(a[:sumBlock]))
		a = a[sumBlock:]
	}
	return float32(total + float64(active.sum(a)))
}

// MaxOf returns the greatest element of a, NaN if there is any, or -Inf if a is empty.
func MaxOf(a []float32) float32 {
	top := float32(math.Inf(-1))
	for len(a) > block {
		top = max(top, active.maxOf(a[:block]))
		a = a[block:]
	}
	return max(top, active.maxOf(a))
}

// SumEach sets dst to the sums of the rows of src: len(dst) rows of len(src)/len(dst) numbers, one or more.
func SumEach(dst, src []float32) { eachRow(dst, src, sumBlock, active.sumEach, Sum) }

// MaxOfEach sets dst to the greatest numbers of the rows of src, which are as in SumEach.
func MaxOfEach(dst, src []float32) { eachRow(dst, src, block, active.maxOfEach, MaxOf) }

func eachRow(dst, src []float32, longest int, rows func(dst []float32, src *float32, width int), row func(a []float32) float32) {
	if len(dst) == 0 {
		return
	}
	width := len(src) / len(dst)
	checkLengths(len(src), width*len(dst))
	if rows == nil || width == 0 || width > longest {
		for i := range dst {
			dst[i] = row(src[i*width:][:width])
		}
		return
	}
	for at := 0; at < len(dst); {
		n := min(max(block/width, 1), len(dst)-at)
		rows(dst[at:at+n], &src[at*width], width)
		at += n
	}
}

// dotProduct returns the sum of the products of the elements of a and b.
func dotProduct(a, b []float32) float32 {
	if len(a) <= sumBlock {
		return active.dot(a, b)
	}
	var total float64
	for len(a) > sumBlock {
		total += float64(active.dot(a[:sumBlock], b[:sumBlock]))
		a, b = a[sumBlock:], b[sumBlock:]
	}
	return float32(total + float64(active.dot(a, b)))
}
