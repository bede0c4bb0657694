package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

const elementwiseUnroll = 4

// binary writes dst = op(a, b) over slices.
func binary(s isa, name string, op func(a vec, b Op) vec) {
	s.text(name, "func(dst, a, b []float32)")
	ptrs := slices("dst", "a", "b")
	s.loop(length("dst"), elementwiseUnroll, ptrs, func(l lanes) {
		l.store(0, op(l.load(1), l.load(2)))
	})
	end()
}

// withScalar writes dst = op(a, s) over a slice and a number.
func withScalar(s isa, name string, op func(a, b vec) vec) {
	s.text(name, "func(dst, a []float32, s float32)")
	ptrs := slices("dst", "a")
	c := s.scalar("s")
	s.loop(length("dst"), elementwiseUnroll, ptrs, func(l lanes) {
		l.store(0, op(l.load(1), c))
	})
	end()
}

// unary writes dst = f(a) over a slice. prepare puts constants in registers
// before the loop and returns the loop's function.
func unary(s isa, name string, unroll int, prepare func() func(x vec) vec) {
	s.text(name, "func(dst, a []float32)")
	ptrs := slices("dst", "a")
	n := length("dst")
	f := prepare()
	s.loop(n, unroll, ptrs, func(l lanes) { l.store(0, f(l.load(1))) })
	end()
}

// lift makes an operation of an instruction with avo's operand order (y, x,
// dst), which is dst = x op y.
func (s isa) lift(instruction func(y, x, dst Op)) func(x vec, y Op) vec {
	return func(x vec, y Op) vec {
		r := s.new()
		instruction(y, x, r)
		return r
	}
}

// extreme is VMAXPS or VMINPS made to propagate NaN. The instruction itself
// returns its second source when either is NaN or both are zero, which is
// right unless the first is the NaN.
func (s isa) extreme(instruction func(y, x, dst Op)) func(x vec, y Op) vec {
	return func(x vec, y Op) vec {
		r := s.new()
		instruction(y, x, r)
		s.choose(unorderedQ, x, x, x, r)
		return r
	}
}

func reversed(op func(x vec, y Op) vec) func(x, y vec) vec {
	return func(x, y vec) vec { return op(y, x) }
}

func ofVectors(op func(x vec, y Op) vec) func(x, y vec) vec {
	return func(x, y vec) vec { return op(x, y) }
}

func elementwise(s isa) {
	add := s.lift(func(y, x, dst Op) { VADDPS(y, x, dst) })
	sub := s.lift(func(y, x, dst Op) { VSUBPS(y, x, dst) })
	mul := s.lift(func(y, x, dst Op) { VMULPS(y, x, dst) })
	div := s.lift(func(y, x, dst Op) { VDIVPS(y, x, dst) })

	binary(s, "add", add)
	binary(s, "sub", sub)
	binary(s, "mul", mul)
	binary(s, "div", div)
	binary(s, "max", s.extreme(func(y, x, dst Op) { VMAXPS(y, x, dst) }))
	binary(s, "min", s.extreme(func(y, x, dst Op) { VMINPS(y, x, dst) }))
	withScalar(s, "addScalar", ofVectors(add))
	withScalar(s, "subScalar", ofVectors(sub))
	withScalar(s, "rsubScalar", reversed(sub))
	withScalar(s, "mulScalar", ofVectors(mul))
	withScalar(s, "divScalar", ofVectors(div))
	withScalar(s, "rdivScalar", reversed(div))

	unary(s, "neg", elementwiseUnroll, func() func(vec) vec {
		sign := s.bits(0x80000000)
		return func(x vec) vec { s.xor(sign, x, x); return x }
	})
	unary(s, "abs", elementwiseUnroll, func() func(vec) vec {
		rest := s.bits(0x7fffffff)
		return func(x vec) vec { s.and(rest, x, x); return x }
	})
	unary(s, "square", elementwiseUnroll, func() func(vec) vec {
		return func(x vec) vec { VMULPS(x, x, x); return x }
	})
	unary(s, "sqrt", elementwiseUnroll, func() func(vec) vec {
		return func(x vec) vec { VSQRTPS(x, x); return x }
	})
	unary(s, "rsqrt", elementwiseUnroll, func() func(vec) vec {
		one := s.inReg(s.float(1))
		return func(x vec) vec { VSQRTPS(x, x); VDIVPS(x, one, x); return x }
	})
	unary(s, "relu", elementwiseUnroll, func() func(vec) vec {
		zero := s.zero()
		return func(x vec) vec { return s.keep(notLessEqQ, x, zero, x) }
	})
	reluGrad(s)
}

// reluGrad multiplies by one or zero instead of selecting, because that is
// what TensorFlow does: an infinite gradient at a closed gate gives NaN.
func reluGrad(s isa) {
	s.text("reluGrad", "func(dst, grad, features []float32)")
	ptrs := slices("dst", "grad", "features")
	n := length("dst")
	zero, one := s.zero(), s.inReg(s.float(1))
	s.loop(n, elementwiseUnroll, ptrs, func(l lanes) {
		open := s.keep(greaterQ, l.load(2), zero, one)
		VMULPS(open, l.load(1), open)
		l.store(0, open)
	})
	end()
}
