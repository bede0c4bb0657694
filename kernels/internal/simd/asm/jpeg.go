package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pictures writes what decodes JPEG files. Most of it serves both levels: blocks have eight columns, and rows of pixels pass
// through caches faster than their files are read. The accurate transform takes more registers than AVX2 has.
func pictures(s isa) {
	if s.wide() {
		inverseDCT(s, "inverseAccurate", 1, accurateTurn, 0, nil)
		inverseDCT(s, "inverseAccurateTwo", 2, accurateTurn, 0, nil)
		return
	}
	descale := func(rows []reg.VecVirtual) {
		for _, r := range rows {
			VPSRAW(Imm(fastScale+3), r, r)
		}
	}
	for _, blocks := range []int{1, 2} {
		name := []string{"", "Two"}[blocks-1]
		inverseDCT(s, "inverseFast"+name, blocks, fastTurn, 0, descale)
		inverseDCT(s, "inverseAccurate"+name, blocks, accurateTurn, accurateVectors, nil)
	}
	upsampleBoth(s)
	upsampleAcross(s)
	repeatAcross(s)
	coloursText(s)
}

// words returns a constant in memory of 16-bit numbers, repeated to 32 bytes.
func words(pattern ...int16) Mem {
	name := "words"
	for _, w := range pattern {
		name += fmt.Sprintf("_%04x", uint16(w))
	}
	if m, ok := wordConstants[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 16 {
		DATA(2*i, U16(uint16(pattern[i%len(pattern)])))
	}
	wordConstants[name] = m
	return m
}

var wordConstants = map[string]Mem{}

// doubles is a constant of 32-bit numbers as words has it.
func doubleWord(v uint32) Mem { return words(int16(v), int16(v>>16)) }

// turn transforms eight numbers in each lane, in the first or second pass. scratch is memory of the function, which may be none.
type turn func(r []reg.VecVirtual, pass int, scratch Mem) []reg.VecVirtual

// accurateVectors is how many vectors of memory accurateTurn takes.
const accurateVectors = 16

// The operations of the transforms: the result is a op b in a new register.

func three(f func(...Op), b Op, a Op) reg.VecVirtual {
	r := ofBlocks()
	f(b, a, r)
	return r
}

// ofBlocks makes a register of eight words for each block that a transform takes: XMM or YMM.
var ofBlocks func() reg.VecVirtual

func addWords(a, b Op) reg.VecVirtual { return three(VPADDW, b, a) }
func subWords(a, b Op) reg.VecVirtual { return three(VPSUBW, b, a) }

// fastScale is how many fractional bits the fast transform's numbers have.
const fastScale = 2

// fastTurn is the fast transform of eight numbers in each lane: that of Arai, Agui and Nakajima, in 16 bits, with factors of 8
// fractional bits and no rounding, as libjpeg has it.
func fastTurn(r []reg.VecVirtual, _ int, _ Mem) []reg.VecVirtual {
	times := func(x Op, factor int16) reg.VecVirtual {
		// The product's high half takes 16 bits off: 8 of the factor's fraction, 2 and 6 that are put on before.
		t := ofBlocks()
		VPSLLW(Imm(2), x, t)
		VPMULHW(words(factor<<6), t, t)
		return t
	}
	sum, difference := addWords(r[0], r[4]), subWords(r[0], r[4])
	other := addWords(r[2], r[6])
	skew := subWords(times(subWords(r[2], r[6]), 362), other)
	t0, t3 := addWords(sum, other), subWords(sum, other)
	t1, t2 := addWords(difference, skew), subWords(difference, skew)

	z13, z10 := addWords(r[5], r[3]), subWords(r[5], r[3])
	z11, z12 := addWords(r[1], r[7]), subWords(r[1], r[7])
	t7 := addWords(z11, z13)
	t11 := times(subWords(z11, z13), 362)
	z5 := times(addWords(z10, z12), 473)
	t10 := subWords(times(z12, 277), z5)
	t12 := addWords(subWords(times(z10, 256-669), z10), z5)
	t6 := subWords(t12, t7)
	t5 := subWords(t11, t6)
	t4 := addWords(t10, t5)
	return []reg.VecVirtual{
		addWords(t0, t7), addWords(t1, t6), addWords(t2, t5), subWords(t3, t4),
		addWords(t3, t4), subWords(t2, t5), subWords(t1, t6), subWords(t0, t7),
	}
}

// accurateTurn is the accurate transform of eight numbers in each lane: that of Loeffler, Ligtenberg and Moschytz, with factors of
// 13 fractional bits, as libjpeg has it. Sums of products have 32 bits, and the results are rounded to 16. The pass in front
// leaves two more fractional bits, which the second one takes off again.
//
// A vector of words becomes two of 32-bit numbers, of which the upper one is transformed first. Where there is scratch memory, for accurateVectors,
// the numbers lie there, and the upper half waits there for the lower one: AVX2 has 16 registers.
func accurateTurn(r []reg.VecVirtual, pass int, scratch Mem) []reg.VecVirtual {
	shift := []int{11, 18}[pass]
	kept := make([]Op, accurateVectors)
	keep := func(i int, v reg.VecVirtual) {
		if kept[i] = v; scratch.Base != nil {
			m := scratch.Offset(int(v.Size()) * i)
			VMOVDQU(v, m)
			kept[i] = m
		}
	}
	load := func(i int) reg.VecVirtual {
		if v, ok := kept[i].(reg.VecVirtual); ok {
			return v
		}
		v := ofBlocks()
		VMOVDQU(kept[i], v)
		return v
	}
	for i, v := range r {
		keep(i, v)
	}
	sum := func(i, j int) reg.VecVirtual { return addWords(load(i), kept[j]) }
	add := func(a, b Op) reg.VecVirtual { return three(VPADDD, b, a) }
	sub := func(a, b Op) reg.VecVirtual { return three(VPSUBD, b, a) }

	half := func(unpack func(...Op), put func(i int, v reg.VecVirtual)) {
		// products are x*f + y*g.
		products := func(x, y Op, f, g int16) reg.VecVirtual {
			v := three(unpack, y, x)
			VPMADDWD(words(f, g), v, v)
			return v
		}
		widened := func(x Op) reg.VecVirtual {
			v := ofBlocks()
			if scratch.Base == nil {
				VPXORD(v, v, v) // of all registers
			} else {
				VPXOR(v, v, v)
			}
			unpack(x, v, v)
			VPSRAD(Imm(16-13), v, v)
			return v
		}
		r2 := load(2)
		t2, t3 := products(r2, kept[6], 4433, 4433-15137), products(r2, kept[6], 4433+6270, 4433)
		t0, t1 := widened(sum(0, 4)), widened(subWords(load(0), kept[4]))
		t10, t13, t11, t12 := add(t0, t3), sub(t0, t3), add(t1, t2), sub(t1, t2)

		z3, z4 := sum(7, 3), sum(5, 1)
		p3, p4 := products(z3, z4, 9633-16069, 9633), products(z3, z4, 9633, 9633-3196)
		r7 := load(7)
		o0 := add(products(r7, kept[1], 2446-7373, -7373), p3)
		o3 := add(products(r7, kept[1], -7373, 12299-7373), p4)
		r5 := load(5)
		o1 := add(products(r5, kept[3], 16819-20995, -20995), p4)
		o2 := add(products(r5, kept[3], -20995, 25172-20995), p3)
		rounded := func(v reg.VecVirtual) reg.VecVirtual {
			VPADDD(doubleWord(1<<(shift-1)), v, v)
			VPSRAD(Imm(uint64(shift)), v, v)
			return v
		}
		for i, pair := range [][2]reg.VecVirtual{{t10, o3}, {t11, o2}, {t12, o1}, {t13, o0}} {
			put(i, rounded(add(pair[0], pair[1])))
			put(7-i, rounded(sub(pair[0], pair[1])))
		}
	}
	half(VPUNPCKHWD, func(i int, v reg.VecVirtual) { keep(8+i, v) })
	out := make([]reg.VecVirtual, 8)
	half(VPUNPCKLWD, func(i int, v reg.VecVirtual) {
		VPACKSSDW(kept[8+i], v, v)
		out[i] = v
	})
	return out
}

// inverseDCT writes a function that multiplies a block of coefficients by their quanta, transforms it, first the columns and then
// the rows, writes the samples, and clears the block. The turn has memory for so many vectors. That of two blocks, one behind the other, has the second in the upper lanes.
func inverseDCT(s isa, name string, blocks int, turn turn, vectors int, last func(rows []reg.VecVirtual)) {
	ofBlocks = XMM
	if blocks == 1 {
		s.text(name, "func(dst *uint8, stride int, block, quanta *int16)")
	} else {
		ofBlocks = YMM
		s.text(name, "func(dst, second *uint8, stride int, block, quanta *int16)")
	}
	var scratch Mem
	if vectors > 0 {
		scratch = AllocLocal(16 * blocks * vectors)
	}
	block, quanta := arg("block"), arg("quanta")
	rows := make([]reg.VecVirtual, 8)
	for i := range rows {
		rows[i] = ofBlocks()
		q := Mem{Base: quanta, Disp: 16 * i}
		if blocks == 1 {
			VMOVDQU(Mem{Base: block, Disp: 16 * i}, rows[i])
			VPMULLW(q, rows[i], rows[i])
			continue
		}
		both := YMM()
		VBROADCASTI128(q, both)
		VMOVDQU(Mem{Base: block, Disp: 16 * i}, rows[i].AsX())
		VINSERTI128(Imm(1), Mem{Base: block, Disp: 128 + 16*i}, rows[i], rows[i])
		VPMULLW(both, rows[i], rows[i])
	}
	zero := avx2.zero()
	for i := range 4 * blocks {
		VMOVDQU(zero, Mem{Base: block, Disp: 32 * i})
	}
	columns := turn(transposeWords(turn(rows, 0, scratch)), 1, scratch)
	if last != nil {
		last(columns)
	}
	dst, stride := arg("dst"), arg("stride")
	second := dst
	if blocks == 2 {
		second = arg("second")
	}
	for i, pair := range sampleRows(columns) {
		VPADDB(words(-0x7f80), pair, pair)
		storePair(pair, dst, stride, i == 3)
		if blocks == 2 {
			upper := XMM()
			VEXTRACTI128(Imm(1), pair, upper)
			storePair(upper, second, stride, i == 3)
		}
	}
	end()
}

// storePair stores two rows of samples, and goes on to the next ones.
func storePair(pair reg.VecVirtual, dst, stride reg.GPVirtual, last bool) {
	VMOVQ(pair.AsX(), Mem{Base: dst})
	VMOVHPS(pair.AsX(), Mem{Base: dst, Index: stride, Scale: 1})
	if !last {
		LEAQ(Mem{Base: dst, Index: stride, Scale: 2}, dst)
	}
}

// transposeWords transposes eight vectors of eight words.
func transposeWords(r []reg.VecVirtual) []reg.VecVirtual {
	a := make([]reg.VecVirtual, 8)
	for i := range 4 {
		a[2*i], a[2*i+1] = three(VPUNPCKLWD, r[i+4], r[i]), three(VPUNPCKHWD, r[i+4], r[i])
	}
	b := make([]reg.VecVirtual, 8)
	for i := range 4 {
		b[2*i], b[2*i+1] = three(VPUNPCKLWD, a[i+4], a[i]), three(VPUNPCKHWD, a[i+4], a[i])
	}
	out := make([]reg.VecVirtual, 8)
	for i := range 4 {
		out[2*i], out[2*i+1] = three(VPUNPCKLWD, b[i+4], b[i]), three(VPUNPCKHWD, b[i+4], b[i])
	}
	return out
}

// sampleRows makes bytes of eight columns, and pairs of rows of them.
func sampleRows(c []reg.VecVirtual) []reg.VecVirtual {
	p := make([]reg.VecVirtual, 4)
	for i := range p {
		p[i] = three(VPACKSSWB, c[i+4], c[i])
	}
	a, b := three(VPUNPCKLBW, p[1], p[0]), three(VPUNPCKHBW, p[1], p[0])
	d, e := three(VPUNPCKLBW, p[3], p[2]), three(VPUNPCKHBW, p[3], p[2])
	upper, lower := three(VPUNPCKLWD, d, a), three(VPUNPCKHWD, d, a)
	right, below := three(VPUNPCKLWD, e, b), three(VPUNPCKHWD, e, b)
	return []reg.VecVirtual{
		three(VPUNPCKLLDQ, right, upper), three(VPUNPCKHLDQ, right, upper),
		three(VPUNPCKLLDQ, below, lower), three(VPUNPCKHLDQ, below, lower),
	}
}

// VPUNPCKLLDQ and VPUNPCKHLDQ interleave 32-bit numbers.
func VPUNPCKLLDQ(ops ...Op) { VPUNPCKLDQ(ops[0], ops[1], ops[2]) }
func VPUNPCKHLDQ(ops ...Op) { VPUNPCKHDQ(ops[0], ops[1], ops[2]) }

// samplesLoop runs body on sixteen samples at a time. The caller has made n a multiple of it.
func samplesLoop(n reg.GPVirtual, in []reg.GPVirtual, dst reg.GPVirtual, body func()) {
	Label("turn")
	body()
	for _, p := range in {
		ADDQ(Imm(16), p)
	}
	ADDQ(Imm(32), dst)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("turn"))
	end()
}

