package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// filteredTaps writes the sums of products over windows of so many rows and columns whose weights are the same for all
// places: see Taps.SumOfProducts. The weights stay in registers.
func filteredTaps(s isa, rows, cols int) {
	s.text(fmt.Sprintf("filteredTaps%dx%d", rows, cols), "func(dst, a, b *float32, n int, t *int, accumulate int)")
	restore := flushSubnormals()
	f := &filtered{tapSums: tapSums{taps: taps{isa: s, n: arg("n"), t: arg("t"), dst: arg("dst"), a: arg("a"), b: arg("b")}, rows: rows, cols: cols}}
	f.accumulate = inMemory("accumulate")
	f.eachVectors(f.sums)
	restore()
	end()
}

type filtered struct{ tapSums }

// sums computes the sums of all places for some vectors of channels.
func (f *filtered) sums(label string, vectors int, l lanes) {
	weights := make([][]vec, f.rows*f.cols)
	f.eachTap(f.b, l, func(tap int, l lanes) {
		for i := range vectors {
			l.disp = i * f.size
			weights[tap] = append(weights[tap], l.load(0))
		}
	})
	lines := f.lines()
	column, stepA, stepDst, dst, places := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(f.field(colAField), column)
	MOVQ(f.field(placeAField), stepA)
	MOVQ(f.field(placeDstField), stepDst)
	for _, step := range []reg.GPVirtual{column, stepA, stepDst} {
		SHLQ(Imm(2), step)
	}
	MOVQ(f.dst, dst)
	MOVQ(f.field(placesField), places)
	Label(label + "place")
	l.ptrs = []reg.GPVirtual{dst}
	acc := make([]vec, vectors)
	for i := range acc {
		acc[i] = f.zero()
	}
	CMPQ(f.accumulate, Imm(0))
	JE(LabelRef(label + "fresh"))
	for i := range acc {
		l.disp = i * f.size
		VMOVUPS(l.load(0), acc[i])
	}
	Label(label + "fresh")
	for r, line := range lines {
		for c := range f.cols {
			for i := range acc {
				f.add(acc[i], weights[r*f.cols+c][i], f.tap(line, column, c, i), l)
			}
		}
	}
	for i := range acc {
		l.disp = i * f.size
		l.store(0, acc[i])
	}
	for _, line := range lines {
		ADDQ(stepA, line)
	}
	ADDQ(stepDst, dst)
	DECQ(places)
	JNZ(LabelRef(label + "place"))
}
