package math

import "math"

// These replace functions of package math where its results overflow too early or have no digits left.

// ln64High and ln64Low add up to the logarithm of 2^64. Subtracting ln64High from numbers of about 700 does not round. factor64Low is
// exp(-ln64Low).
const (
	ln64High    = 44.361412048339844
	ln64Low     = 7.507496656052703e-06
	factor64Low = 1 - ln64Low + ln64Low*ln64Low/2
)

// exp64 is math.Exp, except that on amd64 math.Exp overflows for the last third of the numbers with the greatest exponent.
func exp64(x float64) float64 {
	if x > 709 && x < 710 {
		return math.Exp(x-ln64High) * factor64Low * 0x1p64
	}
	return math.Exp(x)
}

// log64 is math.Log, except that on amd64 math.Log misreads subnormal numbers.
func log64(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// cosh64 and sinh64 are finite wherever exp(x)/2 is, even if exp(x) is not.
func cosh64(x float64) float64 {
	if size := math.Abs(x); size > 700 && size < 711 {
		return halfExp(size)
	}
	return math.Cosh(x)
}

func sinh64(x float64) float64 {
	// Like the C function, it returns also subnormal numbers where the thread takes them for zeros.
	if math.Abs(x) < 0x1p-28 {
		return x
	}
	if size := math.Abs(x); size > 700 && size < 711 {
		return math.Copysign(halfExp(size), x)
	}
	return math.Sinh(x)
}

// halfExp returns exp(x)/2, for x between 700 and 711.
func halfExp(x float64) float64 {
	return math.Exp(x-ln64High) * factor64Low * 0x1p63
}

// timesExp returns v·exp(x), also where that is finite and exp(x) is not.
func timesExp(v, x float64) float64 {
	if x > 709 && x < 750 {
		return v * math.Exp(x-ln64High) * factor64Low * 0x1p64
	}
	return v * exp64(x)
}

// acos64 is math.Acos, except near 1, where math.Acos subtracts nearly equal numbers.
func acos64(x float64) float64 {
	if x > 0.5 && x <= 1 {
		return 2 * math.Asin(math.Sqrt((1-x)/2))
	}
	if math.Abs(x) <= 1 {
		return math.Pi/2 - (asin64(x) - halfPiLow)
	}
	return math.Acos(x)
}
