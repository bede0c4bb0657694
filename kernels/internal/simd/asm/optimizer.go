package main

import . "github.com/mmcloughlin/avo/build"

const optimizerUnroll = 2

// optimizers writes the updates of variables, each one pass over the variable and its slots.
func optimizers(s isa) {
	adam(s)
	momentum(s)
	rmsProp(s)
	adagrad(s)
	ftrl(s)
}

// adam writes Adam's update. rest1 and rest2 are 1-beta1 and 1-beta2.
func adam(s isa) {
	for _, nesterov := range []bool{false, true} {
		name := "adam"
		if nesterov {
			name = "adamNesterov"
		}
		s.text(name, "func(v, m, vv, grad []float32, rate, beta1, rest1, rest2, eps float32)")
		restore := flushSubnormals()
		ptrs := slices("v", "m", "vv", "grad")
		n := length("v")
		rate, eps := s.scalar("rate"), s.scalar("eps")
		rest1, rest2 := s.scalar("rest1"), s.scalar("rest2")
		var beta1 vec
		if nesterov {
			beta1 = s.scalar("beta1")
		}
		s.loop(n, optimizerUnroll, ptrs, func(l lanes) {
			v, m, vv, grad := l.load(0), l.load(1), l.load(2), l.load(3)
			t := s.new()
			VSUBPS(m, grad, t)
			VFMADD231PS(t, rest1, m)
			l.store(1, m)
			VMOVAPS(grad, t)
			VFMSUB213PS(vv, grad, t)
			VFMADD231PS(t, rest2, vv)
			l.store(2, vv)
			if nesterov {
				VMULPS(beta1, m, m)
				VFMADD231PS(rest1, grad, m)
			}
			VMULPS(rate, m, m)
			VSQRTPS(vv, vv)
			VADDPS(eps, vv, vv)
			VDIVPS(vv, m, m)
			VSUBPS(m, v, v)
			l.store(0, v)
		})
		restore()
		end()
	}
}

// momentum writes the update of an accumulator of gradients, which moves the variable: with Nesterov's
// look ahead by what it will be after the next such gradient.
func momentum(s isa) {
	for _, nesterov := range []bool{false, true} {
		name := "momentum"
		if nesterov {
			name = "momentumNesterov"
		}
		s.text(name, "func(v, accum, grad []float32, rate, keep float32)")
		restore := flushSubnormals()
		ptrs := slices("v", "accum", "grad")
		n := length("v")
		rate, keep := s.scalar("rate"), s.scalar("keep")
		s.loop(n, optimizerUnroll, ptrs, func(l lanes) {
			v, accum, grad := l.load(0), l.load(1), l.load(2)
			VFMADD213PS(grad, keep, accum)
			l.store(1, accum)
			if nesterov {
				VFMADD213PS(grad, keep, accum)
			}
			VFNMADD231PS(accum, rate, v)
			l.store(0, v)
		})
		restore()
		end()
	}
}

// rmsProp writes the update by the mean of squares; centered takes the square of the mean off it.
// rest is one less the decay.
func rmsProp(s isa) {
	for _, centered := range []bool{false, true} {
		name, parameters := "rmsProp", "v, ms, mom, grad"
		if centered {
			name, parameters = "rmsPropCentered", "v, ms, mom, grad, mg"
		}
		s.text(name, "func("+parameters+" []float32, rate, rest, keep, eps float32)")
		restore := flushSubnormals()
		ptrs := slices("v", "ms", "mom", "grad")
		if centered {
			ptrs = append(ptrs, slices("mg")...)
		}
		n := length("v")
		rate, rest, keep, eps := s.scalar("rate"), s.scalar("rest"), s.scalar("keep"), s.scalar("eps")
		s.loop(n, optimizerUnroll, ptrs, func(l lanes) {
			ms, grad := l.load(1), l.load(3)
			t := s.new()
			VMOVAPS(grad, t)
			VFMSUB213PS(ms, grad, t)
			VFMADD231PS(t, rest, ms)
			l.store(1, ms)
			if centered {
				mg := l.load(4)
				VSUBPS(mg, grad, t)
				VFMADD231PS(t, rest, mg)
				l.store(4, mg)
				VFNMADD231PS(mg, mg, ms)
			}
			VADDPS(eps, ms, ms)
			VSQRTPS(ms, ms)
			VMULPS(rate, grad, grad)
			VDIVPS(ms, grad, grad)
			v, mom := l.load(0), l.load(2)
			VFMADD213PS(grad, keep, mom)
			l.store(2, mom)
			VSUBPS(mom, v, v)
			l.store(0, v)
		})
		restore()
		end()
	}
}

// adagrad writes the update by the root of the sum of squares.
func adagrad(s isa) {
	s.text("adagrad", "func(v, accum, grad []float32, rate, eps float32)")
	restore := flushSubnormals()
	ptrs := slices("v", "accum", "grad")
	n := length("v")
	rate, eps := s.scalar("rate"), s.scalar("eps")
	s.loop(n, optimizerUnroll, ptrs, func(l lanes) {
		v, accum, grad := l.load(0), l.load(1), l.load(2)
		VFMADD231PS(grad, grad, accum)
		l.store(1, accum)
		VMULPS(rate, grad, grad)
		VSQRTPS(accum, accum)
		VADDPS(eps, accum, accum)
		VDIVPS(accum, grad, grad)
		VSUBPS(grad, v, v)
		l.store(0, v)
	})
	restore()
	end()
}

// ftrl writes the step of follow-the-regularized-leader with a learning rate that falls by the root
// of the sum of squares:
//
//	sigma = (sqrt(accum + grad²) - sqrt(accum)) * perRate
//	linear += (grad + shrink*v)*rate - sigma*v
//	v = (sign(linear)*bound - linear) / (sqrt(accum + grad²)*perRate + ridge) where |linear| > bound, else 0
func ftrl(s isa) {
	s.text("ftrl", "func(v, accum, linear, grad []float32, rate, perRate, bound, ridge, shrink float32)")
	restore := flushSubnormals()
	ptrs := slices("v", "accum", "linear", "grad")
	n := length("v")
	rate, perRate, bound := s.scalar("rate"), s.scalar("perRate"), s.scalar("bound")
	ridge, shrink := s.scalar("ridge"), s.scalar("shrink")
	sign, rest := s.bits(0x80000000), s.bits(0x7fffffff)
	s.loop(n, optimizerUnroll, ptrs, func(l lanes) {
		v, accum, linear, grad := l.load(0), l.load(1), l.load(2), l.load(3)
		root := s.new()
		VSQRTPS(accum, root)
		VFMADD231PS(grad, grad, accum)
		l.store(1, accum)
		VSQRTPS(accum, accum)
		VSUBPS(root, accum, root)
		VMULPS(perRate, root, root) // sigma
		VFMADD231PS(v, shrink, grad)
		VFMADD231PS(grad, rate, linear)
		VFNMADD231PS(root, v, linear)
		l.store(2, linear)
		VMULPS(perRate, accum, accum)
		VADDPS(ridge, accum, accum)
		s.and(sign, linear, root)
		s.or(bound, root, root)
		VSUBPS(linear, root, root)
		VDIVPS(accum, root, root)
		s.and(rest, linear, v)
		l.store(0, s.keep(greaterQ, v, bound, root))
	})
	restore()
	end()
}
