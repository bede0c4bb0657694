package main

func reductions(g *generator) {
	sums := func(n int) []int {
		acc := make([]int, n)
		for i := range acc {
			acc[i] = g.take()
			g.emit("VEOR V%d.B16, V%d.B16, V%d.B16", acc[i], acc[i], acc[i])
		}
		return acc
	}
	finish := func(acc []int) {
		g.fadd(several{acc[0]}, several{acc[0]}, several{acc[1]})
		g.sumOfLanes(acc[0])
		g.endWith(acc[0])
	}
	g.begin("sum", []string{"a"}, nil, true)
	acc := sums(2)
	g.loop(func(t turn) {
		sum := several(acc[:t.vectors])
		t.fadd(sum, sum, t.load(0))
	})
	finish(acc)

	g.begin("dot", []string{"a", "b"}, nil, true)
	g.flushSubnormals()
	acc = sums(2)
	g.loop(func(t turn) { t.fmla(several(acc[:t.vectors]), t.load(0), t.load(1)) })
	finish(acc)

	// Numbers are taken one by one at the end, with zeros beside them, which may be greater than all: they are taken out.
	g.begin("maxOf", []string{"a"}, nil, true)
	lowest := g.bits(0xff800000)
	first := g.fix()
	g.emit("MOVW $0xffffffff, %s", spare)
	g.emit("FMOVS %s, F%d", spare, first)
	top := []int{g.take(), g.take()}
	g.copy(several(top), several{lowest, lowest})
	g.loop(func(t turn) {
		x := t.load(0)
		if t.single {
			t.unless(x, t.each(lowest), t.each(first))
		}
		greatest := several(top[:t.vectors])
		t.fmax(greatest, greatest, x)
	})
	g.fmax(several{top[0]}, several{top[0]}, several{top[1]})
	g.two("FMAXV", 0x6e30f800, top[0], top[0])
	g.endWith(top[0])

	g.begin("axpy", []string{"y", "x"}, []string{"alpha"}, false)
	g.flushSubnormals()
	alpha := g.scalar(0)
	g.loop(func(t turn) {
		y := t.load(0)
		t.fmla(y, t.load(1), t.each(alpha))
		t.store(0, y)
	})
	g.end()
}

// rows writes the passes of batch normalization over one row.
func rows(g *generator) {
	g.begin("normalizeRow", []string{"dst", "x", "mean", "factor", "offset"}, nil, false)
	g.loop(func(t turn) {
		x, offset := t.load(1), t.load(4)
		t.fsub(x, x, t.load(2))
		t.fmla(offset, x, t.load(3))
		t.store(0, offset)
	})
	g.end()

	g.begin("addSquaresRow", []string{"sum", "x", "mean"}, nil, false)
	g.loop(func(t turn) {
		sum, x := t.load(0), t.load(1)
		t.fsub(x, x, t.load(2))
		t.fmla(sum, x, x)
		t.store(0, sum)
	})
	g.end()

	g.begin("addProductsRow", []string{"sum", "products", "grad", "x", "mean"}, nil, false)
	g.loop(func(t turn) {
		sum, products, grad, x := t.load(0), t.load(1), t.load(2), t.load(3)
		t.fsub(x, x, t.load(4))
		t.fmla(products, grad, x)
		t.fadd(sum, sum, grad)
		t.store(0, sum)
		t.store(1, products)
	})
	g.end()

	g.begin("normalizeGradRow", []string{"dst", "grad", "x", "mean", "ofGrad", "ofX", "offset"}, nil, false)
	g.loop(func(t turn) {
		x, sum := t.load(2), t.load(6)
		t.fsub(x, x, t.load(3))
		t.fmla(sum, t.load(1), t.load(4))
		t.fmla(sum, x, t.load(5))
		t.store(0, sum)
	})
	g.end()
}

