package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bfloatTurn is how many elements a turn of the conversions' loops takes. The caller has made
// the length a multiple of it.
const bfloatTurn = 16

// bfloats writes the conversions between float32 and bfloat16.
func bfloats(s isa) {
	s.convert("narrow", "func(dst []uint16, src []float32)", 2, 4, s.narrow)
	s.convert("widen", "func(dst []float32, src []uint16)", 4, 2, s.widen)
	if s.wide() {
		s.interleave()
	}
}

// convert writes a loop that converts bfloatTurn elements a turn, of so many bytes each.
func (s isa) convert(name, signature string, dstSize, srcSize int, prepare func() func(dst, src reg.GPVirtual)) {
	s.text(name, signature)
	ptrs := slices("dst", "src")
	n := length("dst")
	body := prepare()
	Label("turn")
	CMPQ(n, Imm(bfloatTurn))
	JL(LabelRef("done"))
	body(ptrs[0], ptrs[1])
	ADDQ(Imm(uint64(bfloatTurn*dstSize)), ptrs[0])
	ADDQ(Imm(uint64(bfloatTurn*srcSize)), ptrs[1])
	SUBQ(Imm(bfloatTurn), n)
	JMP(LabelRef("turn"))
	Label("done")
	end()
}

// narrow rounds to nearest even: it adds a half of the last place that stays, less the least bit
// where that place is even, and cuts. A NaN becomes the quiet one of its sign.
func (s isa) narrow() func(dst, src reg.GPVirtual) {
	one, half, sign, quiet := s.bits(1), s.bits(0x7fff), s.bits(0x8000), s.bits(0x7fc0)
	round := func(src Mem) vec {
		x, r, nan := s.new(), s.new(), s.new()
		VMOVUPS(src, x)
		VPSRLD(Imm(16), x, nan)
		s.and(one, nan, r)
		s.and(sign, nan, nan)
		s.or(quiet, nan, nan)
		VPADDD(half, r, r)
		VPADDD(x, r, r)
		VPSRLD(Imm(16), r, r)
		s.choose(unorderedQ, x, x, nan, r)
		return r
	}
	return func(dst, src reg.GPVirtual) {
		if s.wide() {
			VPMOVDW(round(Mem{Base: src}), Mem{Base: dst})
			return
		}
		low, high := round(Mem{Base: src}), round(Mem{Base: src, Disp: s.size})
		VPACKUSDW(high, low, low) // by halves of 128 bits
		VPERMQ(Imm(0xd8), low, low)
		VMOVUPS(low, Mem{Base: dst})
	}
}

func (s isa) widen() func(dst, src reg.GPVirtual) {
	return func(dst, src reg.GPVirtual) {
		for at := 0; at < bfloatTurn; at += s.lanes() {
			x := s.new()
			VPMOVZXWD(Mem{Base: src, Disp: 2 * at}, x)
			VPSLLD(Imm(16), x, x)
			VMOVUPS(x, Mem{Base: dst, Disp: 4 * at})
		}
	}
}

// interleave writes the function that brings the two rows of each pair, of 16 numbers each, together: the two of a column
// lie side by side then. Rows are lds bytes apart.
func (s isa) interleave() {
	s.text("interleave", "func(pairs int, src *uint16, lds int, dst *uint16)")
	pairs, src, lds, dst := arg("pairs"), arg("src"), arg("lds"), arg("dst")
	Label("pair")
	first, second := s.new(), s.new()
	VPMOVZXWD(Mem{Base: src}, first)
	VPMOVZXWD(Mem{Base: src, Index: lds, Scale: 1}, second)
	VPSLLD(Imm(16), second, second)
	s.or(second, first, first)
	VMOVUPS(first, Mem{Base: dst})
	LEAQ(Mem{Base: src, Index: lds, Scale: 2}, src)
	ADDQ(U32(64), dst)
	DECQ(pairs)
	JNZ(LabelRef("pair"))
	end()
}
