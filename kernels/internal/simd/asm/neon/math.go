package main

import . "github.com/troupe-run/troupe/kernels/internal/simd/asm/coefficients"

// exp prepares a function that gives exp(x) and overwrites x. See asm for the method of each function.
func (g *generator) exp() func(t turn, x several) several {
	highest, lowest := g.float(ExpHighest), g.float(ExpLowest)
	perLn2, high, low := g.float(1.44269504088896341), g.float(Ln2High), g.float(Ln2Low)
	one, bias := g.float(1), g.bits(127)
	return func(t turn, x several) several {
		t.fmin(x, x, t.each(highest))
		t.fmax(x, x, t.each(lowest))
		n := t.new()
		t.fmul(n, x, t.each(perLn2))
		t.round(n, n)
		t.fmls(x, n, t.each(high))
		t.fmls(x, n, t.each(low))
		y := t.polynomial("exp", Exp, x)
		square := t.new()
		t.fmul(square, x, x)
		t.fadd(x, x, t.each(one))
		t.fmla(x, y, square)
		// By the power of two in two steps, as that may be out of range. The first cannot round: x is near one.
		half := y
		t.toInt(n, n)
		t.shiftRight(half, n, 1)
		t.sub(n, n, half)
		for _, e := range []several{half, n} {
			t.add(e, e, t.each(bias))
			t.shiftLeft(e, e, 23)
			t.fmul(x, x, e)
		}
		return x
	}
}

func mathematics(g *generator) {
	function := func(name string, prepare func() func(t turn, x several) several) {
		g.begin(name, []string{"dst", "a"}, nil, false)
		f := prepare()
		g.loop(func(t turn) { t.store(0, f(t, t.load(1))) })
		g.end()
	}
	function("exp", g.exp)
	function("log", g.log)
	function("tanh", g.tanh)
	function("sigmoid", g.sigmoid)
	function("erf", g.erf)

	g.begin("expSum", []string{"dst", "a"}, []string{"shift"}, true)
	shift := g.scalar(0)
	exp := g.exp()
	first := g.fix()
	g.emit("MOVW $0xffffffff, %s", spare)
	g.emit("FMOVS %s, F%d", spare, first)
	sums := []int{g.take(), g.take()}
	for _, s := range sums {
		g.emit("VEOR V%d.B16, V%d.B16, V%d.B16", s, s, s)
	}
	g.loop(func(t turn) {
		x := t.load(1)
		t.fsub(x, x, t.each(shift))
		y := exp(t, x)
		t.store(0, y)
		if t.single {
			t.and(y, y, t.each(first)) // what is beside the number is not of the slice
		}
		sum := several(sums[:t.vectors])
		t.fadd(sum, sum, y)
	})
	g.fadd(several{sums[0]}, several{sums[0]}, several{sums[1]})
	g.sumOfLanes(sums[0])
	g.endWith(sums[0])
}

func (g *generator) sigmoid() func(t turn, x several) several {
	sign, one := g.bits(0x80000000), g.float(1)
	exp := g.exp()
	return func(t turn, x several) several {
		below := t.new()
		t.negative(below, x)
		t.or(x, x, t.each(sign))
		e := exp(t, x)
		numerator := t.new()
		t.copy(numerator, t.each(one))
		t.choose(numerator, e, below)
		t.fadd(e, e, t.each(one))
		t.fdiv(e, numerator, e)
		return e
	}
}

func (g *generator) tanh() func(t turn, x several) several {
	sign, one, two, border := g.bits(0x80000000), g.float(1), g.float(2), g.float(0.625)
	exp := g.exp()
	return func(t turn, x several) several {
		e := t.new()
		t.fabs(e, x)
		t.fadd(e, e, e)
		y := exp(t, e)
		t.fadd(y, y, t.each(one))
		t.fdiv(y, t.each(two), y)
		t.fsub(y, t.each(one), y)
		square := t.new()
		t.fmul(square, x, x)
		small := t.polynomial("tanh", Tanh, square)
		t.fmul(small, small, square)
		t.fmul(small, small, x)
		t.fadd(small, small, x)
		t.fabs(square, x)
		t.greater(square, t.each(border), square)
		t.choose(y, small, square)
		// This gives the sign to large values, and back to -0.
		t.and(x, x, t.each(sign))
		t.or(y, y, x)
		return y
	}
}

func (g *generator) log() func(t turn, x several) several {
	smallest, scale, rescaled := g.float(0x1p-126), g.float(0x1p23), g.float(-23)
	rootHalf, one, half := g.bits(0x3f3504f3), g.float(1), g.float(0.5)
	high, low := g.float(Ln2High), g.float(Ln2Low)
	inf, minusInf, nan := g.bits(0x7f800000), g.bits(0xff800000), g.bits(0x7fc00000)
	return func(t turn, x several) several {
		// Subnormal numbers have no exponent of their own to read.
		m, offset, s := t.new(), t.new(), t.new()
		t.greater(offset, t.each(smallest), x)
		t.copy(m, x)
		t.fmul(s, x, t.each(scale))
		t.choose(m, s, offset)
		t.and(offset, offset, t.each(rescaled))

		e := t.new()
		t.sub(e, m, t.each(rootHalf))
		t.shiftRight(e, e, 23)
		t.shiftLeft(s, e, 23)
		t.sub(m, m, s)
		t.toFloat(e, e)
		t.fadd(e, e, offset)

		f := m
		t.fsub(f, f, t.each(one))
		y := t.polynomial("log", Log, f)
		t.fmul(y, y, f)
		square := s
		t.fmul(square, f, f)
		t.fmul(y, y, square)
		t.fmla(y, e, t.each(low))
		t.fmls(y, square, t.each(half))
		t.fadd(y, y, f)
		t.fmla(y, e, t.each(high))

		is := square
		t.zero(is, x)
		t.choose(y, t.each(minusInf), is)
		t.negative(is, x)
		t.choose(y, t.each(nan), is)
		t.equal(is, x, t.each(inf))
		t.choose(y, x, is)
		t.equal(is, x, x)
		t.unless(y, x, is)
		return y
	}
}

func (g *generator) erf() func(t turn, x several) several {
	sign, one, whole := g.bits(0x80000000), g.float(1), g.float(ErfWhole)
	exp := g.exp()
	return func(t turn, x several) several {
		m, square := t.new(), t.new()
		t.fabs(m, x)
		t.fmin(m, m, t.each(whole))
		t.fmul(square, m, m)
		near := t.polynomial("erfSmall", ErfSmall, square)
		t.fmul(near, near, m)
		t.fadd(near, near, m)
		y := square
		t.fneg(y, square)
		scratch := t.vector
		e := exp(t, y)
		t.vector = scratch
		inverse := t.new()
		t.fdiv(inverse, t.each(one), m)
		q := t.polynomial("erfLarge", ErfLarge, inverse)
		far := inverse
		t.copy(far, t.each(one))
		t.fmls(far, e, q)
		t.greater(m, t.each(one), m)
		t.choose(far, near, m)
		t.and(x, x, t.each(sign))
		t.or(far, far, x)
		return far
	}
}