// optimizers writes the updates of variables. See asm for ftrl's, which is portable here.
func optimizers(g *generator) {
	for _, nesterov := range []bool{false, true} {
		name := "adam"
		if nesterov {
			name = "adamNesterov"
		}
		g.begin(name, []string{"v", "m", "vv", "grad"}, []string{"rate", "beta1", "rest1", "rest2", "eps"}, false)
		g.flushSubnormals()
		rate, beta1, rest1, rest2, eps := g.scalar(0), g.scalar(1), g.scalar(2), g.scalar(3), g.scalar(4)
		g.loop(func(t turn) {
			v, m, vv, grad, s := t.load(0), t.load(1), t.load(2), t.load(3), t.new()
			t.fsub(s, grad, m)
			t.fmla(m, s, t.each(rest1))
			t.store(1, m)
			t.fmul(s, grad, grad)
			t.fsub(s, s, vv)
			t.fmla(vv, s, t.each(rest2))
			t.store(2, vv)
			if nesterov {
				t.fmul(m, m, t.each(beta1))
				t.fmla(m, grad, t.each(rest1))
			}
			t.fmul(m, m, t.each(rate))
			t.fsqrt(vv, vv)
			t.fadd(vv, vv, t.each(eps))
			t.fdiv(m, m, vv)
			t.fsub(v, v, m)
			t.store(0, v)
		})
		g.end()
	}
	for _, nesterov := range []bool{false, true} {
		name := "momentum"
		if nesterov {
			name = "momentumNesterov"
		}
		g.begin(name, []string{"v", "accum", "grad"}, []string{"rate", "keep"}, false)
		g.flushSubnormals()
		rate, keep := g.scalar(0), g.scalar(1)
		g.loop(func(t turn) {
			v, accum, grad := t.load(0), t.load(1), t.load(2)
			t.fmul(accum, accum, t.each(keep))
			t.fadd(accum, accum, grad)
			t.store(1, accum)
			if nesterov {
				t.fmul(accum, accum, t.each(keep))
				t.fadd(accum, accum, grad)
			}
			t.fmls(v, accum, t.each(rate))
			t.store(0, v)
		})
		g.end()
	}
	for _, centered := range []bool{false, true} {
		name, slots := "rmsProp", []string{"v", "ms", "mom", "grad"}
		if centered {
			name, slots = "rmsPropCentered", append(slots, "mg")
		}
		g.begin(name, slots, []string{"rate", "rest", "keep", "eps"}, false)
		g.flushSubnormals()
		rate, rest, keep, eps := g.scalar(0), g.scalar(1), g.scalar(2), g.scalar(3)
		g.loop(func(t turn) {
			v, ms, mom, grad, s := t.load(0), t.load(1), t.load(2), t.load(3), t.new()
			t.fmul(s, grad, grad)
			t.fsub(s, s, ms)
			t.fmla(ms, s, t.each(rest))
			t.store(1, ms)
			if centered {
				mg := t.load(4)
				t.fsub(s, grad, mg)
				t.fmla(mg, s, t.each(rest))
				t.store(4, mg)
				t.fmls(ms, mg, mg)
			}
			t.fadd(ms, ms, t.each(eps))
			t.fsqrt(ms, ms)
			t.fmul(grad, grad, t.each(rate))
			t.fdiv(grad, grad, ms)
			t.fmul(mom, mom, t.each(keep))
			t.fadd(mom, mom, grad)
			t.store(2, mom)
			t.fsub(v, v, mom)
			t.store(0, v)
		})
		g.end()
	}
	g.begin("adagrad", []string{"v", "accum", "grad"}, []string{"rate", "eps"}, false)
	g.flushSubnormals()
	rate, eps := g.scalar(0), g.scalar(1)
	g.loop(func(t turn) {
		v, accum, grad := t.load(0), t.load(1), t.load(2)
		t.fmla(accum, grad, grad)
		t.store(1, accum)
		t.fmul(grad, grad, t.each(rate))
		t.fsqrt(accum, accum)
		t.fadd(accum, accum, t.each(eps))
		t.fdiv(grad, grad, accum)
		t.fsub(v, v, grad)
		t.store(0, v)
	})
	g.end()
}
