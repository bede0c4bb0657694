package math

import (
	"math"
	"math/bits"
)

// The functions of package math lose digits near multiples of π/2, and where the greatest arguments are reduced. These reduce to a sum of two
// float64: next to multiples of π/2 by Cody and Waite's method, with π/2 in four parts, and large arguments by Payne and Hanek's ("Radian
// reduction for trigonometric functions"), which needs of 2/π only the bits that matter for the argument's exponent. Taylor series do the rest.

// The parts of π/2 have at most 33 bits, except the last. Their products with numbers of quarters below 2^20 are exact.
const (
	quarter1 = 0x1.921fb544p+0
	quarter2 = 0x1.0b4611a6p-34
	quarter3 = 0x1.3198a2ep-69
	quarter4 = 0x1.b839a252049c1p-104
	// halfPiLow is π/2 less the float64 next to it.
	halfPiLow = 0x1.1a62633145c07p-54
)

// twoOverPi has the bits of 2/π after the point.
var twoOverPi = [20]uint64{
	0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
	0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
	0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
	0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
}

// twoSum returns a+b and its rounding error.
func twoSum(a, b float64) (sum, low float64) {
	sum = a + b
	part := sum - a
	return sum, (a - (sum - part)) + (b - part)
}

// reduced returns the quarter of the circle nearest to a finite x, and the rest of x as a sum of two float64 of at most π/4.
func reduced(x float64) (quarter int, high, low float64) {
	size := math.Abs(x)
	switch {
	case size <= math.Pi/4:
		return 0, x, 0
	case size >= 1<<20:
		quarter, high, low = reducedLarge(size)
	default:
		n := math.RoundToEven(size * (2 / math.Pi))
		quarter = int(n)
		high = size - float64(n*quarter1) // exact
		for _, part := range [...]float64{quarter2, quarter3, quarter4} {
			var rest float64
			high, rest = twoSum(high, -float64(n*part))
			low += rest
		}
		high, low = twoSum(high, low)
	}
	if x < 0 {
		return -quarter & 3, -high, -low
	}
	return quarter & 3, high, low
}

// reducedLarge is reduced for x from 2^20.
func reducedLarge(x float64) (quarter int, high, low float64) {
	pattern := math.Float64bits(x)
	mantissa, exponent := pattern&(1<<52-1)|1<<52, int(pattern>>52)-1023-52
	// x·2/π is the mantissa times 2/π·2^exponent, of which the bits from the one of value 2^-exponent·2 count: others add multiples of 4.
	// product has 2 bits before the point.
	var product [4]uint64
	carry := uint64(0)
	for i := 3; i >= 0; i-- {
		upper, lower := bits.Mul64(mantissa, twoOverPiFrom(exponent-2+64*i))
		var over uint64
		product[i], over = bits.Add64(lower, carry, 0)
		carry = upper + over
	}
	quarter = int(product[0] >> 62)
	for i := range 3 {
		product[i] = product[i]<<2 | product[i+1]>>62
	}
	product[3] <<= 2
	negative := product[0]>>63 == 1
	if negative {
		quarter++
		borrow := uint64(0)
		for i := 3; i >= 0; i-- {
			product[i], borrow = bits.Sub64(0, product[i], borrow)
		}
	}
	// No float64 is so close to a multiple of π/2 that more than 64 zeros lead.
	zeros := bits.LeadingZeros64(product[0])
	for i := range 3 {
		product[i] = product[i]<<zeros | product[i+1]>>(64-zeros)
	}
	first := math.Ldexp(float64(product[0]>>11), -53-zeros)
	second := math.Ldexp(float64(product[0]<<53|product[1]>>11), -53-64-zeros)
	high = float64(first * (math.Pi / 2))
	low = math.FMA(first, math.Pi/2, -high) + (first*halfPiLow + second*(math.Pi/2))
	if high, low = twoSum(high, low); negative {
		high, low = -high, -low
	}
	return quarter, high, low
}

// twoOverPiFrom returns 64 bits of 2/π from the one of the given place after the point on. Places before the point have zeros.
func twoOverPiFrom(place int) uint64 {
	at := func(i int) uint64 {
		if i < 0 || i >= len(twoOverPi) {
			return 0
		}
		return twoOverPi[i]
	}
	i, shift := place>>6, uint(place&63)
	return at(i)<<shift | at(i+1)>>(64-shift)
}

// sinNear and cosNear are the functions of a sum of two float64 of at most π/4.
func sinNear(high, low float64) float64 {
	z := high * high
	series := 1.0/120 + z*(-1.0/5040+z*(1.0/362880+z*(-1.0/39916800+z*(1.0/6227020800+z*(-1.0/1307674368000+z*(1.0/355687428096000))))))
	return high + (low + (z*high*(-1.0/6+z*series) - z*low/2))
}

func cosNear(high, low float64) float64 {
	z := float64(high * high)
	series := 1.0/24 + z*(-1.0/720+z*(1.0/40320+z*(-1.0/3628800+z*(1.0/479001600+z*(-1.0/87178291200+z*(1.0/20922789888000))))))
	half := float64(z / 2)
	first := 1 - half
	return first + ((1 - first - half) + (z*z*series - high*low))
}

func sin64(x float64) float64 {
	if x == 0 {
		return x // with its sign
	}
	return sinAhead(x, 0)
}

func cos64(x float64) float64 { return sinAhead(x, 1) }

// sinAhead returns the sine of x plus a number of quarters of the circle.
func sinAhead(x float64, quarters int) float64 {
	if x-x != 0 {
		return math.NaN()
	}
	quarter, high, low := reduced(x)
	quarter += quarters
	var v float64
	if quarter&1 == 0 {
		v = sinNear(high, low)
	} else {
		v = cosNear(high, low)
	}
	if quarter&2 != 0 {
		return -v
	}
	return v
}

func tan64(x float64) float64 {
	switch {
	case x == 0:
		return x
	case x-x != 0:
		return math.NaN()
	}
	quarter, high, low := reduced(x)
	sin, cos := sinNear(high, low), cosNear(high, low)
	if quarter&1 == 0 {
		return sin / cos
	}
	return -cos / sin
}

// asin64 is math.Asin, except near 1, where math.Asin subtracts nearly equal numbers.
func asin64(x float64) float64 {
	if size := math.Abs(x); size > 0.7 && size <= 1 {
		return math.Copysign(math.Pi/2-(2*math.Asin(math.Sqrt((1-size)/2))-halfPiLow), x)
	}
	return math.Asin(x)
}
