package math

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/powers"
)

// The power of two float32 is 2^(y·log2(x)), computed in float64. log2(x) is the table's logarithm of the nearest of 2^logBits numbers c,
// plus a series in r = x/c - 1. The power of two is the table's power of a multiple of 2^-expBits, times a series in the remainder. Both
// are Taylor series, long enough for a relative error of about 1e-10.
const (
	logBits = 5
	expBits = 5
)

// logEntry is 1/c and log2(c). Next to 1, c is exactly 1, so that small logarithms keep their digits.
type logEntry struct{ inverse, log float64 }

// logFrom is the bit pattern of the least number whose logarithm is looked up. The greatest is below twice that number.
const logFrom = 0x3f3504f3 // the square root of a half

var logTable, expTable = powTables()

func powTables() (logs [1<<logBits + 1]logEntry, exps [1 << expBits]float64) {
	const shift = 23 - logBits
	for i := range logs {
		// c is the middle of the numbers that fall into entry i.
		c := float64(math.Float32frombits(logFrom&^(1<<shift-1) + uint32(i)<<shift + 1<<(shift-1)))
		if math.Abs(c-1) < 1.0/(1<<logBits) {
			c = 1
		}
		logs[i] = logEntry{1 / c, math.Log2(c)}
	}
	for i := range exps {
		exps[i] = math.Exp2(float64(i) / (1 << expBits))
	}
	return logs, exps
}

// pow32 sets dst to a^b, within a unit in the last place.
func pow32(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, x := range a {
		y := b[i]
		if !(x >= 0x1p-126 && x <= math.MaxFloat32 && y >= -math.MaxFloat32 && y <= math.MaxFloat32) {
			dst[i] = float32(powers.Of(float64(x), float64(y)))
			continue
		}
		dst[i] = float32(exp2Of(float64(y) * log2Of(x)))
	}
}

func pow64(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, x := range a {
		dst[i] = powers.Of(x, b[i])
	}
}

// log2Of returns the logarithm of a positive, finite number that is not subnormal.
func log2Of(x float32) float64 {
	const shift = 23 - logBits
	bits := math.Float32bits(x)
	above := bits - logFrom
	exponent := int32(above) >> 23
	mantissa := bits - uint32(exponent)<<23
	entry := &logTable[(mantissa-logFrom&^(1<<shift-1))>>shift]
	r := float64(math.Float32frombits(mantissa))*entry.inverse - 1
	const perLn2 = 1 / math.Ln2
	square := r * r
	series := (perLn2 - perLn2/2*r) + square*((perLn2/3-perLn2/4*r)+square*((perLn2/5-perLn2/6*r)+square*(perLn2/7-perLn2/8*r)))
	return r*series + (entry.log + float64(exponent))
}

// exp2Of returns 2^v.
func exp2Of(v float64) float64 {
	const most = 200 // beyond the exponents of float32
	if v > most {
		v = most
	} else if v < -most {
		v = -most
	}
	const steps = 1 << expBits
	// Adding and subtracting rounder rounds to a whole number of steps.
	const rounder = 3 << 51
	whole := v*steps + rounder
	step := int64(math.Float64bits(whole)<<12) >> 12
	r := (v - (whole-rounder)/steps) * math.Ln2
	power := 1 + r*(1+r*(1.0/2+r*(1.0/6+r*(1.0/24))))
	table := expTable[step&(steps-1)] * power
	return math.Float64frombits(math.Float64bits(table) + uint64(step>>expBits)<<52)
}
