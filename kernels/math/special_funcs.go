package math

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/powers"
)

// These are Bessel functions and other integrals that TensorFlow has ops for. Most are sums of few powers on intervals of their arguments
// (polynomials.go), and series elsewhere.

// polynomial approximates a function on an interval by powers of (x-middle)·scale, which goes from -1 to 1.
type polynomial struct {
	end           float64 // of the interval
	middle, scale float64
	coefs         []float64 // by powers
}

// pieces are the polynomials of intervals that follow one another. The last one is also used beyond its end.
type pieces []polynomial

func (p pieces) at(x float64) float64 {
	for len(p) > 1 && x >= p[0].end {
		p = p[1:]
	}
	u, coefs := (x-p[0].middle)*p[0].scale, p[0].coefs
	sum := 0.0
	for i := len(coefs) - 1; i >= 0; i-- {
		sum = sum*u + coefs[i]
	}
	return sum
}

const besselTail = 8 // from where the inverse of the argument is the variable

var (
	besselIMiddle = [2]pieces{besselIPieces0, besselIPieces1}
	besselIEnd    = [2]pieces{besselITail0, besselITail1}
	besselKMiddle = [2]pieces{besselKPieces0, besselKPieces1}
	besselKEnd    = [2]pieces{besselKTail0, besselKTail1}
)

// besselISeries is the modified Bessel function of the first kind of order 0 or 1, for x from 0 to 1, by its power series.
func besselISeries(order int, x float64) float64 {
	square, sum := x*x/4, 1.0
	for k := 10.0; k > 0; k-- {
		sum = 1 + sum*square/(k*(k+float64(order)))
	}
	if order == 1 {
		sum *= x / 2
	}
	return sum
}

// besselIe is exp(-x) times the modified Bessel function of the first kind of order 0 or 1, for non-negative x.
func besselIe(order int, x float64) float64 {
	switch {
	case math.IsInf(x, 1):
		return 0
	case x < 1:
		return besselISeries(order, x) * math.Exp(-x)
	case x >= besselTail:
		return besselIEnd[order].at(1/x) / math.Sqrt(x)
	case order == 1:
		return besselIMiddle[1].at(x) * x
	}
	return besselIMiddle[0].at(x)
}

// besselI is the modified Bessel function of the first kind of order 0 or 1, for non-negative x.
func besselI(order int, x float64) float64 {
	switch {
	case math.IsInf(x, 1):
		return x
	case x < 1:
		return besselISeries(order, x)
	}
	return timesExp(besselIe(order, x), x)
}

func besselI0e(x float64) float64 { return besselIe(0, math.Abs(x)) }

func besselI1e(x float64) float64 { return math.Copysign(besselIe(1, math.Abs(x)), x) }

func besselI0(x float64) float64 { return besselI(0, math.Abs(x)) }

func besselI1(x float64) float64 { return math.Copysign(besselI(1, math.Abs(x)), x) }

// besselKe is exp(x) times the modified Bessel function of the second kind of order 0 or 1.
func besselKe(order int, x float64) float64 {
	switch {
	case x <= 0: // TensorFlow returns the limit at 0 for all negative x, where the function is complex
		return math.Inf(1)
	case x < 1:
		return besselKSeries(order, x) * math.Exp(x)
	case x < besselTail:
		return besselKMiddle[order].at(x)
	}
	return besselKEnd[order].at(1/x) / math.Sqrt(x)
}

// besselK is the modified Bessel function of the second kind of order 0 or 1.
func besselK(order int, x float64) float64 {
	if x > 0 && x < 1 {
		return besselKSeries(order, x)
	}
	return besselKe(order, x) * math.Exp(-x)
}

// besselKSeries is the modified Bessel function of the second kind for x below 1, as a power series, whose terms have one sign.
func besselKSeries(order int, x float64) float64 {
	l := logBessel(x)
	square := x / 2 * (x / 2)
	// Σ square^k/(k!·(k+order)!)·(harmonic numbers of both - l)
	term, sum, harmonic := 1.0, 0.0, 0.0
	if order == 0 {
		for k := 0.0; ; {
			sum += term * (harmonic - l)
			if term < 1e-18 {
				return sum
			}
			k++
			term *= square / (k * k)
			harmonic += 1 / k
		}
	}
	next := 1.0
	for k := 0.0; ; {
		sum += term * (l - (harmonic+next)/2)
		if term < 1e-18 {
			return 1/x + sum*x/2
		}
		k++
		term *= square / (k * (k + 1))
		harmonic, next = harmonic+1/k, next+1/(k+1)
	}
}

