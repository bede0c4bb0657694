package simd

import "fmt"

// The passes of batch normalization over rows that hold one number per channel. x, and slices as long as x, contain whole rows; slices with
// one number per channel are as long as a row.

// checkRows returns the length of a row. It panics unless all slices fit.
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

// normKernels are the passes over width columns of at least one row; rows are stride bytes apart.
type normKernels struct {
	width         int
	normalize     func(rows, stride int, dst, x, mean, factor, offset *float32)
	add           func(rows, stride int, x, sum *float32)
	addSquares    func(rows, stride int, x, sum, mean *float32)
	addProducts   func(rows, stride int, grad, x, sum, products, mean *float32)
	normalizeGrad func(rows, stride int, dst, grad, x, mean, ofGrad, ofX, offset *float32)
}

// longRow is the length from which a function call per row costs little, and rows are processed one by one.
const longRow = 512

// inColumns processes rows of n numbers, total numbers in all, by columns. If the kernels support it and rows are short, block processes
// most columns, and row the remaining ones. block processes width columns of all rows, starting at column at; row processes the columns
// from c on of one row, which are x[lo:hi].
func inColumns(total, n int, block func(k *normKernels, rows, stride, at int), row func(c, lo, hi int)) {
	if total == 0 {
		return
	}
	c := 0
	if k := active.norms; k != nil && n < longRow {
		for ; c+k.width <= n; c += k.width {
			block(k, total/n, 4*n, c)
		}
	}
	if c == n {
		return
	}
	for at := 0; at < total; at += n {
		row(c, at+c, at+n)
	}
}

// NormalizeRows sets dst = (x - mean)·factor + offset.
func NormalizeRows(dst, x, mean, factor, offset []float32) {
	n := checkRows([][]float32{dst, x}, [][]float32{mean, factor, offset})
	inColumns(len(x), n, func(k *normKernels, rows, stride, at int) {
		k.normalize(rows, stride, &dst[at], &x[at], &mean[at], &factor[at], &offset[at])
	}, func(c, lo, hi int) {
		active.normalizeRow(dst[lo:hi], x[lo:hi], mean[c:], factor[c:], offset[c:])
	})
}

// AddEachRow adds all rows to sum.
func AddEachRow(sum, x []float32) {
	n := checkRows([][]float32{x}, [][]float32{sum})
	inColumns(len(x), n, func(k *normKernels, rows, stride, at int) {
		k.add(rows, stride, &x[at], &sum[at])
	}, func(c, lo, hi int) {
		active.add(sum[c:], sum[c:], x[lo:hi])
	})
}

// AddSquares adds (x - mean)² of all rows to sum.
func AddSquares(sum, x, mean []float32) {
	n := checkRows([][]float32{x}, [][]float32{sum, mean})
	inColumns(len(x), n, func(k *normKernels, rows, stride, at int) {
		k.addSquares(rows, stride, &x[at], &sum[at], &mean[at])
	}, func(c, lo, hi int) {
		active.addSquaresRow(sum[c:], x[lo:hi], mean[c:])
	})
}

// AddProducts adds grad to sum and grad·(x - mean) to products, for all rows.
func AddProducts(sum, products, grad, x, mean []float32) {
	n := checkRows([][]float32{grad, x}, [][]float32{sum, products, mean})
	inColumns(len(x), n, func(k *normKernels, rows, stride, at int) {
		k.addProducts(rows, stride, &grad[at], &x[at], &sum[at], &products[at], &mean[at])
	}, func(c, lo, hi int) {
		active.addProductsRow(sum[c:], products[c:], grad[lo:hi], x[lo:hi], mean[c:])
	})
}

// NormalizeGradRows sets dst = grad·ofGrad + (x - mean)·ofX + offset.
func NormalizeGradRows(dst, grad, x, mean, ofGrad, ofX, offset []float32) {
	n := checkRows([][]float32{dst, grad, x}, [][]float32{mean, ofGrad, ofX, offset})
	inColumns(len(x), n, func(k *normKernels, rows, stride, at int) {
		k.normalizeGrad(rows, stride, &dst[at], &grad[at], &x[at], &mean[at], &ofGrad[at], &ofX[at], &offset[at])
	}, func(c, lo, hi int) {
		active.normalizeGradRow(dst[lo:hi], grad[lo:hi], x[lo:hi], mean[c:], ofGrad[c:], ofX[c:], offset[c:])
	})
}
