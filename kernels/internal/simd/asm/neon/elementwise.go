package main

func elementwise(g *generator) {
	arithmetic := []struct {
		name string
		do   func(d, n, m several)
	}{{"add", g.fadd}, {"sub", g.fsub}, {"mul", g.fmul}, {"div", g.fdiv}}
	for _, f := range arithmetic {
		g.binary(f.name, func(t turn, a, b several) several {
			f.do(a, a, b)
			return a
		})
	}
	for _, f := range arithmetic {
		g.withScalar(f.name+"Scalar", func(_ turn, a, s several) { f.do(a, a, s) })
	}
	g.withScalar("rsubScalar", func(_ turn, a, s several) { g.fsub(a, s, a) })
	g.withScalar("rdivScalar", func(_ turn, a, s several) { g.fdiv(a, s, a) })

	// The processor's own maximum takes -0 for less than 0: see Max.
	g.binary("max", func(t turn, a, b several) several { return t.extreme(a, b, a, b) })
	g.binary("min", func(t turn, a, b several) several { return t.extreme(a, b, b, a) })
	g.begin("reluGrad", []string{"dst", "grad", "features"}, nil, false)
	one := g.float(1)
	g.loop(func(t turn) {
		grad, open := t.load(1), t.load(2)
		t.positive(open, open)
		t.and(open, open, t.each(one))
		t.fmul(grad, grad, open)
		t.store(0, grad)
	})
	g.end()

	g.unary("neg", func(_ turn, x several) { g.fneg(x, x) })
	g.unary("abs", func(_ turn, x several) { g.fabs(x, x) })
	g.unary("square", func(_ turn, x several) { g.fmul(x, x, x) })
	g.unary("sqrt", func(_ turn, x several) { g.fsqrt(x, x) })
	g.unary("relu", func(t turn, x several) {
		shut := t.new()
		t.notPositive(shut, x)
		t.andNot(x, x, shut)
	})
	g.begin("rsqrt", []string{"dst", "a"}, nil, false)
	one = g.float(1)
	g.loop(func(t turn) {
		x := t.load(1)
		t.fsqrt(x, x)
		t.fdiv(x, t.each(one), x)
		t.store(0, x)
	})
	g.end()

	g.begin("mix", []string{"dst", "a", "b"}, []string{"part"}, false)
	part := g.scalar(0)
	g.loop(func(t turn) {
		a, b := t.load(1), t.load(2)
		t.fsub(b, b, a)
		t.fmul(b, b, t.each(part))
		t.fadd(a, a, b)
		t.store(0, a)
	})
	g.end()
}

// extreme is a where greater > less or a is NaN, else b.
func (t turn) extreme(a, b, greater, less several) several {
	first, number := t.new(), t.new()
	t.greater(first, greater, less)
	t.equal(number, a, a)
	t.orNot(first, first, number)
	t.choose(b, a, first)
	return b
}

func (g *generator) binary(name string, body func(t turn, a, b several) several) {
	g.begin(name, []string{"dst", "a", "b"}, nil, false)
	g.loop(func(t turn) { t.store(0, body(t, t.load(1), t.load(2))) })
	g.end()
}

func (g *generator) withScalar(name string, body func(t turn, a, s several)) {
	g.begin(name, []string{"dst", "a"}, []string{"s"}, false)
	s := g.scalar(0)
	g.loop(func(t turn) {
		a := t.load(1)
		body(t, a, t.each(s))
		t.store(0, a)
	})
	g.end()
}

func (g *generator) unary(name string, body func(t turn, x several)) {
	g.begin(name, []string{"dst", "a"}, nil, false)
	g.loop(func(t turn) {
		x := t.load(1)
		body(t, x)
		t.store(0, x)
	})
	g.end()
}