// logBessel is log(x/2) + γ. It is the logarithm of one product, since the two terms nearly cancel where x is about 1.
func logBessel(x float64) float64 {
	const euler = 0.57721566490153286
	const high, low = 0x1.c7f45cab1356cp-1, -0x1.d6b0214a2928cp-58 // exp(γ)/2
	if x < 0x1p-1000 {                                             // the product may be subnormal
		return log64(x) - math.Ln2 + euler
	}
	product := x * high
	return math.Log(product) + (math.FMA(x, high, -product)+x*low)/product
}

func besselK0e(x float64) float64 { return besselKe(0, x) }

func besselK1e(x float64) float64 { return besselKe(1, x) }

func besselK0(x float64) float64 { return besselK(0, x) }

func besselK1(x float64) float64 { return besselK(1, x) }

// besselY0 and besselY1 are -∞ at 0, and also for negative arguments, where they are complex.
func besselY0(x float64) float64 {
	if x < 0 {
		return math.Inf(-1)
	}
	switch {
	case x > 0 && x < 0x1p-1000:
		return 2 / math.Pi * logBessel(x)
	case x > 0.75 && x < 1.125: // math.Y0 subtracts nearly equal numbers
		return (x - besselY0Zero[0] - besselY0Zero[1]) * besselY0Rise.at(x)
	}
	return math.Y0(x)
}

// besselJ1 is odd. math.J1 is not, for the smallest arguments.
func besselJ1(x float64) float64 {
	if x < 0 {
		return -math.J1(-x)
	}
	return math.J1(x)
}

func besselY1(x float64) float64 {
	if x < 0 {
		return math.Inf(-1)
	}
	return math.Y1(x)
}

// dawson is exp(-x²) times the integral of exp(t²) from 0 to x.
func dawson(x float64) float64 {
	size := math.Abs(x)
	switch {
	case size < 1:
		return x + x*x*x*dawsonRise.at(x*x)
	case size < 8:
		return math.Copysign(dawsonPieces.at(size), x)
	}
	r := 1 / x / x // which does not overflow
	return 0.5 / x * (1 + r*dawsonTail.at(r))
}

// fresnel returns the integrals of sin(πt²/2) and cos(πt²/2) from 0 to x.
func fresnel(x float64) (s, c float64) {
	size := math.Abs(x)
	switch {
	case size < 1.25:
		cube, z := x*x*x, x*x*x*x
		return cube * fresnelSinRise.at(z), x + x*z*fresnelCosRise.at(z)
	case math.IsNaN(x):
		return x, x
	case size > 1e17: // closer to the limit than numbers are to one another
		return math.Copysign(0.5, x), math.Copysign(0.5, x)
	}
	// The angle is the whole square's, of which a number may hold no digit that matters.
	square := x * x
	most, rest := math.Mod(square, 4), math.Mod(math.FMA(x, x, -square), 4)
	quarters := math.RoundToEven(most + rest)
	sin, cos := math.Sincos((most - quarters + rest) * (math.Pi / 2))
	for range (int(quarters) + 4) % 4 {
		sin, cos = cos, -sin
	}
	t := 1 / square
	f, g := fresnelF.at(t)/size, fresnelG.at(t)/size*t
	return math.Copysign(0.5-f*cos-g*sin, x), math.Copysign(0.5+f*sin-g*cos, x)
}

func fresnelSin(x float64) float64 { s, _ := fresnel(x); return s }

func fresnelCos(x float64) float64 { _, c := fresnel(x); return c }

