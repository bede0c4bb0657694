package main

import . "github.com/mmcloughlin/avo/build"

// optimizers writes Adam's update. rest1 and rest2 are 1-beta1 and 1-beta2.
func optimizers(s isa) {
	for _, nesterov := range []bool{false, true} {
		name := "adam"
		if nesterov {
			name = "adamNesterov"
		}
		s.text(name, "func(v, m, vv, grad []float32, rate, beta1, rest1, rest2, eps float32)")
		ptrs := slices("v", "m", "vv", "grad")
		n := length("v")
		rate, eps := s.scalar("rate"), s.scalar("eps")
		rest1, rest2 := s.scalar("rest1"), s.scalar("rest2")
		var beta1 vec
		if nesterov {
			beta1 = s.scalar("beta1")
		}
		s.loop(n, 2, ptrs, func(l lanes) {
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
		end()
	}
}
