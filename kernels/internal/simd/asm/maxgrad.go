package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxGradOfTaps writes what gives each place's gradient to the first of the greatest taps of its window: see Taps.MaxGrad.
// It goes through the taps twice: for the greatest one's number, and to add.
func maxGradOfTaps(s isa) {
	s.text("maxGradOfTaps", "func(dst, a, grad *float32, n int, t *int)")
	f := &taps{isa: s, n: arg("n"), t: arg("t"), dst: arg("dst"), a: arg("a")}
	grad := arg("grad")
	one := f.inReg(s.bits(1))
	places := AllocLocal(8)
	count := GP64()
	MOVQ(f.field(placesField), count)
	MOVQ(count, places)
	f.offset, f.left = GP64(), GP64()

	Label("place")
	XORQ(f.offset, f.offset)
	MOVQ(f.n, f.left)
	Label("channels")
	now := GP64()
	MOVQ(f.left, now)
	lanesAll := GP64()
	MOVQ(U32(uint32(s.lanes())), lanesAll)
	CMPQ(now, lanesAll)
	CMOVQGT(lanesAll, now)
	l := lanes{isa: s, tail: true}
	if s.wide() {
		l.k = opmask(now)
	} else {
		l.y = laneMask(now)
	}
	at := func(p reg.GPVirtual) lanes {
		q := GP64()
		LEAQ(Mem{Base: p, Index: f.offset, Scale: 1}, q)
		m := l
		m.ptrs = []reg.GPVirtual{q}
		return m
	}
	first := at(f.a)
	best := first.load(0)
	which, number := s.zero(), s.zero()
	f.eachTap("greatest", first.ptrs[0], func(from reg.GPVirtual) {
		m := l
		m.ptrs = []reg.GPVirtual{from}
		v := m.load(0)
		if s.wide() {
			k := K()
			VCMPPS(Imm(greaterQ), best, v, k)
			VMOVAPS(v, k, best)
			VMOVAPS(number, k, which)
		} else {
			k := s.new()
			VCMPPS(Imm(greaterQ), best, v, k)
			VBLENDVPS(k, v, best, best)
			VBLENDVPS(k, number, which, which)
		}
		VPADDD(one, number, number)
	})
	g := at(grad).load(0)
	s.xor(number, number, number)
	to := at(f.dst)
	f.eachTap("add", to.ptrs[0], func(place reg.GPVirtual) {
		m := l
		m.ptrs = []reg.GPVirtual{place}
		v := m.load(0)
		if s.wide() {
			k := K()
			VPCMPEQD(number, which, k)
			VADDPS(g, v, k, v)
		} else {
			k, sum := s.new(), s.new()
			VPCMPEQD(number, which, k)
			VADDPS(g, v, sum)
			VBLENDVPS(k, sum, v, v)
		}
		m.store(0, v)
		VPADDD(one, number, number)
	})
	ADDQ(U32(uint32(s.size)), f.offset)
	SUBQ(now, f.left)
	JNZ(LabelRef("channels"))
	f.advance(f.dst, placeAField)
	f.advance(f.a, placeAField)
	f.advance(grad, placeDstField)
	DECQ(places)
	JNZ(LabelRef("place"))
	end()
}

// eachTap goes through the taps of a window, the first of which is at p.
func (f *taps) eachTap(label string, p reg.GPVirtual, body func(at reg.GPVirtual)) {
	line, at, step, rows, cols := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(p, line)
	MOVQ(f.field(colAField), step)
	MOVQ(f.field(rowsField), rows)
	Label(label + "row")
	MOVQ(line, at)
	MOVQ(f.field(colsField), cols)
	Label(label + "col")
	body(at)
	LEAQ(Mem{Base: at, Index: step, Scale: 4}, at)
	DECQ(cols)
	JNZ(LabelRef(label + "col"))
	f.advance(line, rowAField)
	DECQ(rows)
	JNZ(LabelRef(label + "row"))
}
