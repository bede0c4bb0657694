package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/troupe-run/troupe/kernels/internal/simd/asm/coefficients"
)

const mathUnroll = 2

// horner returns the polynomial at x, coefficients from the highest power.
func (s isa) horner(powers []Op, x vec) vec {
	y := s.new()
	VMOVUPS(powers[0], y)
	for _, c := range powers[1:] {
		VFMADD213PS(c, x, y)
	}
	return y
}

// exp returns a function that computes exp(x) and overwrites x.
func (s isa) exp() func(x vec) vec {
	highest, lowest := s.float(coefficients.ExpHighest), s.float(coefficients.ExpLowest)
	perLn2 := s.float(1.44269504088896341)
	high, low := s.float(-coefficients.Ln2High), s.float(-coefficients.Ln2Low)
	p := s.floats(coefficients.Exp...)
	one := s.float(1)
	scale := s.scaleByPowerOf2()
	return func(x vec) vec {
		// The argument goes second so that a NaN passes.
		VMINPS(x, s.inReg(highest), x)
		VMAXPS(x, s.inReg(lowest), x)
		n := s.new()
		VMULPS(perLn2, x, n)
		s.round(n)
		VFMADD231PS(high, n, x)
		VFMADD231PS(low, n, x)
		y := s.horner(p, x)
		square := s.new()
		VMULPS(x, x, square)
		VADDPS(one, x, x)
		VFMADD213PS(x, square, y)
		scale(n, y)
		return y
	}
}

func (s isa) round(n vec) {
	if s.wide() {
		VRNDSCALEPS(Imm(roundNearest), n, n)
	} else {
		VROUNDPS(Imm(roundNearest), n, n)
	}
}

// scaleByPowerOf2 returns a function that multiplies y by two to the whole
// number n, |n| < 252, with one rounding even where the result is subnormal.
func (s isa) scaleByPowerOf2() func(n, y vec) {
	if s.wide() {
		return func(n, y vec) { VSCALEFPS(n, y, y) }
	}
	bias := s.bits(127)
	return func(n, y vec) {
		// In two steps, as 2^n itself may be out of range. The first cannot
		// round: y is near one and half of n is well inside the range.
		half := s.new()
		VCVTPS2DQ(n, n)
		VPSRAD(Imm(1), n, half)
		VPSUBD(half, n, n)
		for _, e := range []vec{half, n} {
			VPADDD(bias, e, e)
			VPSLLD(Imm(23), e, e)
			VMULPS(e, y, y)
		}
	}
}

// sigmoid is 1/(1+exp(-x)) in a form that never overflows: with e =
// exp(-|x|), e/(1+e) for negative x and 1/(1+e) otherwise.
func (s isa) sigmoid() func(x vec) vec {
	sign, one, zero := s.bits(0x80000000), s.float(1), s.zero()
	exp := s.exp()
	return func(x vec) vec {
		t := s.new()
		s.or(sign, x, t)
		e := exp(t)
		numerator := s.new()
		VMOVUPS(one, numerator)
		s.choose(lessQ, x, zero, e, numerator)
		VADDPS(one, e, e)
		VDIVPS(e, numerator, numerator)
		return numerator
	}
}

// tanh is a polynomial near zero and 1 - 2/(exp(2|x|)+1), with the sign of
// x, elsewhere.
func (s isa) tanh() func(x vec) vec {
	sign, rest := s.bits(0x80000000), s.bits(0x7fffffff)
	one, two, border := s.float(1), s.float(2), s.float(0.625)
	p := s.floats(coefficients.Tanh...)
	exp := s.exp()
	return func(x vec) vec {
		t := s.new()
		s.and(rest, x, t)
		VADDPS(t, t, t)
		e := exp(t)
		VADDPS(one, e, e)
		q := s.new()
		VDIVPS(e, s.inReg(two), q)
		y := s.new()
		VSUBPS(q, s.inReg(one), y)
		square := s.new()
		VMULPS(x, x, square)
		small := s.horner(p, square)
		VMULPS(square, small, small)
		VFMADD213PS(x, x, small)
		magnitude := s.new()
		s.and(rest, x, magnitude)
		s.choose(lessQ, magnitude, border, small, y)
		// This gives the sign to large values, and back to -0.
		s.and(sign, x, x)
		s.or(x, y, y)
		return y
	}
}

