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
	s.text("butterflies4", "func(dst, src *float32, n, srcStep, dstStep, im int, w *float32, factors int)")
	im := arg("im")
	src, dst := s.fourierNumbers("src", "srcStep", im), s.fourierNumbers("dst", "dstStep", im)
	n, w, factors := GP64(), arg("w"), inMemory("factors")
	Label("factor")
	Load(Param("n"), n)
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
	// The other three of dst lie between these and the next ones.
	ADDQ(dst.step3, dst.re)
	ADDQ(dst.step3, dst.im)
	ADDQ(Imm(24), w)
	DECQ(factors)
	JNZ(LabelRef("factor"))
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

// fourierRowKernels writes what transforms one row, whose numbers lie side by side with their parts alternating, and brings such numbers
// into vectors of parts.
func fourierRowKernels(s isa) {
	s.text("loadNumbers", "func(dst, src *float32, n, srcStep, im int)")
	re, src, n, step := arg("dst"), arg("src"), arg("n"), arg("srcStep")
	im := GP64()
	MOVQ(re, im)
	ADDQ(inMemory("im"), im)
	var even, odd vec
	if s.wide() {
		even, odd = s.order("even", func(i int) int { return 2 * i }), s.order("odd", func(i int) int { return 2*i + 1 })
	}
	Label("number")
	for disp := 0; disp < fourierPart; disp += s.size {
		a, b := s.new(), s.new()
		VMOVUPS(Mem{Base: src, Disp: 2 * disp}, a)
		VMOVUPS(Mem{Base: src, Disp: 2*disp + s.size}, b)
		x, y := s.new(), s.new()
		if s.wide() {
			VMOVAPS(a, x)
			VPERMT2PS(b, even, x)
			VMOVAPS(a, y)
			VPERMT2PS(b, odd, y)
		} else {
			VSHUFPS(Imm(0x88), b, a, x)
			VSHUFPS(Imm(0xdd), b, a, y)
			VPERMPD(Imm(0xd8), x, x)
			VPERMPD(Imm(0xd8), y, y)
		}
		VMOVUPS(x, Mem{Base: re, Disp: disp})
		VMOVUPS(y, Mem{Base: im, Disp: disp})
	}
	ADDQ(step, src)
	ADDQ(Imm(fourierNumber), re)
	ADDQ(Imm(fourierNumber), im)
	DECQ(n)
	JNZ(LabelRef("number"))
	end()

	s.text("storeNumbers", "func(dst, src *float32, n, dstStep, im int, scale float32)")
	dst, re, n, step := arg("dst"), arg("src"), arg("n"), arg("dstStep")
	im = GP64()
	MOVQ(re, im)
	ADDQ(inMemory("im"), im)
	scale := s.scalar("scale")
	var lower, upper vec
	if s.wide() {
		lower = s.order("lower", func(i int) int { return i/2 + 16*(i%2) })
		upper = s.order("upper", func(i int) int { return 8 + i/2 + 16*(i%2) })
	}
	Label("number")
	for disp := 0; disp < fourierPart; disp += s.size {
		x, y := s.new(), s.new()
		VMULPS(Mem{Base: re, Disp: disp}, scale, x)
		VMULPS(Mem{Base: im, Disp: disp}, scale, y)
		a, b := s.new(), s.new()
		if s.wide() {
			VMOVAPS(x, a)
			VPERMT2PS(y, lower, a)
			VMOVAPS(x, b)
			VPERMT2PS(y, upper, b)
		} else {
			low, high := s.new(), s.new()
			VUNPCKLPS(y, x, low)
			VUNPCKHPS(y, x, high)
			VPERM2F128(Imm(0x20), high, low, a)
			VPERM2F128(Imm(0x31), high, low, b)
		}
		VMOVUPS(a, Mem{Base: dst, Disp: 2 * disp})
		VMOVUPS(b, Mem{Base: dst, Disp: 2*disp + s.size})
	}
	ADDQ(step, dst)
	ADDQ(Imm(fourierNumber), re)
	ADDQ(Imm(fourierNumber), im)
	DECQ(n)
	JNZ(LabelRef("number"))
	end()

	s.text("mulNumbers", "func(dst, w *float32, n int)")
	dst, w, n := arg("dst"), arg("w"), arg("n")
	Label("number")
	for disp := 0; disp < fourierPart; disp += s.size {
		load := func(p reg.GPVirtual) complexVec {
			v := complexVec{s.new(), s.new()}
			VMOVUPS(Mem{Base: p, Disp: disp}, v.re)
			VMOVUPS(Mem{Base: p, Disp: disp + fourierPart}, v.im)
			return v
		}
		a, f, r := load(dst), load(w), complexVec{s.new(), s.new()}
		VMULPS(f.re, a.re, r.re)
		VMULPS(f.re, a.im, r.im)
		VFNMADD231PS(f.im, a.im, r.re)
		VFMADD231PS(f.im, a.re, r.im)
		VMOVUPS(r.re, Mem{Base: dst, Disp: disp})
		VMOVUPS(r.im, Mem{Base: dst, Disp: disp + fourierPart})
	}
	ADDQ(Imm(fourierNumber), dst)
	ADDQ(Imm(fourierNumber), w)
	DECQ(n)
	JNZ(LabelRef("number"))
	end()

	// So many vectors of numbers from up on, and from down backwards; a and b likewise.
	s.text("untangleRow", "func(up, down, a, b *float32, n int, w *float32)")
	up, down, pa, pb, n, w := arg("up"), arg("down"), arg("a"), arg("b"), arg("n"), arg("w")
	half, signs := s.inReg(s.float(0.5)), s.new()
	conjugate := GLOBL("conjugate"+s.name, RODATA|NOPTR)
	for i := range s.lanes() {
		DATA(4*i, U32(uint32(i%2)<<31))
	}
	VMOVUPS(conjugate, signs)
	var backwards vec
	if s.wide() {
		backwards = s.order("backwards", func(i int) int { return (14 - i/2*2) + i%2 })
	}
	reversed := func(v vec) vec {
		r := s.new()
		if s.wide() {
			VPERMPS(v, backwards, r)
		} else {
			VPERMPD(Imm(0x1b), v, r)
		}
		return r
	}
	Label("vector")
	a, b := s.new(), s.new()
	VMULPS(Mem{Base: pa}, half, a)
	VMULPS(Mem{Base: pb}, half, b)
	b = reversed(b)
	s.xor(signs, b, b)
	e, d := s.new(), s.new()
	VADDPS(b, a, e)
	VSUBPS(b, a, d)
	f, real, imaginary, turned := s.new(), s.new(), s.new(), s.new()
	VMOVUPS(Mem{Base: w}, f)
	VMOVSLDUP(f, real)
	VMOVSHDUP(f, imaginary)
	VPERMILPS(Imm(0xb1), d, turned)
	VMULPS(imaginary, turned, turned)
	VFMADDSUB231PS(real, d, turned) // real parts lose, imaginary ones gain
	VADDPS(turned, e, a)
	VSUBPS(turned, e, b)
	s.xor(signs, b, b)
	b = reversed(b)
	VMOVUPS(a, Mem{Base: up})
	VMOVUPS(b, Mem{Base: down})
	ADDQ(Imm(uint64(s.size)), up)
	SUBQ(Imm(uint64(s.size)), down)
	ADDQ(Imm(uint64(s.size)), pa)
	SUBQ(Imm(uint64(s.size)), pb)
	ADDQ(Imm(uint64(s.size)), w)
	DECQ(n)
	JNZ(LabelRef("vector"))
	end()
}

// order is a vector of the places that lanes come from.
func (s isa) order(name string, from func(i int) int) vec {
	m := GLOBL(name+s.name, RODATA|NOPTR)
	for i := range s.lanes() {
		DATA(4*i, U32(uint32(from(i))))
	}
	v := s.new()
	VMOVUPS(m, v)
	return v
}
