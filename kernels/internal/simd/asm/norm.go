package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// norms writes the passes of batch normalization over one row, of a number for each channel, and over some columns of all rows.
func norms(s isa) {
	normsOfRow(s)
	normsOfColumns(s)
}

// normVectors is how many vectors of each row the passes over columns take: what they hold for each channel fits the registers.
func (s isa) normVectors() int {
	if s.wide() {
		return 4
	}
	return 2
}

func normsOfColumns(s isa) {
	s.columns("normalizeColumns", []string{"dst", "x"}, 0, []string{"mean", "factor", "offset"}, func(at []Mem, of []vec) {
		x := s.new()
		VMOVUPS(at[1], x)
		VSUBPS(of[0], x, x)
		VFMADD213PS(of[2], of[1], x)
		VMOVUPS(x, at[0])
	})
	s.columns("addColumns", []string{"x"}, 1, []string{"sum"}, func(at []Mem, of []vec) { VADDPS(at[0], of[0], of[0]) })
	s.columns("addSquaresColumns", []string{"x"}, 1, []string{"sum", "mean"}, func(at []Mem, of []vec) {
		x := s.new()
		VMOVUPS(at[0], x)
		VSUBPS(of[1], x, x)
		VFMADD231PS(x, x, of[0])
	})
	s.columns("addProductsColumns", []string{"grad", "x"}, 2, []string{"sum", "products", "mean"}, func(at []Mem, of []vec) {
		grad, x := s.new(), s.new()
		VMOVUPS(at[0], grad)
		VMOVUPS(at[1], x)
		VSUBPS(of[2], x, x)
		VFMADD231PS(x, grad, of[1])
		VADDPS(grad, of[0], of[0])
	})
	s.columns("normalizeGradColumns", []string{"dst", "grad", "x"}, 0, []string{"mean", "ofGrad", "ofX", "offset"}, func(at []Mem, of []vec) {
		x, sum := s.new(), s.new()
		VMOVUPS(at[2], x)
		VSUBPS(of[0], x, x)
		VMOVAPS(of[3], sum)
		VFMADD231PS(at[1], of[1], sum)
		VFMADD231PS(of[2], x, sum)
		VMOVUPS(sum, at[0])
	})
}

// columns writes a pass over normVectors vectors of each of at least one row. The streams of rows move on by stride bytes a
// row; those of channels are held in registers, and the first of them, the sums, are written at the end.
func (s isa) columns(name string, rows []string, sums int, channels []string, body func(at []Mem, of []vec)) {
	s.text(name, "func(rows, stride int, "+strings.Join(append(rows[:len(rows):len(rows)], channels...), ", ")+" *float32)")
	left, stride := arg("rows"), arg("stride")
	vectors := s.normVectors()
	moving, fixed := make([]reg.GPVirtual, len(rows)), make([]reg.GPVirtual, len(channels))
	for i, r := range rows {
		moving[i] = arg(r)
	}
	held := make([][]vec, vectors)
	for i, c := range channels {
		fixed[i] = arg(c)
		for u := range vectors {
			v := s.new()
			VMOVUPS(Mem{Base: fixed[i], Disp: u * s.size}, v)
			held[u] = append(held[u], v)
		}
	}
	Label("row")
	for u := range vectors {
		var at []Mem
		for _, p := range moving {
			at = append(at, Mem{Base: p, Disp: u * s.size})
		}
		body(at, held[u])
	}
	for _, p := range moving {
		ADDQ(stride, p)
	}
	DECQ(left)
	JNZ(LabelRef("row"))
	for i := range sums {
		for u := range vectors {
			VMOVUPS(held[u][i], Mem{Base: fixed[i], Disp: u * s.size})
		}
	}
	end()
}

func normsOfRow(s isa) {
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
