package math

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestTrigonometric compares with functions computed to a hundred digits, next to multiples of π/2 and for arguments of all sizes.
func TestTrigonometric(t *testing.T) {
	const digits = 1500
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(digits).SetFloat64(x) }
	arctan := func(n float64) *big.Float { // of 1/n
		sum, power, square := number(0), new(big.Float).Quo(number(1), number(n)), number(-n*n)
		for k := 1.0; power.MantExp(nil) > -digits; k += 2 {
			sum.Add(sum, new(big.Float).Quo(power, number(k)))
			power.Quo(power, square)
		}
		return sum
	}
	// π/2 is 8·arctan(1/5) - 2·arctan(1/239).
	halfPi := new(big.Float).Sub(new(big.Float).Mul(number(8), arctan(5)), new(big.Float).Mul(number(2), arctan(239)))
	exact := func(x float64) (sin, cos *big.Float) {
		n, _ := new(big.Float).Add(new(big.Float).Quo(number(math.Abs(x)), halfPi), number(0.5)).Int(nil)
		r := new(big.Float).Sub(number(math.Abs(x)), new(big.Float).Mul(new(big.Float).SetPrec(digits).SetInt(n), halfPi))
		r.SetPrec(400)
		sin, cos = number(0).SetPrec(400), number(0).SetPrec(400)
		term := number(1).SetPrec(400)
		for k := 0; term.Sign() != 0 && term.MantExp(nil) > -350; k++ {
			sum := [2]*big.Float{cos, sin}[k&1]
			if k&2 == 0 {
				sum.Add(sum, term)
			} else {
				sum.Sub(sum, term)
			}
			term.Quo(term.Mul(term, r), number(float64(k+1)))
		}
		switch n.Bit(0) + 2*n.Bit(1) {
		case 1:
			sin, cos = cos, sin.Neg(sin)
		case 2:
			sin, cos = sin.Neg(sin), cos.Neg(cos)
		case 3:
			sin, cos = cos.Neg(cos), sin
		}
		if x < 0 {
			sin.Neg(sin)
		}
		return sin, cos
	}
	worst := map[string]float64{}
	off := func(name string, x, got float64, exact *big.Float) {
		want, _ := exact.Float64()
		unit := math.Abs(math.Nextafter(want, math.Inf(1)) - want)
		d, _ := new(big.Float).Quo(new(big.Float).Sub(number(got), exact), number(unit)).Float64()
		if d = math.Abs(d); d > 2 || got != got {
			t.Errorf("%s(%x) is %v, not %v: off by %v units in the last place", name, x, got, want, d)
		}
		worst[name] = max(worst[name], d)
	}
	check := func(x float64) {
		sin, cos := exact(x)
		off("sin", x, sin64(x), sin)
		off("cos", x, cos64(x), cos)
		off("tan", x, tan64(x), new(big.Float).Quo(sin, cos))
	}
	r := rand.New(rand.NewPCG(1, 2))
	// The second is the float64 that is closest to a multiple of π/2, relative to its size.
	for _, x := range []float64{1e22, 0x1.6ac5b262ca1ffp+849, math.MaxFloat64, math.Pi, 22, 1<<20 - 1, 1 << 20, 999996141817772.6, 1.6717066259653015e+259} {
		check(x)
		check(-x)
	}
	n := 300
	if testing.Short() {
		n = 50
	}
	for range n {
		check(math.Ldexp(r.Float64()+1, r.IntN(1054)-30))
		check(r.NormFloat64() * 10)
		k := math.Ldexp(r.Float64(), r.IntN(40))
		multiple, _ := new(big.Float).Mul(number(math.Floor(k)), halfPi).Float64()
		if multiple != 0 {
			check(multiple)
			check(math.Nextafter(multiple, 0))
		}
		x := r.Float64()*0.3 + 0.7
		sin, _ := exact(asin64(x))
		// The argument's error is that of the sine, over the cosine.
		_, cos := exact(asin64(x))
		d, _ := new(big.Float).Quo(new(big.Float).Sub(number(x), sin), cos).Float64()
		if math.Abs(d) > 2*0x1p-53 {
			t.Errorf("asin(%x) is %v: off by %v", x, asin64(x), d)
		}
	}
	t.Log(worst)
	for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if sin64(x) == sin64(x) || cos64(x) == cos64(x) || tan64(x) == tan64(x) {
			t.Errorf("functions of %v are not NaN", x)
		}
	}
	if x := math.Copysign(0, -1); !math.Signbit(sin64(x)) || !math.Signbit(tan64(x)) || cos64(x) != 1 || !math.Signbit(asin64(x)) {
		t.Error("functions of -0 lose its sign")
	}
}

func BenchmarkSin64(b *testing.B) {
	for name, size := range map[string]float64{"1": 1, "100": 100, "1e10": 1e10} {
		for of, f := range map[string]func(float64) float64{"own": sin64, "go": math.Sin} {
			b.Run(name+of, func(b *testing.B) {
				sum := 0.0
				for i := 0; b.Loop(); i++ {
					sum += f(size * (1 + float64(i&1023)/1024))
				}
				_ = sum
			})
		}
	}
}
