package main

import . "github.com/mmcloughlin/avo/build"

// norms writes the passes of batch normalization over one row, of a number for each channel.
func norms(s isa) {
	s.text("normalizeRow", "func(dst, x, mean, factor, offset []float32)")
	ptrs := slices("dst", "x", "mean", "factor", "offset")
	s.loop(length("dst"), elementwiseUnroll, ptrs, func(l lanes) {
		x := l.load(1)
		VSUBPS(l.load(2), x, x)
		VFMADD213PS(l.load(4), l.load(3), x)
		l.store(0, x)
	})
	end()

	s.text("addSquaresRow", "func(sum, x, mean []float32)")
	ptrs = slices("sum", "x", "mean")
	s.loop(length("sum"), elementwiseUnroll, ptrs, func(l lanes) {
		x, sum := l.load(1), l.load(0)
		VSUBPS(l.load(2), x, x)
		VFMADD231PS(x, x, sum)
		l.store(0, sum)
	})
	end()

	s.text("addProductsRow", "func(sum, products, grad, x, mean []float32)")
	ptrs = slices("sum", "products", "grad", "x", "mean")
	s.loop(length("sum"), elementwiseUnroll, ptrs, func(l lanes) {
		grad, x, sum, products := l.load(2), l.load(3), l.load(0), l.load(1)
		VSUBPS(l.load(4), x, x)
		VFMADD231PS(x, grad, products)
		VADDPS(grad, sum, sum)
		l.store(0, sum)
		l.store(1, products)
	})
	end()

	s.text("normalizeGradRow", "func(dst, grad, x, mean, ofGrad, ofX, offset []float32)")
	ptrs = slices("dst", "grad", "x", "mean", "ofGrad", "ofX", "offset")
	s.loop(length("dst"), 2, ptrs, func(l lanes) {
		x, sum := l.load(2), l.load(6)
		VSUBPS(l.load(3), x, x)
		VFMADD231PS(l.load(4), l.load(1), sum)
		VFMADD231PS(l.load(5), x, sum)
		l.store(0, sum)
	})
	end()
}
