package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vec is one vector register of float32 lanes.
type vec = reg.VecVirtual

// isa is a vector instruction set. Kernels are written once over its methods
// and generated for each set.
type isa struct {
	name string
	size int // bytes in a vector
}

var (
	avx512 = isa{"AVX512", 64}
	avx2   = isa{"AVX2", 32}
)

func (s isa) wide() bool { return s.size == 64 }
func (s isa) lanes() int { return s.size / 4 }

// new returns a fresh vector register.
func (s isa) new() vec {
	if s.wide() {
		return ZMM()
	}
	return YMM()
}

func (s isa) zero() vec {
	z := s.new()
	s.xor(z, z, z)
	return z
}

// text starts the function name+ISA. Parameters must not be called g, which
// the assembler takes for the goroutine register.
func (s isa) text(name, signature string) {
	TEXT(name+s.name, NOSPLIT, signature)
	Pragma("noescape")
}

// flushSubnormals makes the function take and leave subnormal numbers as zeros until restore's code,
// which goes before its end. A product with one costs a processor over a hundred cycles.
func flushSubnormals() (restore func()) {
	const flushToZero, denormalsAreZero = 1 << 15, 1 << 6
	before := AllocLocal(8)
	now, control := before.Offset(4), GP32()
	STMXCSR(before)
	MOVL(before, control)
	ORL(U32(flushToZero|denormalsAreZero), control)
	MOVL(control, now)
	LDMXCSR(now)
	return func() { LDMXCSR(before) }
}

func end() {
	VZEROUPPER()
	RET()
}

// arg loads an integer or pointer parameter.
func arg(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name), r)
	return r
}

// inMemory is an integer parameter where it lies. The function may change it.
func inMemory(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// slices loads the addresses of slice parameters.
func slices(names ...string) []reg.GPVirtual {
	ptrs := make([]reg.GPVirtual, len(names))
	for i, name := range names {
		ptrs[i] = GP64()
		Load(Param(name).Base(), ptrs[i])
	}
	return ptrs
}

// length loads the length of a slice parameter.
func length(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name).Len(), r)
	return r
}

// scalar broadcasts a float32 parameter to every lane.
func (s isa) scalar(name string) vec {
	r := s.new()
	VBROADCASTSS(inMemory(name), r)
	return r
}

var constants = map[uint32]Mem{}

// bits returns a constant in every lane as an operand. AVX-512 has registers
// to spare, so the caller should ask for it once, before its loop; AVX2 has
// not, and reads it from memory at each use.
func (s isa) bits(u uint32) Op {
	m, ok := constants[u]
	if !ok {
		m = GLOBL(fmt.Sprintf("lanes%08x", u), RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(u))
		}
		constants[u] = m
	}
	if !s.wide() {
		return m
	}
	r := s.new()
	VBROADCASTSS(m, r)
	return r
}

func (s isa) float(f float64) Op { return s.bits(math.Float32bits(float32(f))) }

var vectors = map[uint32]Mem{}

// floatsInMemory returns constants in every lane as operands in memory, for functions of many.
func (s isa) floatsInMemory(fs ...float64) []Op {
	ops := make([]Op, len(fs))
	for i, f := range fs {
		u := math.Float32bits(float32(f))
		m, ok := vectors[u]
		if !ok {
			m = GLOBL(fmt.Sprintf("vector%08x", u), RODATA|NOPTR)
			for lane := range 16 {
				DATA(4*lane, U32(u))
			}
			vectors[u] = m
		}
		ops[i] = m
	}
	return ops
}

func (s isa) floats(fs ...float64) []Op {
	ops := make([]Op, len(fs))
	for i, f := range fs {
		ops[i] = s.float(f)
	}
	return ops
}

// inReg returns op itself if it is a register, or else a register loaded
// from it: the first source of a VEX instruction cannot be memory.
func (s isa) inReg(op Op) vec {
	if r, ok := op.(vec); ok {
		return r
	}
	r := s.new()
	VMOVUPS(op, r)
	return r
}

// The logic below takes (y, x, dst) like avo: dst = x op y.

func (s isa) xor(y, x, dst Op) {
	if s.wide() {
		VPXORD(y, x, dst)
	} else {
		VXORPS(y, x, dst)
	}
}

func (s isa) and(y, x, dst Op) {
	if s.wide() {
		VPANDD(y, x, dst)
	} else {
		VANDPS(y, x, dst)
	}
}

func (s isa) or(y, x, dst Op) {
	if s.wide() {
		VPORD(y, x, dst)
	} else {
		VORPS(y, x, dst)
	}
}

// Predicates of VCMPPS; Q says that a quiet NaN raises no exception.
const (
	lessQ        = 0x11
	unorderedQ   = 0x03
	notLessEqQ   = 0x16 // greater, or either is NaN
	greaterQ     = 0x1e
	equalQ       = 0x00
	roundNearest = 0x08 // without raising inexact
)

// choose sets dst = yes in the lanes where the predicate holds of (x, y), and
// leaves it elsewhere.
func (s isa) choose(predicate int, x vec, y Op, yes, dst vec) {
	if s.wide() {
		k := K()
		VCMPPS(Imm(uint64(predicate)), y, x, k)
		VMOVAPS(yes, k, dst)
		return
	}
	t := s.new()
	VCMPPS(Imm(uint64(predicate)), y, x, t)
	VBLENDVPS(t, yes, dst, dst)
}

// keep returns x in the lanes where the predicate holds of (a, b), and +0
// elsewhere.
func (s isa) keep(predicate int, a vec, b Op, x Op) vec {
	r := s.new()
	if s.wide() {
		k := K()
		VCMPPS(Imm(uint64(predicate)), b, a, k)
		VMOVAPS_Z(s.inReg(x), k, r)
		return r
	}
	VCMPPS(Imm(uint64(predicate)), b, a, r)
	VANDPS(x, r, r)
	return r
}
