package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanes is the view a loop body has of the vectors at the current position.
type lanes struct {
	isa
	ptrs []reg.GPVirtual
	disp int
	slot int // 0..unroll-1: which of a reduction's accumulators to use
	tail bool
	k    reg.OpmaskVirtual
	y    vec
}

// load reads the vector of stream i; lanes beyond the end are zero.
func (l lanes) load(i int) vec {
	r := l.new()
	m := Mem{Base: l.ptrs[i], Disp: l.disp}
	switch {
	case !l.tail:
		VMOVUPS(m, r)
	case l.wide():
		VMOVUPS_Z(m, l.k, r)
	default:
		VMASKMOVPS(m, l.y, r)
	}
	return r
}

// loadOr reads the vector of stream i; lanes beyond the end hold fill.
func (l lanes) loadOr(i int, fill vec) vec {
	if !l.tail {
		return l.load(i)
	}
	if l.wide() {
		r := l.new()
		VMOVAPS(fill, r)
		VMOVUPS(Mem{Base: l.ptrs[i]}, l.k, r)
		return r
	}
	r := l.load(i)
	VBLENDVPS(l.y, r, fill, r)
	return r
}

// store writes the vector of stream i, and nothing beyond the end.
func (l lanes) store(i int, v vec) {
	m := Mem{Base: l.ptrs[i], Disp: l.disp}
	switch {
	case !l.tail:
		VMOVUPS(v, m)
	case l.wide():
		VMOVUPS(v, l.k, m)
	default:
		VMASKMOVPS(v, l.y, m)
	}
}

// loop runs body over n elements of the streams: unrolled, then one vector at
// a time, then once under a mask. Masked lanes are neither read nor written,
// so a buffer may end at the edge of a mapping.
func (s isa) loop(n reg.GPVirtual, unroll int, ptrs []reg.GPVirtual, body func(l lanes)) {
	step := s.lanes() * unroll
	CMPQ(n, U32(uint32(step)))
	JL(LabelRef("single"))
	Label("unrolled")
	for u := range unroll {
		body(lanes{isa: s, ptrs: ptrs, disp: s.size * u, slot: u})
	}
	for _, p := range ptrs {
		ADDQ(U32(uint32(4*step)), p)
	}
	SUBQ(U32(uint32(step)), n)
	CMPQ(n, U32(uint32(step)))
	JGE(LabelRef("unrolled"))
	Label("single")
	CMPQ(n, Imm(uint64(s.lanes())))
	JL(LabelRef("rest"))
	body(lanes{isa: s, ptrs: ptrs})
	for _, p := range ptrs {
		ADDQ(Imm(uint64(s.size)), p)
	}
	SUBQ(Imm(uint64(s.lanes())), n)
	JMP(LabelRef("single"))
	Label("rest")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	l := lanes{isa: s, ptrs: ptrs, tail: true}
	if s.wide() {
		l.k = opmask(n)
	} else {
		l.y = laneMask(n)
	}
	body(l)
	Label("done")
}

// opmask returns a mask of the first n lanes, n < 32.
func opmask(n reg.GPVirtual) reg.OpmaskVirtual {
	b := GP64()
	MOVQ(U32(0xffffffff), b)
	BZHIQ(n, b, b)
	k := K()
	KMOVW(b.As32(), k)
	return k
}

// windowBytes is how far into the table of eight set and sixteen clear words
// the mask of no lane starts.
const windowBytes = 4 * 16

var window *Mem

// laneWindow returns the address of the table whose 8 words from word 16-n on
// are a mask of the first n lanes, and whose next 8 go on from there: sixteen
// set words, then sixteen clear ones.
func laneWindow() reg.GPVirtual {
	if window == nil {
		m := GLOBL("lanewindow", RODATA|NOPTR)
		for i := range 32 {
			if i < 16 {
				DATA(4*i, U32(0xffffffff))
			} else {
				DATA(4*i, U32(0))
			}
		}
		window = &m
	}
	p := GP64()
	LEAQ(*window, p)
	return p
}

// laneMask returns a vector mask of the first n lanes, n <= 8.
func laneMask(n reg.GPVirtual) vec {
	p, i := laneWindow(), GP64()
	MOVQ(n, i)
	NEGQ(i)
	y := YMM()
	VMOVUPS(Mem{Base: p, Disp: windowBytes, Index: i, Scale: 4}, y)
	return y
}
