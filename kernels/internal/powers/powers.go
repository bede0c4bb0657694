// Package powers computes powers of float64. Those of package math lose digits for great exponents: half of them for 10^9.
//
// x^y is exp(y·log(x)). The exponent may be 700, so its logarithm needs ten bits more than a float64 has: log(x) and its product with y are
// sums of two float64, the second of which is about the rounding error of the first. As in Tang ("Table-driven implementation of the
// logarithm function in IEEE floating-point arithmetic" and the paper of the same name on the exponential function), tables of logarithms and
// powers leave small remainders to Taylor series. Sums of two float64 and their exact products are those of Dekker ("A floating-point
// technique for extending the available precision").
package powers

import "math"

// pair is the sum of a float64 and a much smaller one.
type pair struct{ high, low float64 }

// exactSum returns a+b, where a is not the smaller one.
func exactSum(a, b float64) pair {
	s := a + b
	return pair{s, b - (s - a)}
}

func (p pair) plus(q pair) pair {
	s := p.high + q.high
	part := s - p.high
	low := (p.high - (s - part)) + (q.high - part)
	return exactSum(s, low+(p.low+q.low))
}

func (p pair) times(q pair) pair {
	high := float64(p.high * q.high)
	return exactSum(high, math.FMA(p.high, q.high, -high)+(p.high*q.low+p.low*q.high))
}

func (p pair) over(q pair) pair {
	first := p.high / q.high
	rest := p.plus(q.times(pair{-first, 0}))
	return exactSum(first, rest.high/q.high)
}

const (
	logBits = 7
	expBits = 7
)

// logEntry is 1/c and -log(1/c), for a number c in the middle of the numbers that fall into the entry. The inverse has at most 9 bits, so
// that its products with halves of a float64 are exact. Next to 1, c is exactly 1. The high part of the logarithm is a multiple of
// 2^-logPoint, so that sums with multiples of ln2High are exact.
type logEntry struct{ inverse, high, low float64 }

// expEntry is 2^(i/2^expBits), and its rounding error relative to it.
type expEntry struct{ power, error float64 }

// logFrom is the bit pattern of the least number whose logarithm is looked up. The greatest is below twice that number. 1 is in the middle of
// the numbers of an entry.
const logFrom = 0x3ff<<52 - 151<<(51-logBits)

const logPoint = 42

// ln2 is the logarithm of 2, ln2High and ln2Low are its parts, like those of a logEntry.
var ln2 = pair{math.Ln2, 2.3190468138462996e-17}

var ln2High, ln2Low = split(ln2, logPoint)

// stepHigh and stepLow are the logarithm of 2^-expBits. A product of the high part with a number of steps is exact.
var stepHigh, stepLow = split(pair{ln2.high / (1 << expBits), ln2.low / (1 << expBits)}, 33+expBits)

// split divides p into a multiple of 2^-point and the rest.
func split(p pair, point int) (high, low float64) {
	high = math.Ldexp(math.Round(math.Ldexp(p.high, point)), -point)
	return high, (p.high - high) + p.low
}

var logTable, expTable = tables()

func tables() (logs [1 << logBits]logEntry, exps [1 << expBits]expEntry) {
	for i := range logs {
		middle := math.Float64frombits(logFrom + uint64(i)<<(52-logBits) + 1<<(51-logBits))
		inverse := math.Round(1/middle*(1<<8)) / (1 << 8)
		if middle < 1 {
			inverse = math.Round(1/middle*(1<<7)) / (1 << 7)
		}
		// log(c) is -2·atanh(s), for s = (1/c-1)/(1/c+1).
		s := pair{inverse - 1, 0}.over(pair{inverse + 1, 0})
		square, sum := s.times(s), pair{}
		for k := 45.0; k >= 1; k -= 2 {
			sum = sum.times(square).plus(pair{1, 0}.over(pair{k, 0}))
		}
		logs[i].inverse = inverse
		logs[i].high, logs[i].low = split(sum.times(s).times(pair{-2, 0}), logPoint)
	}
	for i := range exps {
		x := ln2.times(pair{float64(i) / (1 << expBits), 0})
		sum := pair{1, 0}
		for k := 30.0; k >= 1; k-- {
			sum = sum.times(x).over(pair{k, 0}).plus(pair{1, 0})
		}
		exps[i] = expEntry{sum.high, sum.low / sum.high}
	}
	return logs, exps
}