// log splits x into 2^e·(1+f) with 1+f near one.
func (s isa) log() func(x vec) vec {
	smallest, scale := s.float(0x1p-126), s.float(0x1p23)
	rootHalf := s.bits(0x3f3504f3)
	rescaled := s.float(-23)
	one, half := s.float(1), s.float(-0.5)
	high, low := s.float(coefficients.Ln2High), s.float(coefficients.Ln2Low)
	p := s.floats(coefficients.Log...)
	zero := s.zero()
	inf, minusInf, nan := s.bits(0x7f800000), s.bits(0xff800000), s.bits(0x7fc00000)
	return func(x vec) vec {
		// Subnormal numbers have no exponent of their own to read.
		m, offset := s.new(), s.zero()
		VMOVAPS(x, m)
		t := s.new()
		VMULPS(scale, x, t)
		s.choose(lessQ, x, smallest, t, m)
		s.choose(lessQ, x, smallest, s.inReg(rescaled), offset)

		e := s.new()
		VPSUBD(rootHalf, m, e)
		VPSRAD(Imm(23), e, e)
		VPSLLD(Imm(23), e, t)
		VPSUBD(t, m, m)
		VCVTDQ2PS(e, e)
		VADDPS(offset, e, e)

		f := m
		VSUBPS(one, f, f)
		y := s.horner(p, f)
		VMULPS(f, y, y)
		square := s.new()
		VMULPS(f, f, square)
		VMULPS(square, y, y)
		VFMADD231PS(low, e, y)
		VFMADD231PS(half, square, y)
		VADDPS(f, y, y)
		VFMADD231PS(high, e, y)

		s.choose(equalQ, x, zero, s.inReg(minusInf), y)
		s.choose(lessQ, x, zero, s.inReg(nan), y)
		s.choose(equalQ, x, inf, x, y)
		s.choose(unorderedQ, x, x, x, y)
		return y
	}
}

func (s isa) erf() func(x vec) vec {
	sign, rest := s.bits(0x80000000), s.bits(0x7fffffff)
	one := s.float(1)
	whole := s.floatsInMemory(coefficients.ErfWhole)[0]
	small, large := s.floatsInMemory(coefficients.ErfSmall...), s.floatsInMemory(coefficients.ErfLarge...)
	exp := s.exp()
	return func(x vec) vec {
		m := s.new()
		s.and(rest, x, m)
		limit := s.new()
		VMOVUPS(whole, limit)
		VMINPS(m, limit, m) // the argument goes second so that a NaN passes
		square := s.new()
		VMULPS(m, m, square)
		t := s.new()
		VDIVPS(m, s.inReg(one), t)
		y := s.horner(large, t)
		e := s.new()
		s.or(sign, square, e)
		e = exp(e)
		VFNMADD213PS(one, e, y)
		near := s.horner(small, square)
		VFMADD213PS(m, m, near)
		s.choose(lessQ, m, one, near, y)
		s.and(sign, x, x)
		s.or(x, y, y)
		return y
	}
}

// expSum writes exp(a - shift), and returns the sum.
func expSum(s isa) {
	s.text("expSum", "func(dst, a []float32, shift float32) float32")
	ptrs := slices("dst", "a")
	n := length("dst")
	shift := s.scalar("shift")
	acc := accumulators(s, mathUnroll, s.zero())
	lowest := s.bits(0xff800000)
	exp := s.exp()
	s.loop(n, mathUnroll, ptrs, func(l lanes) {
		var x vec
		if l.tail {
			x = l.loadOr(1, s.inReg(lowest)) // whose exponential is zero
		} else {
			x = l.load(1)
		}
		VSUBPS(shift, x, x)
		y := exp(x)
		VADDPS(y, acc[l.slot], acc[l.slot])
		l.store(0, y)
	})
	add := s.lift(func(y, x, dst Op) { VADDPS(y, x, dst) })
	Store(s.fold(acc, add).AsX(), ReturnIndex(0))
	end()
}

func mathematics(s isa) {
	unary(s, "exp", mathUnroll, s.exp)
	unary(s, "log", mathUnroll, s.log)
	unary(s, "tanh", mathUnroll, s.tanh)
	unary(s, "sigmoid", mathUnroll, s.sigmoid)
	expSum(s)
	unary(s, "erf", mathUnroll, s.erf)
}
