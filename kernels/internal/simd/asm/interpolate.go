package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// interpolations writes Mix, and Interpolation's Row.
func interpolations(s isa) {
	s.text("mix", "func(dst, a, b []float32, part float32)")
	ptrs := slices("dst", "a", "b")
	n, part := length("dst"), s.scalar("part")
	s.loop(n, elementwiseUnroll, ptrs, func(l lanes) { l.store(0, s.between(l.load(1), l.load(2), part)) })
	end()

	s.text("mixAt", "func(dst, part []float32, src *float32, left, right *int32)")
	ptrs = append(slices("dst", "part"), arg("left"), arg("right"))
	src := arg("src")
	n = length("dst")
	gather := s.gatherer(src)
	s.loop(n, 2, ptrs, func(l lanes) {
		l.store(0, s.between(gather(l, 2), gather(l, 3), l.load(1)))
	})
	end()
}

// between is part of the way from a to b. No product is fused with its sum: all levels and TensorFlow give the same.
func (s isa) between(a, b, part vec) vec {
	r := s.new()
	VSUBPS(a, b, r)
	VMULPS(part, r, r)
	VADDPS(r, a, r)
	return r
}

// gatherer returns what loads the numbers of src at the indices of a stream.
func (s isa) gatherer(src reg.GPVirtual) func(l lanes, stream int) vec {
	if s.wide() {
		all, ones := K(), GP64()
		MOVQ(U32(0xffff), ones)
		KMOVW(ones.As32(), all)
		return func(l lanes, stream int) vec {
			mask, r := K(), s.zero()
			if l.tail {
				KMOVW(l.k, mask)
			} else {
				KMOVW(all, mask)
			}
			VGATHERDPS(Mem{Base: src, Index: l.load(stream), Scale: 4}, mask, r)
			return r
		}
	}
	eight := GP64()
	MOVQ(U32(8), eight)
	all := laneMask(eight)
	return func(l lanes, stream int) vec {
		mask, r := s.new(), s.zero()
		if l.tail {
			VMOVAPS(l.y, mask)
		} else {
			VMOVAPS(all, mask)
		}
		VGATHERDPS(mask, Mem{Base: src, Index: l.load(stream), Scale: 4}, r)
		return r
	}
}
