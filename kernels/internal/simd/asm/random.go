package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// randomTurn is how many numbers a turn of the loops of philox and normal takes. The caller has made
// the length a multiple of it.
const randomTurn = 64

// randoms writes the generator of random numbers and what makes distributions of them.
func randoms(s isa) {
	s.philox()
	s.text("unit", "func(dst []float32, src []uint32)")
	ptrs := slices("dst", "src")
	n := length("dst")
	unit := s.unit()
	s.loop(n, elementwiseUnroll, ptrs, func(l lanes) { l.store(0, unit(l.load(1))) })
	end()
	s.normal()
}

// unit makes numbers of [0,1) of random bits.
func (s isa) unit() func(x vec) vec {
	fraction, exponent, one := s.bits(0x7fffff), s.bits(127<<23), s.float(1)
	return func(x vec) vec {
		s.and(fraction, x, x)
		s.or(exponent, x, x)
		VSUBPS(one, x, x)
		return x
	}
}

var quads = map[[8]uint64]Mem{}

// quad is a constant of 64 bits for each lane, or the same one for all, in memory.
func quad(values ...uint64) Mem {
	var lanes [8]uint64
	for i := range lanes {
		lanes[i] = values[i%len(values)]
	}
	m, ok := quads[lanes]
	if !ok {
		m = GLOBL(fmt.Sprintf("quads%d", len(quads)), RODATA|NOPTR)
		for i, v := range lanes {
			DATA(8*i, U64(v))
		}
		quads[lanes] = m
	}
	return m
}

func double(f float64) Mem { return quad(math.Float64bits(f)) }

func single(f float32) Mem {
	return quad(uint64(math.Float32bits(f))<<32 | uint64(math.Float32bits(f)))
}

// philox enciphers counters, whose upper half hi is the same for all and whose lower halves are lo and those that
// follow: four numbers each. Each lane of 64 bits holds one number of one counter; its upper half is not used, since
// VPMULUDQ multiplies the lower ones.
func (s isa) philox() {
	s.text("philox", "func(dst []uint32, lo, hi, key uint64)")
	dst, n := slices("dst")[0], length("dst")
	base, order := s.new(), quad(0, 2, 1, 3)
	if s.wide() {
		order = quad(0, 4, 1, 5, 2, 6, 3, 7)
	}
	VPBROADCASTQ(parameter("lo"), base)
	VPADDQ(order, base, base)
	multipliers := [2]Op{s.bits(0xD2511F53), s.bits(0xCD9E8D57)}
	steps := [2]Op{s.bits(0x9E3779B9), s.bits(0xBB67AE85)}
	var odd reg.OpmaskVirtual
	if s.wide() {
		w := GP32()
		MOVL(U32(0xaaaa), w)
		odd = K()
		KMOVW(w, odd)
	}
	counters := s.size / 8
	Label("turn")
	CMPQ(n, Imm(randomTurn))
	JL(LabelRef("done"))
	for at := 0; at < randomTurn; at += 4 * counters {
		c := [4]vec{s.new(), s.new(), s.new(), s.new()}
		k := [2]vec{s.new(), s.new()}
		VMOVUPS(base, c[0])
		VPSRLQ(Imm(32), base, c[1])
		VPADDQ(quad(uint64(counters)), base, base)
		VPBROADCASTQ(parameter("hi"), c[2])
		VPSRLQ(Imm(32), c[2], c[3])
		VPBROADCASTQ(parameter("key"), k[0])
		VPSRLQ(Imm(32), k[0], k[1])
		for round := range 10 {
			c = s.philoxRound(c, k, multipliers)
			for i := range k {
				if round < 9 {
					VPADDD(steps[i], k[i], k[i])
				}
			}
		}
		first, second := s.pairs(c[0], c[1], odd), s.pairs(c[2], c[3], odd)
		low, high := s.new(), s.new()
		VPUNPCKLQDQ(second, first, low)
		VPUNPCKHQDQ(second, first, high)
		VMOVUPS(low, Mem{Base: dst, Disp: 4 * at})
		VMOVUPS(high, Mem{Base: dst, Disp: 4*at + s.size})
	}
	ADDQ(U32(4*randomTurn), dst)
	SUBQ(Imm(randomTurn), n)
	JMP(LabelRef("turn"))
	Label("done")
	end()
}