// pairs stores the bytes of even and odd words by turns.
func pairs(even, odd reg.VecVirtual, dst reg.GPVirtual) {
	VPSLLW(Imm(8), odd, odd)
	VPOR(even, odd, odd)
	VMOVDQU(odd, Mem{Base: dst})
}

func samplesAt(p reg.GPVirtual, offset int) reg.VecVirtual {
	r := YMM()
	VPMOVZXBW(Mem{Base: p, Disp: offset}, r)
	return r
}

// thrice is 3a + b.
func thrice(a, b reg.VecVirtual) reg.VecVirtual {
	r := YMM()
	VPADDW(a, a, r)
	VPADDW(a, r, r)
	VPADDW(b, r, r)
	return r
}

// upsampleBoth writes two samples for each of a row, each nearer to it than to its neighbour and to the other row, by three to one.
func upsampleBoth(s isa) {
	s.text("upsampleBoth", "func(dst, near, far *uint8, n int)")
	dst, near, far, n := arg("dst"), arg("near"), arg("far"), arg("n")
	samplesLoop(n, []reg.GPVirtual{near, far}, dst, func() {
		sum := func(offset int) reg.VecVirtual { return thrice(samplesAt(near, offset), samplesAt(far, offset)) }
		before, here, after := sum(-1), sum(0), sum(1)
		even, odd := thrice(here, before), thrice(here, after)
		VPADDW(words(8), even, even)
		VPADDW(words(7), odd, odd)
		VPSRLW(Imm(4), even, even)
		VPSRLW(Imm(4), odd, odd)
		pairs(even, odd, dst)
	})
}

