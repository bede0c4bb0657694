package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The fields of Taps, in their order.
const (
	placesField = 8 * iota
	placeDstField
	placeAField
	placeBField
	rowsField
	rowAField
	rowBField
	colsField
	colAField
	colBField
)

// taps writes what combines the channels of the taps of windows: see Taps. combine adds the tap at a, and at b where the
// function takes one, to the accumulator.
type taps struct {
	isa
	name    string
	two     bool   // takes b
	mean    bool   // takes a number to divide the results by
	unroll  int    // how many vectors of channels go through the taps together
	initial uint32 // the bits of the number that combining begins with
	combine func(acc, a vec, b Op)

	n, t, dst, a, b, offset, left reg.GPVirtual
	accumulate, divisor           Mem
	start                         vec // of accumulators
}

func (f *taps) write() {
	signature := "func(dst, a *float32, n int, t *int, accumulate int)"
	switch {
	case f.two:
		signature = "func(dst, a, b *float32, n int, t *int, accumulate int)"
	case f.mean:
		signature = "func(dst, a *float32, n int, t *int, accumulate int, divisor float32)"
	}
	f.text(f.name, signature)
	restore := func() {}
	if f.two {
		restore = flushSubnormals()
	}
	f.n, f.t, f.dst, f.a = arg("n"), arg("t"), arg("dst"), arg("a")
	if f.two {
		f.b = arg("b")
	}
	f.accumulate = inMemory("accumulate")
	if f.mean {
		f.divisor = inMemory("divisor")
	}
	f.start = f.inReg(f.bits(f.initial))
	places := AllocLocal(8)
	count := GP64()
	MOVQ(f.field(placesField), count)
	MOVQ(count, places)
	f.offset, f.left = GP64(), GP64()

	Label("place")
	XORQ(f.offset, f.offset)
	MOVQ(f.n, f.left)
	f.channels()
	TESTQ(f.left, f.left)
	JZ(LabelRef("next"))
	for vectors := 1; vectors <= f.unroll; vectors++ {
		f.rest(vectors)
	}
	Label("next")
	f.advance(f.dst, placeDstField)
	f.advance(f.a, placeAField)
	if f.two {
		f.advance(f.b, placeBField)
	}
	DECQ(places)
	JNZ(LabelRef("place"))
	restore()
	end()
}

func (f *taps) field(offset int) Mem { return Mem{Base: f.t, Disp: offset} }

// advance moves a pointer by as many numbers as a field of Taps says.
func (f *taps) advance(p reg.GPVirtual, field int) {
	step := GP64()
	MOVQ(f.field(field), step)
	LEAQ(Mem{Base: p, Index: step, Scale: 4}, p)
}

// channels combines as many vectors at a time as go together, while there are that many left.
func (f *taps) channels() {
	Label("vectors")
	CMPQ(f.left, U32(uint32(f.unroll*f.lanes())))
	JL(LabelRef("less"))
	f.window("vectors", f.unroll, lanes{isa: f.isa})
	ADDQ(U32(uint32(f.unroll*f.size)), f.offset)
	SUBQ(U32(uint32(f.unroll*f.lanes())), f.left)
	JMP(LabelRef("vectors"))
	Label("less")
}

// rest combines the channels that are left if they are so many vectors, the last of which may have fewer lanes.
func (f *taps) rest(vectors int) {
	label := fmt.Sprintf("rest%d", vectors)
	if vectors < f.unroll {
		CMPQ(f.left, U32(uint32(vectors*f.lanes())))
		JG(LabelRef(label + "more"))
	}
	last := lanes{isa: f.isa, tail: true}
	if vectors > 1 {
		SUBQ(U32(uint32((vectors-1)*f.lanes())), f.left)
	}
	if f.wide() {
		last.k = opmask(f.left)
	} else {
		last.y = laneMask(f.left)
	}
	f.window(label, vectors, last)
	if vectors < f.unroll {
		JMP(LabelRef("next"))
		Label(label + "more")
	}
}