// spence is the integral of log(t)/(1-t) from 1 to x: the dilogarithm of 1-x.
func spence(x float64) float64 {
	switch {
	case x < 0 || math.IsNaN(x):
		return math.NaN()
	case x == 0:
		return math.Pi * math.Pi / 6
	case math.IsInf(x, 1):
		return math.Inf(-1)
	case x > 2: // transform to 1/x
		l := math.Log(x)
		return -l*l/2 - spence(1/x)
	case x > 1.5: // dilog(1-x) by inversion
		l := math.Log(x)
		return -l*l/2 - spence(1/x)
	case x < 0.5: // transform to 1-x
		return math.Pi*math.Pi/6 - log64(x)*math.Log1p(-x) - spence(1-x)
	}
	z, power, sum := 1-x, 1-x, 0.0
	for k := 1.0; k < 200; k++ {
		term := power / (k * k)
		sum += term
		if math.Abs(term) < 1e-18 {
			break
		}
		power *= z
	}
	return sum
}

// expint is the exponential integral Ei, for non-negative x.
func expint(x float64) float64 {
	switch {
	case x < 0 || math.IsNaN(x):
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case x > 720: // the inverse of x, which is a factor below, may be less than the least number
		return math.Inf(1)
	case x >= 48:
		term, sum := 1.0, 1.0
		for k := 1.0; term > 1e-17; k++ {
			term *= k / x
			sum += term
		}
		return timesExp(sum/x, x)
	case x >= 0.75:
		return expintPieces.at(x) / x * math.Exp(x)
	case x > 0.25:
		return (x - expintZero[0] - expintZero[1]) * expintRise.at(x)
	}
	sum := 0.0
	for k := 12.0; k > 0; k-- {
		sum = (1/k + sum) * x / k
	}
	return logBessel(x) + math.Ln2 + sum
}

// zeta is the Hurwitz zeta function, by the Euler-Maclaurin formula.
func zeta(x, q float64) float64 {
	switch {
	case x == 1:
		return math.Inf(1)
	case math.IsNaN(x) || math.IsNaN(q) || x < 1:
		return math.NaN()
	case q <= 0 && q == math.Floor(q) && x == 2*math.Floor(x/2):
		return math.Inf(1)
	case q <= 0 && q == math.Floor(q): // the sign at poles of odd order is ambiguous
		return math.NaN()
	case q <= 0 && x != math.Floor(x):
		return math.NaN()
	case q < -64:
		// Terms of negative numbers equal those of their magnitudes, up to the sign. Their sum is a difference of two zetas, however many
		// terms there are.
		n := -math.Floor(q)
		least := -(q + n - 1)
		negative := zeta(x, least) - zeta(x, least+n)
		if math.Mod(x, 2) != 0 {
			negative = -negative
		}
		return negative + zeta(x, q+n)
	}
	if math.IsInf(x, 1) && q > 0 { // only the first term may remain
		return powers.Of(q, -x)
	}
	sum := 0.0
	n := max(12, 12-math.Floor(q))
	for k := range int(n) {
		sum += powers.Of(q+float64(k), -x)
	}
	a := q + n
	sum += powers.Of(a, 1-x)/(x-1) + powers.Of(a, -x)/2
	// B(2k)/(2k)! · x(x+1)…(x+2k-2) · a^(-x-2k+1)
	bernoulli := [...]float64{1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330}
	rising, factorial := x, 2.0
	for k, b := range bernoulli {
		power := powers.Of(a, -x-2*float64(k+1)+1)
		if power == 0 { // the other factors may overflow
			break
		}
		term := b / factorial * rising * power
		sum += term
		if math.Abs(term) < 1e-17*math.Abs(sum) {
			break
		}
		m := 2 * float64(k+1)
		rising *= (x + m - 1) * (x + m)
		factorial *= (m + 1) * (m + 2)
	}
	return sum
}

// polygamma is the n-th derivative of digamma. Like TensorFlow, it computes n+1 in the type of its arguments, where a large even order
// stays even.
func polygamma[T element.Floating](n, x T) T {
	switch {
	case n == 0:
		return T(digamma64(float64(x)))
	case !(n >= 0) || float64(n) != math.Floor(float64(n)):
		return T(math.NaN())
	}
	order := float64(n + 1)
	sign := 1.0
	if math.Mod(order, 2) == 1 {
		sign = -1
	}
	return T(sign * math.Gamma(order) * zeta(order, float64(x)))
}
