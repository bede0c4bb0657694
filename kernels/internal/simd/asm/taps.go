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

// tapsUnroll is how many vectors of channels go through the taps together.
const tapsUnroll = 4

// taps writes what combines the channels of the taps of windows: see Taps. combine adds the tap at a, and at b where the
// function takes one, to the accumulator.
type taps struct {
	isa
	name    string
	two     bool // takes b
	initial func(acc vec)
	combine func(acc, a vec, b Op)

	n, t, dst, a, b, offset, left reg.GPVirtual
	accumulate                    Mem
}

func (f *taps) write() {
	signature := "func(dst, a *float32, n int, t *int, accumulate int)"
	if f.two {
		signature = "func(dst, a, b *float32, n int, t *int, accumulate int)"
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
	places := AllocLocal(8)
	count := GP64()
	MOVQ(f.field(placesField), count)
	MOVQ(count, places)
	f.offset, f.left = GP64(), GP64()

	Label("place")
	XORQ(f.offset, f.offset)
	MOVQ(f.n, f.left)
	f.channels(tapsUnroll)
	f.channels(1)
	TESTQ(f.left, f.left)
	JZ(LabelRef("next"))
	mask := lanes{isa: f.isa, tail: true}
	if f.wide() {
		mask.k = opmask(f.left)
	} else {
		mask.y = laneMask(f.left)
	}
	f.window("rest", 1, mask)
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

// channels combines so many vectors at a time, while there are as many left.
func (f *taps) channels(vectors int) {
	label, after := fmt.Sprintf("vectors%d", vectors), fmt.Sprintf("less%d", vectors)
	Label(label)
	CMPQ(f.left, U32(uint32(vectors*f.lanes())))
	JL(LabelRef(after))
	f.window(label, vectors, lanes{isa: f.isa})
	ADDQ(U32(uint32(vectors*f.size)), f.offset)
	SUBQ(U32(uint32(vectors*f.lanes())), f.left)
	JMP(LabelRef(label))
	Label(after)
}

// window combines the taps of one window for some vectors of channels.
func (f *taps) window(label string, vectors int, l lanes) {
	acc := make([]vec, vectors)
	for i := range acc {
		acc[i] = f.new()
		f.initial(acc[i])
	}
	to := GP64()
	LEAQ(Mem{Base: f.dst, Index: f.offset, Scale: 1}, to)
	l.ptrs = []reg.GPVirtual{to}
	CMPQ(f.accumulate, Imm(0))
	JE(LabelRef(label + "fresh"))
	for i := range acc {
		l.disp = i * f.size
		VMOVUPS(l.load(0), acc[i])
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
	tap := l
	tap.ptrs = at
	for i := range acc {
		tap.disp = i * f.size
		a := tap.load(0)
		switch {
		case !f.two:
			f.combine(acc[i], a, nil)
		case l.tail:
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
	for i := range acc {
		l.disp = i * f.size
		l.store(0, acc[i])
	}
}

func windowTaps(s isa) {
	zero := func(acc vec) { s.xor(acc, acc, acc) }
	(&taps{isa: s, name: "sumOfProducts", two: true, initial: zero, combine: func(acc, a vec, b Op) { VFMADD231PS(b, a, acc) }}).write()
	(&taps{isa: s, name: "sumOfTaps", initial: zero, combine: func(acc, a vec, _ Op) { VADDPS(a, acc, acc) }}).write()
	(&taps{isa: s, name: "maxOfTaps", initial: func(acc vec) { VMOVUPS(s.inReg(s.bits(0xff800000)), acc) }, combine: func(acc, a vec, _ Op) {
		// As Max of what there is and a: a NaN of either stays.
		x := s.new()
		VMAXPS(a, acc, x)
		s.choose(unorderedQ, acc, acc, acc, x)
		VMOVAPS(x, acc)
	}}).write()
}