// window combines the taps of one window for some vectors of channels, the last of which has the lanes of last.
func (f *taps) window(label string, vectors int, last lanes) {
	lane := func(i int, ptrs ...reg.GPVirtual) lanes {
		l := lanes{isa: f.isa}
		if i+1 == vectors {
			l = last
		}
		l.ptrs, l.disp = ptrs, i*f.size
		return l
	}
	acc := make([]vec, vectors)
	for i := range acc {
		acc[i] = f.new()
		VMOVAPS(f.start, acc[i])
	}
	to := GP64()
	LEAQ(Mem{Base: f.dst, Index: f.offset, Scale: 1}, to)
	CMPQ(f.accumulate, Imm(0))
	JE(LabelRef(label + "fresh"))
	for i := range acc {
		VMOVUPS(lane(i, to).load(0), acc[i])
	}
	Label(label + "fresh")
	sources := []reg.GPVirtual{f.a}
	rowFields, colFields := []int{rowAField}, []int{colAField}
	if f.two {
		sources, rowFields, colFields = append(sources, f.b), append(rowFields, rowBField), append(colFields, colBField)
	}
	lines, at, steps := make([]reg.GPVirtual, len(sources)), make([]reg.GPVirtual, len(sources)), make([]reg.GPVirtual, len(sources))
	for i, p := range sources {
		lines[i], at[i], steps[i] = GP64(), GP64(), GP64()
		LEAQ(Mem{Base: p, Index: f.offset, Scale: 1}, lines[i])
		MOVQ(f.field(colFields[i]), steps[i])
	}
	rows, cols := GP64(), GP64()
	MOVQ(f.field(rowsField), rows)
	Label(label + "row")
	for i := range lines {
		MOVQ(lines[i], at[i])
	}
	MOVQ(f.field(colsField), cols)
	Label(label + "col")
	for i := range acc {
		tap := lane(i, at...)
		a := tap.load(0)
		switch {
		case !f.two:
			f.combine(acc[i], a, nil)
		case tap.tail:
			f.combine(acc[i], a, tap.load(1))
		default:
			f.combine(acc[i], a, Mem{Base: at[1], Disp: tap.disp})
		}
	}
	for i := range at {
		LEAQ(Mem{Base: at[i], Index: steps[i], Scale: 4}, at[i])
	}
	DECQ(cols)
	JNZ(LabelRef(label + "col"))
	for i := range lines {
		f.advance(lines[i], rowFields[i])
	}
	DECQ(rows)
	JNZ(LabelRef(label + "row"))
	LEAQ(Mem{Base: f.dst, Index: f.offset, Scale: 1}, to)
	if f.mean {
		divisor := f.new()
		VBROADCASTSS(f.divisor, divisor)
		for i := range acc {
			VDIVPS(divisor, acc[i], acc[i])
		}
	}
	for i := range acc {
		lane(i, to).store(0, acc[i])
	}
}

func windowTaps(s isa) {
	// Sums are of rows of tables, too, which eight vectors have at one go. What is multiplied waits for loads anyway.
	const alone, products = 8, 4
	const lowest = 0xff800000 // -Inf
	sum := func(acc, a vec, _ Op) { VADDPS(a, acc, acc) }
	(&taps{isa: s, name: "sumOfProducts", two: true, unroll: products, combine: func(acc, a vec, b Op) { VFMADD231PS(b, a, acc) }}).write()
	(&taps{isa: s, name: "sumOfTaps", unroll: alone, combine: sum}).write()
	(&taps{isa: s, name: "meanOfTaps", mean: true, unroll: products, combine: sum}).write()
	(&taps{isa: s, name: "maxOfTaps", unroll: alone, initial: lowest, combine: func(acc, a vec, _ Op) {
		// As Max of what there is and a: a NaN of either stays.
		x := s.new()
		VMAXPS(a, acc, x)
		s.choose(unorderedQ, acc, acc, acc, x)
		VMOVAPS(x, acc)
	}}).write()
	for rows := 1; rows <= mostTapRows; rows++ {
		for cols := 1; cols <= mostTapCols; cols++ {
			tapProducts(s, rows, cols)
		}
	}
}
