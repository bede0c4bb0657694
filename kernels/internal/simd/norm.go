package simd

import "fmt"

// What follows are the passes of batch normalization over rows of a number for each channel. x, and what else is as long
// as x, has whole rows; what there is for each channel is as long as a row.

// checkRows gives the length of a row, and panics unless all slices fit.
func checkRows(rows, channels [][]float32) int {
	n := len(channels[0])
	for _, c := range channels {
		checkLengths(n, len(c))
	}
	for _, r := range rows {
		checkLengths(len(rows[0]), len(r))
	}
	if n == 0 || len(rows[0])%n != 0 {
		panic(fmt.Sprintf("simd: rows of %d in %d numbers", n, len(rows[0])))
	}
	return n
}

// normKernels are the passes over width columns of at least one row, which are stride bytes apart.
type normKernels struct {
	width         int
	normalize     func(rows, stride int, dst, x, mean, factor, offset *float32)
	add           func(rows, stride int, x, sum *float32)
	addSquares    func(rows, stride int, x, sum, mean *float32)
	addProducts   func(rows, stride int, grad, x, sum, products, mean *float32)
	normalizeGrad func(rows, stride int, dst, grad, x, mean, ofGrad, ofX, offset *float32)
}

// longRow is the length from which the call of a function for each row costs little, and rows are read as they lie.
const longRow = 512

// columns calls block for as many columns of rows of n numbers as go in blocks, with the first of each, and gives the number
// of columns that are left out at the end: all, where rows are long.
func (k *normKernels) columns(n int, block func(at int)) (left int) {
	if k == nil || n >= longRow {
		return n
	}
	at := 0
	for ; at+k.width <= n; at += k.width {
		block(at)
	}
	return n - at
}

// NormalizeRows sets dst = (x - mean)·factor + offset.
func NormalizeRows(dst, x, mean, factor, offset []float32) {
	n := checkRows([][]float32{dst, x}, [][]float32{mean, factor, offset})
	if len(x) == 0 {
		return
	}
	k := active.norms
	left := k.columns(n, func(at int) {
		k.normalize(len(x)/n, 4*n, &dst[at], &x[at], &mean[at], &factor[at], &offset[at])
	})
	if left > 0 {
		c := n - left
		for at := 0; at < len(x); at += n {
			active.normalizeRow(dst[at+c:at+n], x[at+c:at+n], mean[c:], factor[c:], offset[c:])
		}
	}
}

// AddEachRow adds all rows to sum.
func AddEachRow(sum, x []float32) {
	n := checkRows([][]float32{x}, [][]float32{sum})
	if len(x) == 0 {
		return
	}
	k := active.norms
	left := k.columns(n, func(at int) { k.add(len(x)/n, 4*n, &x[at], &sum[at]) })
	if left > 0 {
		c := n - left
		for at := 0; at < len(x); at += n {
			active.add(sum[c:], sum[c:], x[at+c:at+n])
		}
	}
}

// AddSquares adds (x - mean)² of all rows to sum.
func AddSquares(sum, x, mean []float32) {
	n := checkRows([][]float32{x}, [][]float32{sum, mean})
	if len(x) == 0 {
		return
	}
	k := active.norms
	left := k.columns(n, func(at int) { k.addSquares(len(x)/n, 4*n, &x[at], &sum[at], &mean[at]) })
	if left > 0 {
		c := n - left
		for at := 0; at < len(x); at += n {
			active.addSquaresRow(sum[c:], x[at+c:at+n], mean[c:])
		}
	}
}

// AddProducts adds grad of all rows to sum, and grad·(x - mean) to products.
func AddProducts(sum, products, grad, x, mean []float32) {
	n := checkRows([][]float32{grad, x}, [][]float32{sum, products, mean})
	if len(x) == 0 {
		return
	}
	k := active.norms
	left := k.columns(n, func(at int) {
		k.addProducts(len(x)/n, 4*n, &grad[at], &x[at], &sum[at], &products[at], &mean[at])
	})
	if left > 0 {
		c := n - left
		for at := 0; at < len(x); at += n {
			active.addProductsRow(sum[c:], products[c:], grad[at+c:at+n], x[at+c:at+n], mean[c:])
		}
	}
}

// NormalizeGradRows sets dst = grad·ofGrad + (x - mean)·ofX + offset.
func NormalizeGradRows(dst, grad, x, mean, ofGrad, ofX, offset []float32) {
	n := checkRows([][]float32{dst, grad, x}, [][]float32{mean, ofGrad, ofX, offset})
	if len(x) == 0 {
		return
	}
	k := active.norms
	left := k.columns(n, func(at int) {
		k.normalizeGrad(len(x)/n, 4*n, &dst[at], &grad[at], &x[at], &mean[at], &ofGrad[at], &ofX[at], &offset[at])
	})
	if left > 0 {
		c := n - left
		for at := 0; at < len(x); at += n {
			active.normalizeGradRow(dst[at+c:at+n], grad[at+c:at+n], x[at+c:at+n], mean[c:], ofGrad[c:], ofX[c:], offset[c:])
		}
	}
}
