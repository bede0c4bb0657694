package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fold combines accumulators, then the lanes of the last, and leaves the
// result in every lane of the lowest quarter.
func (s isa) fold(acc []vec, op func(x vec, y Op) vec) vec {
	for len(acc) > 1 {
		half := len(acc) / 2
		for i := range half {
			acc[i] = op(acc[i], acc[i+half])
		}
		acc = acc[:half]
	}
	z := acc[0]
	swap := func(shuffle func(t vec)) {
		t := s.new()
		shuffle(t)
		z = op(z, t)
	}
	if s.wide() {
		swap(func(t vec) { VSHUFF32X4(Imm(0x4e), z, z, t) })
		swap(func(t vec) { VSHUFF32X4(Imm(0xb1), z, z, t) })
	} else {
		swap(func(t vec) { VPERM2F128(Imm(0x01), z, z, t) })
	}
	swap(func(t vec) { VSHUFPS(Imm(0x4e), z, z, t) })
	swap(func(t vec) { VSHUFPS(Imm(0xb1), z, z, t) })
	return z
}

func accumulators(s isa, n int, initial vec) []vec {
	acc := make([]vec, n)
	for i := range acc {
		acc[i] = s.new()
		VMOVAPS(initial, acc[i])
	}
	return acc
}

// lowestBits are those of minus infinity.
const lowestBits = 0xff800000

// sumOf adds up n numbers.
func (s isa) sumOf(ptrs []reg.GPVirtual, n reg.GPVirtual) reg.Register {
	acc := accumulators(s, 4, s.zero())
	s.loop(n, 4, ptrs, func(l lanes) {
		VADDPS(l.load(0), acc[l.slot], acc[l.slot])
	})
	return s.fold(acc, s.lift(func(y, x, dst Op) { VADDPS(y, x, dst) })).AsX()
}

// maxOf is the greatest of n numbers.
func (s isa) maxOf(ptrs []reg.GPVirtual, n reg.GPVirtual, lowest vec) reg.Register {
	top := accumulators(s, 4, lowest)
	s.loop(n, 4, ptrs, func(l lanes) {
		// The old maximum goes second, where VMAXPS lets its NaN through;
		// a new NaN is put in by hand.
		x, old := l.loadOr(0, lowest), top[l.slot]
		VMAXPS(old, x, old)
		s.choose(unorderedQ, x, x, x, old)
	})
	return s.fold(top, s.extreme(func(y, x, dst Op) { VMAXPS(y, x, dst) })).AsX()
}

// eachRow writes the reductions of rows that follow each other: a call for each costs as much as a short row.
func (s isa) eachRow(name string, reduction func(ptrs []reg.GPVirtual, n reg.GPVirtual) reg.Register) {
	s.text(name, "func(dst []float32, src *float32, width int)")
	dst, rows := slices("dst")[0], length("dst")
	src, width := arg("src"), arg("width")
	Label("row")
	at, n := GP64(), GP64()
	MOVQ(src, at)
	MOVQ(width, n)
	VMOVSS(reduction([]reg.GPVirtual{at}, n), Mem{Base: dst})
	LEAQ(Mem{Base: src, Index: width, Scale: 4}, src)
	ADDQ(Imm(4), dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	end()
}

func reductions(s isa) {
	add := s.lift(func(y, x, dst Op) { VADDPS(y, x, dst) })

	s.text("sum", "func(a []float32) float32")
	Store(s.sumOf(slices("a"), length("a")), ReturnIndex(0))
	end()

	s.text("maxOf", "func(a []float32) float32")
	Store(s.maxOf(slices("a"), length("a"), s.inReg(s.bits(lowestBits))), ReturnIndex(0))
	end()

	s.eachRow("sumEach", s.sumOf)
	s.eachRow("maxOfEach", func(ptrs []reg.GPVirtual, n reg.GPVirtual) reg.Register {
		return s.maxOf(ptrs, n, s.inReg(s.bits(lowestBits)))
	})

	s.text("dot", "func(a, b []float32) float32")
	restore := flushSubnormals()
	ptrs := slices("a", "b")
	n := length("a")
	acc := accumulators(s, 4, s.zero())
	s.loop(n, 4, ptrs, func(l lanes) {
		VFMADD231PS(l.load(0), l.load(1), acc[l.slot])
	})
	Store(s.fold(acc, add).AsX(), ReturnIndex(0))
	restore()
	end()

	s.text("axpy", "func(y, x []float32, alpha float32)")
	restore = flushSubnormals()
	ptrs = slices("y", "x")
	n = length("y")
	alpha := s.scalar("alpha")
	s.loop(n, elementwiseUnroll, ptrs, func(l lanes) {
		y := l.load(0)
		VFMADD231PS(l.load(1), alpha, y)
		l.store(0, y)
	})
	restore()
	end()
}
