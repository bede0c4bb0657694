package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// selectTurn is how many elements a turn of the loops of select takes. The caller has made the
// length a multiple of it.
const selectTurn = 64

// moves writes what moves elements or changes their type.
func moves(s isa) {
	for _, size := range []int{1, 2, 4, 8} {
		s.selection(size)
	}
	s.text("truncate", "func(dst []int32, src []float32)")
	ptrs := slices("dst", "src")
	s.loop(length("dst"), elementwiseUnroll, ptrs, func(l lanes) {
		x := l.load(1)
		VCVTTPS2DQ(x, x)
		l.store(0, x)
	})
	end()
	s.convert("toDouble", "func(dst []float64, src []float32)", 8, 4, s.widening)
	s.convert("fromDouble", "func(dst []float32, src []float64)", 4, 8, s.narrowing)
}

// widening is the turn of the conversion from float to double.
func (s isa) widening() func(dst, src reg.GPVirtual) {
	return func(dst, src reg.GPVirtual) {
		for at := 0; at < bfloatTurn*8; at += s.size {
			x := s.new()
			VCVTPS2PD(Mem{Base: src, Disp: at / 2}, x)
			VMOVUPS(x, Mem{Base: dst, Disp: at})
		}
	}
}

// narrowing is the turn of the conversion from double to float.
func (s isa) narrowing() func(dst, src reg.GPVirtual) {
	return func(dst, src reg.GPVirtual) {
		for at := 0; at < bfloatTurn*8; at += s.size {
			to := Mem{Base: dst, Disp: at / 2}
			if s.wide() {
				x := YMM()
				VCVTPD2PS(Mem{Base: src, Disp: at}, x)
				VMOVUPS(x, to)
				continue
			}
			x := XMM()
			VCVTPD2PSY(Mem{Base: src, Disp: at}, x)
			VMOVUPS(x, to)
		}
	}
}

// selection writes dst = a where a byte of the condition is not zero, and b elsewhere, for elements of so many bytes.
func (s isa) selection(size int) {
	s.text(fmt.Sprintf("select%d", 8*size), "func(dst, cond, a, b *uint8, n int)")
	dst, cond, a, b, n := arg("dst"), arg("cond"), arg("a"), arg("b"), arg("n")
	zero := s.zero()
	Label("turn")
	CMPQ(n, Imm(selectTurn))
	JL(LabelRef("done"))
	for at := 0; at < selectTurn*size; at += s.size {
		choice := s.spread(Mem{Base: cond, Disp: at / size}, size)
		from, other := Mem{Base: a, Disp: at}, Mem{Base: b, Disp: at}
		r := s.new()
		if s.wide() {
			k := K()
			VMOVDQU64(other, r)
			switch size {
			case 1:
				VPTESTMB(choice, choice, k)
				VMOVDQU8(from, k, r)
			case 2:
				VPTESTMW(choice, choice, k)
				VMOVDQU16(from, k, r)
			case 4:
				VPTESTMD(choice, choice, k)
				VMOVDQU32(from, k, r)
			case 8:
				VPTESTMQ(choice, choice, k)
				VMOVDQU64(from, k, r)
			}
		} else {
			switch size {
			case 1:
				VPCMPEQB(choice, zero, choice)
			case 2:
				VPCMPEQW(choice, zero, choice)
			case 4:
				VPCMPEQD(choice, zero, choice)
			case 8:
				VPCMPEQQ(choice, zero, choice)
			}
			VMOVDQU(from, r)
			VPBLENDVB(choice, other, r, r)
		}
		VMOVUPS(r, Mem{Base: dst, Disp: at})
	}
	for _, p := range []reg.GPVirtual{dst, a, b} {
		ADDQ(U32(uint32(selectTurn*size)), p)
	}
	ADDQ(Imm(selectTurn), cond)
	SUBQ(Imm(selectTurn), n)
	JMP(LabelRef("turn"))
	Label("done")
	end()
}

// spread loads bytes as a vector of elements of so many bytes.
func (s isa) spread(m Mem, size int) vec {
	r := s.new()
	switch size {
	case 1:
		VMOVUPS(m, r)
	case 2:
		VPMOVZXBW(m, r)
	case 4:
		VPMOVZXBD(m, r)
	case 8:
		VPMOVZXBQ(m, r)
	}
	return r
}
