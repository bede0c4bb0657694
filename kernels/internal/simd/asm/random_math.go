package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// The coefficients of package math, the highest power first: log's are those of odd and of even powers of s², and sine's and
// cosine's those of Cephes.
var (
	logOdd  = []float64{1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01, 6.666666666666735130e-01}
	logEven = []float64{1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01}

	sinPolynomial = []float64{
		1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
		-1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1,
	}
	cosPolynomial = []float64{
		-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
		2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2,
	}
)

const (
	ln2HighDouble = 6.93147180369123816490e-01
	ln2LowDouble  = 1.90821492927058770002e-10
	rootHalf      = 7.07106781186547524401e-01
)

// quarterPi is π/4 in three parts.
var quarterPi = [3]float64{7.85398125648498535156e-1, 3.77489470793079817668e-8, 2.69515142907905952645e-15}

// operation applies an instruction of avo's operand order to a copy: x op y.
func (s isa) operation(instruction func(y, x, dst Op), x vec, y Op) vec {
	r := s.new()
	instruction(y, x, r)
	return r
}

func (s isa) add64(x vec, y Op) vec {
	return s.operation(func(y, x, dst Op) { VADDPD(y, x, dst) }, x, y)
}

func (s isa) sub64(x vec, y Op) vec {
	return s.operation(func(y, x, dst Op) { VSUBPD(y, x, dst) }, x, y)
}

func (s isa) mul64(x vec, y Op) vec {
	return s.operation(func(y, x, dst Op) { VMULPD(y, x, dst) }, x, y)
}

func (s isa) loaded(m Mem) vec {
	r := s.new()
	VMOVUPS(m, r)
	return r
}

// rounded is the polynomial at x, each product and each sum rounded, as Go computes it.
func (s isa) rounded(coefficients []float64, x vec) vec {
	y := s.mul64(x, double(coefficients[0]))
	for i, c := range coefficients[1:] {
		y = s.add64(y, double(c))
		if i+2 < len(coefficients) {
			y = s.mul64(y, x)
		}
	}
	return y
}

// log64 is the natural logarithm of positive normal doubles: x = f1·2^k with f1 between the roots of a half and of two,
// and log f1 by s = f/(2+f), f = f1-1.
func (s isa) log64(x vec) vec {
	const magic = 1 << 52 // a double whose last bits are an integer
	k := s.new()
	VPSRLQ(Imm(52), x, k)
	s.or(quad(math.Float64bits(magic)), k, k)
	k = s.sub64(k, double(magic+0x3fe))
	s.and(quad(1<<52-1), x, x)
	s.or(double(0.5), x, x)

	one := s.notGreater(x, double(rootHalf), double(1))
	k = s.sub64(k, one)
	x = s.mul64(x, s.add64(one, double(1)))

	f := s.sub64(x, double(1))
	q := s.new()
	VDIVPD(s.add64(f, double(2)), f, q)
	s2 := s.mul64(q, q)
	s4 := s.mul64(s2, s2)
	r := s.add64(s.mul64(s4, s.rounded(logEven, s4)), s.mul64(s2, s.rounded(logOdd, s4)))
	half := s.mul64(s.mul64(f, double(0.5)), f)
	t := s.add64(s.mul64(q, s.add64(r, half)), s.mul64(k, double(ln2LowDouble)))
	return s.sub64(s.mul64(k, double(ln2HighDouble)), s.sub64(s.sub64(half, t), f))
}

// notGreater is yes in the lanes where x is no greater than y, and zero elsewhere.
func (s isa) notGreater(x vec, y, yes Mem) vec {
	const lessEqualQ = 0x12
	r := s.new()
	if s.wide() {
		k := K()
		VCMPPD(Imm(lessEqualQ), y, x, k)
		VMOVUPD_Z(yes, k, r)
		return r
	}
	VCMPPD(Imm(lessEqualQ), y, x, r)
	VANDPD(yes, r, r)
	return r
}

// sincos is the sine and the cosine of doubles from 0 to a little more than 2π, rounded to floats.
func (s isa) sincos(x vec) (sin, cos vec) {
	// The octant, made even, and what x is beyond it.
	small := s.half()
	octant := s.mul64(x, double(4/math.Pi))
	if s.wide() {
		VCVTTPD2DQ(octant, small)
	} else {
		VCVTTPD2DQY(octant, small)
	}
	VPADDD(quad(1<<32|1), small, small)
	s.halfAnd(quad(0xfffffffe<<32|0xfffffffe), small)
	y, z := s.new(), x
	VCVTDQ2PD(small, y)
	for _, part := range quarterPi {
		z = s.sub64(z, s.mul64(y, double(part)))
	}
	j := s.new()
	VPMOVZXDQ(small, j)

	zz := s.mul64(z, z)
	cosine := s.sub64(s.loaded(double(1)), s.mul64(zz, double(0.5)))
	cosine = s.add64(cosine, s.mul64(s.mul64(zz, zz), s.rounded(cosPolynomial, zz)))
	sine := s.add64(z, s.mul64(s.mul64(z, zz), s.rounded(sinPolynomial, zz)))
	sine, cosine = s.swapped(j, sine, cosine)

	// Bit 2 of the octant is the sine's sign; the cosine's is that of bits 1 and 2 together.
	sign := s.new()
	VPSLLQ(Imm(61), j, sign)
	s.and(quad(1<<63), sign, sign)
	s.xor(sign, sine, sine)
	s.xor(sign, cosine, cosine)
	VPSLLQ(Imm(62), j, sign)
	s.and(quad(1<<63), sign, sign)
	s.xor(sign, cosine, cosine)
	return s.singles(sine), s.singles(cosine)
}

// halfAnd is x = x AND y for half a vector.
func (s isa) halfAnd(y Mem, x vec) {
	if s.wide() {
		VPANDD(y, x, x)
	} else {
		VANDPS(y, x, x)
	}
}

// swapped exchanges the two where bit 1 of the octant is set.
func (s isa) swapped(octant, sine, cosine vec) (vec, vec) {
	bit, a, b := s.new(), s.new(), s.new()
	if s.wide() {
		k := K()
		VPTESTMQ(s.loaded(quad(2)), octant, k)
		VBLENDMPD(cosine, sine, k, a)
		VBLENDMPD(sine, cosine, k, b)
		return a, b
	}
	VPSLLQ(Imm(62), octant, bit)
	VBLENDVPD(bit, cosine, sine, a)
	VBLENDVPD(bit, sine, cosine, b)
	return a, b
}
