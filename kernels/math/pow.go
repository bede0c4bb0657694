package math

import "math"

// The power of two float32 is 2 to the y·log2(x), in float64. log2(x) is that of the nearest of 2^logBits numbers c, from
// the table, and a series of r = x/c - 1; the power of two that of a multiple of 2^-expBits, from the table, and a series
// of the rest. Both series are Taylor's, long enough for an error of some 1e-10 of the result.
const (
	logBits = 5
	expBits = 5
)

// logEntry is 1/c and log2(c). Next to 1 it is 1 itself, so that small logarithms keep their digits.
type logEntry struct{ inverse, log float64 }

// The numbers whose logarithm is looked up lie between logFrom and twice that, in units of the last place of float32.
const logFrom = 0x3f3504f3 // the square root of a half

var logTable, expTable = powTables()

func powTables() (logs [1<<logBits + 1]logEntry, exps [1 << expBits]float64) {
	const shift = 23 - logBits
	for i := range logs {
		// The middle of what falls into entry i.
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

// pow32 sets dst to a to the power of b, within a unit in the last place.
func pow32(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, x := range a {
		y := b[i]
		if !(x >= 0x1p-126 && x <= math.MaxFloat32 && y >= -math.MaxFloat32 && y <= math.MaxFloat32) {
			dst[i] = float32(math.Pow(float64(x), float64(y)))
			continue
		}
		dst[i] = float32(exp2Of(float64(y) * log2Of(x)))
	}
}

func pow64(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, x := range a {
		dst[i] = math.Pow(x, b[i])
	}
}

// log2Of is the logarithm of a positive, finite number that is not subnormal.
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

// exp2Of is two to the power of v.
func exp2Of(v float64) float64 {
	const most = 200 // beyond the exponents of float32
	if v > most {
		v = most
	} else if v < -most {
		v = -most
	}
	const steps = 1 << expBits
	// Adding and taking away rounds to a whole number of steps.
	const rounder = 3 << 51
	whole := v*steps + rounder
	step := int64(math.Float64bits(whole)<<12) >> 12
	r := (v - (whole-rounder)/steps) * math.Ln2
	power := 1 + r*(1+r*(1.0/2+r*(1.0/6+r*(1.0/24))))
	table := expTable[step&(steps-1)] * power
	return math.Float64frombits(math.Float64bits(table) + uint64(step>>expBits)<<52)
}
