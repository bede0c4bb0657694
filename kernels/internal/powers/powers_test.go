package powers

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const digits = 320 // bits of the numbers that results are compared with

func number(x float64) *big.Float { return new(big.Float).SetPrec(digits).SetFloat64(x) }

// logarithm returns log(x), as 2·atanh((m-1)/(m+1)) + e·log(2) for x = m·2^e.
func logarithm(x float64) *big.Float {
	series := func(m *big.Float) *big.Float {
		one := number(1)
		s := new(big.Float).Quo(new(big.Float).Sub(m, one), new(big.Float).Add(m, one))
		square, power, sum := new(big.Float).Mul(s, s), new(big.Float).Set(s), number(0)
		for k := 1.0; power.Sign() != 0 && power.MantExp(nil) > -digits+s.MantExp(nil); k += 2 {
			sum.Add(sum, new(big.Float).Quo(power, number(k)))
			power.Mul(power, square)
		}
		return sum.Mul(sum, number(2))
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	return new(big.Float).Add(series(number(m)), new(big.Float).Mul(number(float64(e)), series(number(2))))
}

// exponential returns exp(x), by squaring that of a small part of x.
func exponential(x *big.Float) *big.Float {
	const halvings = 30
	small := new(big.Float).SetMantExp(x, -halvings)
	sum, term := number(1), number(1)
	for k := 1.0; term.Sign() != 0 && term.MantExp(nil) > -digits; k++ {
		term.Quo(term.Mul(term, small), number(k))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// TestOf compares powers with ones computed to eighty digits, where they are hard: next to 1 with great exponents, with logarithms at the
// bounds of the table's entries, and for results at both ends of the range.
func TestOf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst, at := 0.0, [2]float64{}
	check := func(x, y float64) {
		t.Helper()
		exact := exponential(new(big.Float).Mul(number(y), logarithm(x)))
		want, _ := exact.Float64()
		got := Of(x, y)
		if math.IsInf(want, 0) || want == 0 {
			if got != want {
				t.Errorf("Of(%x, %x) is %x, not %x", x, y, got, want)
			}
			return
		}
		unit := math.Abs(math.Nextafter(want, 0) - want)
		off, _ := new(big.Float).Quo(new(big.Float).Sub(number(got), exact), number(unit)).Float64()
		if off = math.Abs(off); !(off <= worst) {
			worst, at = off, [2]float64{x, y}
		}
	}
	for _, c := range [][2]float64{{1 + 1e-12, 1e12}, {1 + 1e-9, 1e9}, {1 + 0x1p-52, 1 << 52}, {1 - 0x1p-53, 1 << 53}, {1 + 0x1p-52, 0x1p61}, {2, 1023}, {2, -1074}, {2, -1075},
		{math.MaxFloat64, 1}, {math.MaxFloat64, -1}, {math.SmallestNonzeroFloat64, 1}, {math.SmallestNonzeroFloat64, -0.9}, {10, 308}, {10, -323}, {10, 0.5}, {3, 1e-300}} {
		check(c[0], c[1])
	}
	n := 400
	if testing.Short() {
		n = 100
	}
	for range n {
		x := math.Exp(r.NormFloat64() * 100)
		check(x, r.NormFloat64()*300/math.Max(1e-3, math.Abs(math.Log(x))))
		if x = 1 + r.NormFloat64()*math.Exp(-r.Float64()*36); x > 0 && x != 1 {
			check(x, (r.Float64()*1400-700)/math.Log(x))
		}
		x = 0.7 + r.Float64()*0.8
		check(x, -(707+r.Float64()*38)/math.Log(x))
		check(math.Float64frombits(1+r.Uint64N(1<<52)), r.NormFloat64()/2)
	}
	for i := range uint64(1<<logBits + 1) {
		bound := logFrom + i<<(52-logBits)
		for _, bits := range []uint64{bound - 1, bound} {
			x := math.Float64frombits(bits)
			check(x, 650/math.Log(x))
			check(x, -3)
		}
	}
	t.Logf("off by at most %.3f units in the last place", worst)
	if worst > 0.52 {
		t.Errorf("Of(%x, %x) is off by %v units in the last place", at[0], at[1], worst)
	}
}

// TestSpecialCases compares with math.Pow, which has the special cases of C.
func TestSpecialCases(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1.5, -1.5, 0x1p53 - 1, 0x1p53, -0x1p53 + 1, 0x1p63, 1e300, -1e300, 1e-300, -1e-300,
		math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN()}
	for _, x := range special {
		for _, y := range special {
			got, want := Of(x, y), math.Pow(x, y)
			if got != got && want != want {
				continue
			}
			if !(got == want || math.Abs(got-want) <= 1e-13*math.Abs(want)) || math.Signbit(got) != math.Signbit(want) {
				t.Errorf("Of(%v, %v) is %v, not %v", x, y, got, want)
			}
		}
	}
}

// TestTables checks what the exactness of sums depends on.
func TestTables(t *testing.T) {
	for i, e := range logTable {
		least := math.Float64frombits(logFrom + uint64(i)<<(52-logBits))
		next := math.Float64frombits(logFrom + uint64(i+1)<<(52-logBits))
		r := math.Max(math.Abs(least*e.inverse-1), math.Abs(next*e.inverse-1))
		if r >= 1.0/(1<<logBits) {
			t.Errorf("entry %d: a remainder is %v", i, r)
		}
		if bits := e.inverse * (1 << 8); bits != math.Trunc(bits) {
			t.Errorf("entry %d: the inverse %v has more than 9 bits", i, e.inverse)
		}
		if e.high != 0 && math.Abs(e.high) < r {
			t.Errorf("entry %d: the logarithm %v is less than a remainder, %v", i, e.high, r)
		}
		if contains := least <= 1 && 1 < next; contains != (e.inverse == 1) || contains != (e.high == 0 && e.low == 0) {
			t.Errorf("entry %d of numbers from %v to %v has the logarithm %v of %v", i, least, next, e.high, e.inverse)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	var x, y, z [1000]float64
	for i := range x {
		x[i], y[i] = rand.Float64()+0.1, rand.Float64()*10
	}
	for b.Loop() {
		for i := range x {
			z[i] = Of(x[i], y[i])
		}
	}
}