// Of returns x^y, off by less than 0.52 units in the last place, with the special cases of C's pow.
func Of(x, y float64) float64 {
	// These are positive and finite, and neither subnormal nor so large that y times any logarithm overflows.
	if bits := math.Float64bits(x); bits-1<<52 < 0x7fe<<52 && math.Float64bits(y)<<1 < (0x3ff+500)<<53 {
		return expOf(scaledLog(logOf(bits), y), 1)
	}
	return special(x, y)
}

// special is Of for all arguments.
func special(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case x != x || y != y:
		return x + y
	}
	whole := y == math.Trunc(y)
	odd := whole && math.Abs(y) < 1<<53 && int64(y)&1 == 1
	size, sign := math.Abs(x), 1.0
	if math.Signbit(x) && odd {
		sign = -1
	}
	switch {
	case size == 1 && (whole || math.IsInf(y, 0)):
		return sign
	case size == 0 || math.IsInf(x, 0) || math.IsInf(y, 0):
		if (size < 1) == (y < 0) {
			return sign * math.Inf(1)
		}
		return sign * 0
	case x < 0 && !whole:
		return math.NaN()
	}
	var l pair
	if bits := math.Float64bits(size); bits >= 1<<52 {
		l = logOf(bits)
	} else {
		l = logOf(math.Float64bits(size*0x1p54) - 54<<52)
	}
	// A greater exponent leaves no result but 0, 1 and infinity, and its product might overflow.
	return expOf(scaledLog(l, math.Copysign(min(math.Abs(y), 0x1p500), y)), sign)
}

// logOf returns the logarithm of a positive number, given its bits. The exponent may be less than a float64 has.
func logOf(bits uint64) pair {
	above := bits - logFrom
	exponent := float64(int64(above) >> 52)
	entry := &logTable[above>>(52-logBits)&(1<<logBits-1)]
	mantissa := bits - above&^(1<<52-1)
	x := math.Float64frombits(mantissa)
	upper := math.Float64frombits(mantissa &^ (1<<32 - 1))
	// r is exact: it has no bit below 2^-60, and is less than 2^-7. So are the products of its upper half.
	r := (upper*entry.inverse - 1) + (x-upper)*entry.inverse
	head := math.Float64frombits(math.Float64bits(r) &^ (1<<27 - 1))
	square := -0.5 * head * head
	rest := -0.5 * (r - head) * (r + head)
	// The sum's terms shrink, so its rounding errors are exact.
	table := exponent*ln2High + entry.high
	first := table + r
	second := first + square
	low := exponent*ln2Low + entry.low + ((table - first) + r) + ((first - second) + square) + rest
	low += r * r * r * (1.0/3 + r*(-1.0/4+r*(1.0/5+r*(-1.0/6+r*(1.0/7+r*(-1.0/8+r*(1.0/9)))))))
	return exactSum(second, low)
}

func scaledLog(p pair, y float64) pair {
	high := float64(p.high * y)
	return pair{high, math.FMA(p.high, y, -high) + p.low*y}
}

// expOf returns exp(p)·sign.
func expOf(p pair, sign float64) float64 {
	const most = 800 // beyond the exponents of float64
	switch {
	case p.high > most:
		return sign * math.Inf(1)
	case p.high < -most:
		return sign * 0
	}
	const steps = 1 << expBits
	// Adding and subtracting rounder rounds to a whole number of steps.
	const rounder = 3 << 51
	whole := p.high*(steps/math.Ln2) + rounder
	step := int64(math.Float64bits(whole) - math.Float64bits(rounder))
	count := whole - rounder
	r := (p.high - count*stepHigh) - count*stepLow + p.low
	entry := &expTable[step&(steps-1)]
	square := r * r
	series := entry.error + r + square*(1.0/2+r*(1.0/6)) + square*square*(1.0/24+r*(1.0/120))
	power := entry.power * sign
	exponent := step >> expBits
	if exponent > -1022 && exponent < 1023 {
		scale := math.Float64frombits(uint64(exponent+1023) << 52)
		return (power + power*series) * scale
	}
	if exponent > 0 {
		return (power + power*series) * 0x1p1000 * math.Float64frombits(uint64(exponent-1000+1023)<<52)
	}
	// A subnormal result is rounded once, to a multiple of the least number.
	scale := math.Float64frombits(uint64(exponent+1022+1023) << 52)
	large, small := float64(power*scale), float64(power*series*scale)
	if sum := large + small; math.Abs(sum) < 1 {
		unit := math.Copysign(1, sum)
		rounded := unit + large
		small += (unit - rounded) + large
		return (rounded + small - unit) * 0x1p-1022
	}
	return (large + small) * 0x1p-1022
}
