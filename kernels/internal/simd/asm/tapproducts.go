package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The most taps whose sums are in registers together.
const mostTapRows, mostTapCols = 3, 3

// tapProducts writes the sums of products over places for windows of so many rows and columns: see Taps.AddProducts. Each
// vector of b goes to the sums of all taps.
func tapProducts(s isa, rows, cols int) {
	s.text(fmt.Sprintf("tapProducts%dx%d", rows, cols), "func(dst, a, b *float32, n int, t *int)")
	restore := flushSubnormals()
	f := &tapSums{taps: taps{isa: s, n: arg("n"), t: arg("t"), dst: arg("dst"), a: arg("a"), b: arg("b")}, rows: rows, cols: cols}
	f.eachVectors(f.sums)
	restore()
	end()
}

type tapSums struct {
	taps
	rows, cols int
}

// eachVectors calls sums for some vectors of channels after others, the last of which may have fewer lanes.
func (f *tapSums) eachVectors(sums func(label string, vectors int, l lanes)) {
	if f.wide() { // which has registers for twice the sums
		f.vectors(2, sums)
	}
	f.vectors(1, sums)
	TESTQ(f.n, f.n)
	JZ(LabelRef("done"))
	last := lanes{isa: f.isa, tail: true}
	if f.wide() {
		last.k = opmask(f.n)
	} else {
		last.y = laneMask(f.n)
	}
	sums("rest", 1, last)
	Label("done")
}

// vectors takes so many vectors of channels at a time, while there are as many left.
func (f *tapSums) vectors(n int, sums func(label string, vectors int, l lanes)) {
	label, after := fmt.Sprintf("vectors%d", n), fmt.Sprintf("less%d", n)
	Label(label)
	CMPQ(f.n, U32(uint32(n*f.lanes())))
	JL(LabelRef(after))
	sums(label, n, lanes{isa: f.isa})
	for _, p := range []reg.GPVirtual{f.dst, f.a, f.b} {
		ADDQ(U32(uint32(n*f.size)), p)
	}
	SUBQ(U32(uint32(n*f.lanes())), f.n)
	JMP(LabelRef(label))
	Label(after)
}

// eachTap goes through what the taps have in p, RowB and ColB apart.
func (f *tapSums) eachTap(p reg.GPVirtual, l lanes, visit func(tap int, l lanes)) {
	row, at, step := GP64(), GP64(), GP64()
	MOVQ(p, row)
	for r := range f.rows {
		MOVQ(row, at)
		for c := range f.cols {
			l.ptrs = []reg.GPVirtual{at}
			visit(r*f.cols+c, l)
			MOVQ(f.field(colBField), step)
			LEAQ(Mem{Base: at, Index: step, Scale: 4}, at)
		}
		f.advance(row, rowBField)
	}
}

func (f *tapSums) sums(label string, vectors int, l lanes) {
	acc := make([][]vec, f.rows*f.cols)
	f.eachTap(f.dst, l, func(tap int, l lanes) {
		for i := range vectors {
			l.disp = i * f.size
			acc[tap] = append(acc[tap], l.load(0))
		}
	})
	lines := f.lines()
	column, stepA, stepB, b, places := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(f.field(colAField), column)
	MOVQ(f.field(placeAField), stepA)
	MOVQ(f.field(placeBField), stepB)
	for _, step := range []reg.GPVirtual{column, stepA, stepB} {
		SHLQ(Imm(2), step)
	}
	MOVQ(f.b, b)
	MOVQ(f.field(placesField), places)
	Label(label + "place")
	l.ptrs = []reg.GPVirtual{b}
	v := make([]vec, vectors)
	for i := range v {
		l.disp = i * f.size
		v[i] = l.load(0)
	}
	for r, line := range lines {
		for c := range f.cols {
			for i := range v {
				f.add(acc[r*f.cols+c][i], v[i], f.tap(line, column, c, i), l)
			}
		}
	}
	for _, line := range lines {
		ADDQ(stepA, line)
	}
	ADDQ(stepB, b)
	DECQ(places)
	JNZ(LabelRef(label + "place"))
	f.eachTap(f.dst, l, func(tap int, l lanes) {
		for i, sum := range acc[tap] {
			l.disp = i * f.size
			l.store(0, sum)
		}
	})
}

// lines are pointers to the rows of a's first window.
func (f *tapSums) lines() []reg.GPVirtual {
	lines := make([]reg.GPVirtual, f.rows)
	for r := range lines {
		lines[r] = GP64()
		if r == 0 {
			MOVQ(f.a, lines[0])
			continue
		}
		MOVQ(lines[r-1], lines[r])
		f.advance(lines[r], rowAField)
	}
	return lines
}

// tap is where vector i of a tap of a lies, in some column of a line, which are so many bytes apart.
func (f *tapSums) tap(line, column reg.GPVirtual, c, i int) Mem {
	m := Mem{Base: line, Disp: i * f.size}
	if c > 0 {
		m.Index, m.Scale = column, uint8(c)
	}
	return m
}

// add adds the products of v and the numbers at m to acc.
func (f *tapSums) add(acc, v vec, m Mem, l lanes) {
	switch {
	case !l.tail:
		VFMADD231PS(m, v, acc)
	case f.wide():
		x := f.new()
		VMOVUPS_Z(m, l.k, x)
		VFMADD231PS(x, v, acc)
	default:
		x := f.new()
		VMASKMOVPS(m, l.y, x)
		VFMADD231PS(x, v, acc)
	}
}
