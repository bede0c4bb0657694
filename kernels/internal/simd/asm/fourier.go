package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A number of a Fourier transform has a real and an imaginary part for each of so many rows, which are transformed together: first the
// real parts, then the imaginary ones.
const (
	fourierRows   = 16
	fourierPart   = 4 * fourierRows
	fourierNumber = 2 * fourierPart
)

// complexVec is a vector of real and one of imaginary parts.
type complexVec struct{ re, im vec }

func (s isa) sum(a, b complexVec) complexVec {
	r := complexVec{s.new(), s.new()}
	VADDPS(b.re, a.re, r.re)
	VADDPS(b.im, a.im, r.im)
	return r
}

func (s isa) difference(a, b complexVec) complexVec {
	r := complexVec{s.new(), s.new()}
	VSUBPS(b.re, a.re, r.re)
	VSUBPS(b.im, a.im, r.im)
	return r
}

// times is the product with a number that all rows have, whose parts lie in memory.
func (s isa) times(a complexVec, re, im Mem) complexVec {
	r, w := complexVec{s.new(), s.new()}, s.new()
	VBROADCASTSS(re, w)
	VMULPS(w, a.re, r.re)
	VMULPS(w, a.im, r.im)
	VBROADCASTSS(im, w)
	VFNMADD231PS(w, a.im, r.re)
	VFMADD231PS(w, a.re, r.im)
	return r
}

// numbers are some that lie a step apart, whose imaginary parts lie somewhere else than the real ones.
type fourierNumbers struct {
	re, im, step, step3 reg.GPVirtual
}

func (s isa) fourierNumbers(ptr, step string, im reg.GPVirtual) fourierNumbers {
	f := fourierNumbers{re: arg(ptr), im: GP64(), step: arg(step), step3: GP64()}
	MOVQ(f.re, f.im)
	ADDQ(im, f.im)
	LEAQ(Mem{Base: f.step, Index: f.step, Scale: 2}, f.step3)
	return f
}

func (f fourierNumbers) at(i, disp int) (re, im Mem) {
	re, im = Mem{Base: f.re, Disp: disp}, Mem{Base: f.im, Disp: disp}
	switch i {
	case 1, 2:
		re.Index, re.Scale, im.Index, im.Scale = f.step, uint8(i), f.step, uint8(i)
	case 3:
		re.Index, re.Scale, im.Index, im.Scale = f.step3, 1, f.step3, 1
	}
	return re, im
}

func (s isa) loadNumber(f fourierNumbers, i, disp int) complexVec {
	v := complexVec{s.new(), s.new()}
	re, im := f.at(i, disp)
	VMOVUPS(re, v.re)
	VMOVUPS(im, v.im)
	return v
}

func storeNumber(f fourierNumbers, i, disp int, v complexVec) {
	re, im := f.at(i, disp)
	VMOVUPS(v.re, re)
	VMOVUPS(v.im, im)
}

// next goes on to the numbers behind.
func (f fourierNumbers) next() {
	ADDQ(Imm(fourierNumber), f.re)
	ADDQ(Imm(fourierNumber), f.im)
}

// fourier writes the passes of Fourier transforms.
func fourier(s isa) {
	s.text("butterflies4", "func(dst, src *float32, n, srcStep, dstStep, im int, w *float32)")
	im := arg("im")
	src, dst := s.fourierNumbers("src", "srcStep", im), s.fourierNumbers("dst", "dstStep", im)
	n, w := arg("n"), arg("w")
	factor := func(i int) (re, im Mem) { return Mem{Base: w, Disp: 8 * i}, Mem{Base: w, Disp: 8*i + 4} }
	Label("four")
	for disp := 0; disp < fourierPart; disp += s.size {
		a, c := s.loadNumber(src, 0, disp), s.loadNumber(src, 2, disp)
		even, odd := s.sum(a, c), s.difference(a, c)
		b, d := s.loadNumber(src, 1, disp), s.loadNumber(src, 3, disp)
		even2, odd2 := s.sum(b, d), s.difference(b, d)
		storeNumber(dst, 0, disp, s.sum(even, even2))
		re, im := factor(1)
		storeNumber(dst, 2, disp, s.times(s.difference(even, even2), re, im))
		// odd minus and plus i times odd2
		v := complexVec{s.new(), s.new()}
		VADDPS(odd2.im, odd.re, v.re)
		VSUBPS(odd2.re, odd.im, v.im)
		re, im = factor(0)
		storeNumber(dst, 1, disp, s.times(v, re, im))
		v = complexVec{s.new(), s.new()}
		VSUBPS(odd2.im, odd.re, v.re)
		VADDPS(odd2.re, odd.im, v.im)
		re, im = factor(2)
		storeNumber(dst, 3, disp, s.times(v, re, im))
	}
	src.next()
	dst.next()
	DECQ(n)
	JNZ(LabelRef("four"))
	end()

	s.text("butterflies2", "func(dst, src *float32, n, srcStep, dstStep, im int)")
	im = arg("im")
	src, dst = s.fourierNumbers("src", "srcStep", im), s.fourierNumbers("dst", "dstStep", im)
	n = arg("n")
	Label("two")
	for disp := 0; disp < fourierPart; disp += s.size {
		a, b := s.loadNumber(src, 0, disp), s.loadNumber(src, 1, disp)
		storeNumber(dst, 0, disp, s.sum(a, b))
		storeNumber(dst, 1, disp, s.difference(a, b))
	}
	src.next()
	dst.next()
	DECQ(n)
	JNZ(LabelRef("two"))
	end()

	s.text("untangle", "func(up, down, a, b *float32, n int, w *float32)")
	up, down, pa, pb := arg("up"), arg("down"), arg("a"), arg("b")
	n, w = arg("n"), arg("w")
	half := s.inReg(s.float(0.5))
	Label("pair")
	for disp := 0; disp < fourierPart; disp += s.size {
		number := func(p reg.GPVirtual) complexVec {
			v := complexVec{s.new(), s.new()}
			VMOVUPS(Mem{Base: p, Disp: disp}, v.re)
			VMOVUPS(Mem{Base: p, Disp: disp + fourierPart}, v.im)
			VMULPS(half, v.re, v.re)
			VMULPS(half, v.im, v.im)
			return v
		}
		a, b := number(pa), number(pb)
		e, d := complexVec{s.new(), s.new()}, complexVec{s.new(), s.new()}
		VADDPS(b.re, a.re, e.re)
		VSUBPS(b.im, a.im, e.im)
		VSUBPS(b.re, a.re, d.re)
		VADDPS(b.im, a.im, d.im)
		t := s.times(d, Mem{Base: w}, Mem{Base: w, Disp: 4})
		r := s.sum(e, t)
		VMOVUPS(r.re, Mem{Base: up, Disp: disp})
		VMOVUPS(r.im, Mem{Base: up, Disp: disp + fourierPart})
		VSUBPS(t.re, e.re, e.re)
		VSUBPS(e.im, t.im, e.im)
		VMOVUPS(e.re, Mem{Base: down, Disp: disp})
		VMOVUPS(e.im, Mem{Base: down, Disp: disp + fourierPart})
	}
	ADDQ(Imm(fourierNumber), up)
	SUBQ(Imm(fourierNumber), down)
	ADDQ(Imm(fourierNumber), pa)
	SUBQ(Imm(fourierNumber), pb)
	ADDQ(Imm(8), w)
	DECQ(n)
	JNZ(LabelRef("pair"))
	end()
}