// upsampleAcross is upsampleBoth within one row.
func upsampleAcross(s isa) {
	s.text("upsampleAcross", "func(dst, row *uint8, n int)")
	dst, row, n := arg("dst"), arg("row"), arg("n")
	samplesLoop(n, []reg.GPVirtual{row}, dst, func() {
		here := samplesAt(row, 0)
		even, odd := thrice(here, samplesAt(row, -1)), thrice(here, samplesAt(row, 1))
		VPADDW(words(1), even, even)
		VPADDW(words(2), odd, odd)
		VPSRLW(Imm(2), even, even)
		VPSRLW(Imm(2), odd, odd)
		pairs(even, odd, dst)
	})
}

// repeatAcross writes each sample twice.
func repeatAcross(s isa) {
	s.text("repeatAcross", "func(dst, row *uint8, n int)")
	dst, row, n := arg("dst"), arg("row"), arg("n")
	samplesLoop(n, []reg.GPVirtual{row}, dst, func() {
		even, odd := samplesAt(row, 0), YMM()
		VMOVDQA(even, odd)
		pairs(even, odd, dst)
	})
}

// coloursText writes the conversion from YCbCr to RGB of thirty-two pixels at a time. The arithmetic is libjpeg's, of 16 fractional
// bits; factors beyond a half are split into a whole and the rest, and pmulhw's product is that of twice the number.
func coloursText(s isa) {
	s.text("colours", "func(dst, y, cb, cr *uint8, n int)")
	dst, luma, cb, cr, n := arg("dst"), arg("y"), arg("cb"), arg("cr"), arg("n")
	var places [9]Mem
	for i := range places {
		places[i] = GLOBL(fmt.Sprintf("place%d", i), RODATA|NOPTR)
		for at := range 32 {
			// Byte at of piece i/3 of sixteen pixels is of channel i%3 if that is the remainder of where it lies.
			position := at%16 + 16*(i/3)
			place := uint8(0x80)
			if position%3 == i%3 {
				place = uint8(position / 3)
			}
			DATA(at, U8(place))
		}
	}
	zero := avx2.zero()
	Label("turn")
	var channels [3][2]reg.VecVirtual
	y, blue, red := YMM(), YMM(), YMM()
	VMOVDQU(Mem{Base: luma}, y)
	VMOVDQU(Mem{Base: cb}, blue)
	VMOVDQU(Mem{Base: cr}, red)
	for half, unpack := range []func(...Op){VPUNPCKLBW, VPUNPCKHBW} {
		wide := func(x reg.VecVirtual) reg.VecVirtual {
			r := YMM()
			unpack(zero, x, r)
			return r
		}
		l, b, r := wide(y), wide(blue), wide(red)
		VPSUBW(words(128), b, b)
		VPSUBW(words(128), r, r)
		// rest is x by a factor below a half of 16 fractional bits, rounded.
		rest := func(x reg.VecVirtual, factor int16) reg.VecVirtual {
			t := YMM()
			VPADDW(x, x, t)
			VPMULHW(words(factor), t, t)
			VPADDW(words(1), t, t)
			VPSRAW(Imm(1), t, t)
			return t
		}
		channels[0][half] = rest(r, 91881-1<<16)
		VPADDW(r, channels[0][half], channels[0][half])
		channels[2][half] = rest(b, 116130-2<<16)
		VPADDW(b, channels[2][half], channels[2][half])
		VPADDW(b, channels[2][half], channels[2][half])
		var green [2]reg.VecVirtual
		for i, join := range []func(...Op){VPUNPCKLWD, VPUNPCKHWD} {
			green[i] = YMM()
			join(r, b, green[i])
			VPMADDWD(words(-22554, 1<<16-46802), green[i], green[i])
			VPADDD(doubleWord(1<<15), green[i], green[i])
			VPSRAD(Imm(16), green[i], green[i])
		}
		g := YMM()
		VPACKSSDW(green[1], green[0], g)
		VPSUBW(r, g, g)
		channels[1][half] = g
		for c := range channels {
			VPADDW(l, channels[c][half], channels[c][half])
		}
	}
	var packed [3]reg.VecVirtual
	for c := range packed {
		packed[c] = YMM()
		VPACKUSWB(channels[c][1], channels[c][0], packed[c])
	}
	for piece := range 3 {
		out := YMM()
		VPSHUFB(places[3*piece], packed[0], out)
		for c := 1; c < 3; c++ {
			t := YMM()
			VPSHUFB(places[3*piece+c], packed[c], t)
			VPOR(t, out, out)
		}
		VMOVDQU(out.AsX(), Mem{Base: dst, Disp: 16 * piece})
		VEXTRACTI128(Imm(1), out, Mem{Base: dst, Disp: 48 + 16*piece})
	}
	for _, p := range []reg.GPVirtual{luma, cb, cr} {
		ADDQ(Imm(32), p)
	}
	ADDQ(Imm(96), dst)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("turn"))
	end()
}