// parameter is where one lies in memory.
func parameter(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// philoxRound is one round of the cipher.
func (s isa) philoxRound(c [4]vec, k [2]vec, multipliers [2]Op) [4]vec {
	a, b := s.new(), s.new()
	VPMULUDQ(multipliers[0], c[0], a)
	VPMULUDQ(multipliers[1], c[2], b)
	x, y := s.new(), s.new()
	VPSRLQ(Imm(32), b, x)
	VPSRLQ(Imm(32), a, y)
	s.xor(c[1], x, x)
	s.xor(k[0], x, x)
	s.xor(c[3], y, y)
	s.xor(k[1], y, y)
	return [4]vec{x, b, y, a}
}

// pairs joins the lower halves of two vectors' lanes of 64 bits.
func (s isa) pairs(low, high vec, odd reg.OpmaskVirtual) vec {
	r := s.new()
	VPSLLQ(Imm(32), high, r)
	if s.wide() {
		VPBLENDMD(r, low, odd, r)
	} else {
		VPBLENDD(Imm(0xaa), r, low, r)
	}
	return r
}

// normal makes normally distributed numbers, two of two random ones, by the Box-Muller transform. Logarithm, sine and
// cosine are those of Go's package math: the same operations on doubles in the same order, so that all bits are the same.
func (s isa) normal() {
	s.text("normal", "func(dst []float32, src []uint32)")
	ptrs := slices("dst", "src")
	n := length("dst")
	unit := s.unit()
	Label("turn")
	CMPQ(n, Imm(randomTurn))
	JL(LabelRef("done"))
	for at := 0; at < randomTurn; at += s.lanes() {
		x := s.new()
		VMOVUPS(Mem{Base: ptrs[1], Disp: 4 * at}, x)
		x = unit(x)
		high := s.new()
		VPSRLQ(Imm(32), x, high)
		radius := s.radius(s.low(x))
		sin, cos := s.sincos(s.angle(s.low(high)))
		VMULPS(radius, sin, sin)
		VMULPS(radius, cos, cos)
		r, odd := s.new(), s.new()
		VPMOVZXDQ(sin, r)
		VPMOVZXDQ(cos, odd)
		VPSLLQ(Imm(32), odd, odd)
		s.or(odd, r, r)
		VMOVUPS(r, Mem{Base: ptrs[0], Disp: 4 * at})
	}
	for _, p := range ptrs {
		ADDQ(U32(4*randomTurn), p)
	}
	SUBQ(Imm(randomTurn), n)
	JMP(LabelRef("turn"))
	Label("done")
	end()
}

// half is a register of half a vector: as many floats as a vector has doubles.
func (s isa) half() vec {
	if s.wide() {
		return YMM()
	}
	return XMM()
}

// low is the lower halves of a vector's lanes of 64 bits.
func (s isa) low(x vec) vec {
	r := s.half()
	if s.wide() {
		VPMOVQD(x, r)
		return r
	}
	VEXTRACTF128(Imm(1), x, r)
	VSHUFPS(Imm(0x88), r, x.AsX(), r)
	return r
}

// doubles widens half a vector of floats; singles rounds to one.
func (s isa) doubles(x vec) vec {
	r := s.new()
	VCVTPS2PD(x, r)
	return r
}

func (s isa) singles(x vec) vec {
	r := s.half()
	if s.wide() {
		VCVTPD2PS(x, r)
	} else {
		VCVTPD2PSY(x, r)
	}
	return r
}

// radius is the root of -2 log u, for u no less than 1e-7.
func (s isa) radius(u vec) vec {
	VMAXPS(single(1e-7), u, u)
	r := s.singles(s.log64(s.doubles(u)))
	VMULPS(single(-2), r, r)
	VSQRTPS(r, r)
	return r
}

// angle is the number of [0,1) times 2π, rounded to float.
func (s isa) angle(u vec) vec {
	a := s.doubles(u)
	VMULPD(double(2*math.Pi), a, a)
	return s.doubles(s.singles(a))
}
