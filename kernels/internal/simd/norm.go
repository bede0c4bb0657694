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

// NormalizeRows sets dst = (x - mean)·factor + offset.
func NormalizeRows(dst, x, mean, factor, offset []float32) {
	n := checkRows([][]float32{dst, x}, [][]float32{mean, factor, offset})
	for at := 0; at < len(x); at += n {
		active.normalizeRow(dst[at:at+n], x[at:at+n], mean, factor, offset)
	}
}

// AddSquares adds (x - mean)² of all rows to sum.
func AddSquares(sum, x, mean []float32) {
	n := checkRows([][]float32{x}, [][]float32{sum, mean})
	for at := 0; at < len(x); at += n {
		active.addSquaresRow(sum, x[at:at+n], mean)
	}
}

// AddProducts adds grad of all rows to sum, and grad·(x - mean) to products.
func AddProducts(sum, products, grad, x, mean []float32) {
	n := checkRows([][]float32{grad, x}, [][]float32{sum, products, mean})
	for at := 0; at < len(x); at += n {
		active.addProductsRow(sum, products, grad[at:at+n], x[at:at+n], mean)
	}
}

// NormalizeGradRows sets dst = grad·ofGrad + (x - mean)·ofX + offset.
func NormalizeGradRows(dst, grad, x, mean, ofGrad, ofX, offset []float32) {
	n := checkRows([][]float32{dst, grad, x}, [][]float32{mean, ofGrad, ofX, offset})
	for at := 0; at < len(x); at += n {
		active.normalizeGradRow(dst[at:at+n], grad[at:at+n], x[at:at+n], mean, ofGrad, ofX, offset)
	}
}
