package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

const mathUnroll = 2

// ln2 in two parts, the first of which has so few bits that its product with
// an exponent is exact.
const (
	ln2High = 0.693359375
	ln2Low  = -2.12194440e-4
)

// Bounds of exp's argument, just outside those beyond which the result is
// infinite or zero; between them the exponent arithmetic cannot overflow.
const (
	expHighest = 89
	expLowest  = -104
)

// expPolynomial is p in exp(r) = 1 + r + r²·p(r), |r| <= ln(2)/2, highest
// power first (the coefficients are those of Cephes' expf).
var expPolynomial = []float64{
	1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5,
}

// logPolynomial is p in log(1+f) = f - f²/2 + f³·p(f), for 1+f between the
// square roots of a half and of two (Cephes' logf).
var logPolynomial = []float64{
	7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
	-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
}

// tanhPolynomial is p in tanh(x) = x + x³·p(x²), |x| < 0.625 (Cephes' tanhf).
var tanhPolynomial = []float64{
	-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1,
}

// horner returns the polynomial at x, coefficients from the highest power.
func (s isa) horner(coefficients []Op, x vec) vec {
	y := s.new()
	VMOVUPS(coefficients[0], y)
	for _, c := range coefficients[1:] {
		VFMADD213PS(c, x, y)
	}
	return y
}

// exp returns a function that computes exp(x) and overwrites x.
func (s isa) exp() func(x vec) vec {
	highest, lowest := s.float(expHighest), s.float(expLowest)
	perLn2 := s.float(1.44269504088896341)
	high, low := s.float(-ln2High), s.float(-ln2Low)
	p := s.floats(expPolynomial...)
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
	p := s.floats(tanhPolynomial...)
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
	high, low := s.float(ln2High), s.float(ln2Low)
	p := s.floats(logPolynomial...)
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

// erfSmall is p in erf(x) = x + x·p(x²), |x| < 1, and erfLarge q in erf(x) = 1 - exp(-x²)·q(1/x), 1 <= x <= 4: minimax
// polynomials of the exact functions, with errors of 3.4e-11 and 5.5e-8.
var (
	erfSmall = []float64{
		-9.667044571486996e-06, 0.00011265959025606609, -0.0008484080405535107, 0.005221031807858023,
		-0.026865430727670243, 0.11283782495236845, -0.3761263846802871, 0.1283791670615435,
	}
	erfLarge = []float64{
		-0.019605029369706144, 0.12847945060292618, -0.36856255862597054, 0.5898971730107935,
		-0.5138991224025817, 0.05359949362280515, 0.5572926350496831, 0.00038153229441997627,
	}
)

// erf is 1 to the last bit of a float32 from erfWhole on.
const erfWhole = 4

func (s isa) erf() func(x vec) vec {
	sign, rest := s.bits(0x80000000), s.bits(0x7fffffff)
	one := s.float(1)
	whole := s.floatsInMemory(erfWhole)[0]
	small, large := s.floatsInMemory(erfSmall...), s.floatsInMemory(erfLarge...)
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
