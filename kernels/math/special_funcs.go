package math

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/powers"
)

// These are Bessel functions and other integrals that TensorFlow has ops for. Where no series is both short and accurate, the trapezoidal
// rule integrates them. It converges exponentially for integrands that vanish on both sides.

// besselIe is exp(-x) times the modified Bessel function of the first kind of order 0 or 1, for non-negative x. The series has only
// positive terms. The other branch is the expansion for large arguments.
func besselIe(order int, x float64) float64 {
	if x > 40 {
		// Terms shrink up to about the 2x-th.
		mu, term, sum := 4*float64(order*order), 1.0, 1.0
		for k := 1.0; k < 40; k++ {
			next := -term * (mu - (2*k-1)*(2*k-1)) / (k * 8 * x)
			if math.Abs(next) > math.Abs(term) {
				break
			}
			term = next
			sum += term
			if math.Abs(term) < 1e-17*sum {
				break
			}
		}
		return sum / (math.Sqrt(2*math.Pi) * math.Sqrt(x)) // two roots, since 2πx may overflow
	}
	term := 1.0
	if order == 1 {
		term = x / 2
	}
	sum, square := term, x*x/4
	for k := 1.0; term > 1e-17*sum; k++ {
		term *= square / (k * (k + float64(order)))
		sum += term
	}
	return sum * math.Exp(-x)
}

func besselI0e(x float64) float64 {
	if math.IsInf(x, 0) {
		return 0
	}
	return besselIe(0, math.Abs(x))
}

func besselI1e(x float64) float64 {
	if math.IsInf(x, 0) {
		return 0
	}
	return math.Copysign(besselIe(1, math.Abs(x)), x)
}

func besselI0(x float64) float64 { return timesExp(besselI0e(x), math.Abs(x)) }

func besselI1(x float64) float64 { return timesExp(besselI1e(x), math.Abs(x)) }

// besselKe is exp(x) times the modified Bessel function of the second kind: the integral of exp(-x(cosh t - 1)) cosh(order·t) over t from
// 0.
func besselKe(order, x float64) float64 {
	switch {
	case x <= 0: // TensorFlow returns the limit at 0 for all negative x, where the function is complex
		return math.Inf(1)
	case math.IsNaN(x):
		return x
	case math.IsInf(x, 1): // the steps below would have length 0
		return 0
	}
	if x > 1e4 { // the expansion for large arguments
		mu, term, sum := 4*order*order, 1.0, 1.0
		for k := 1.0; k < 6; k++ {
			term *= (mu - (2*k-1)*(2*k-1)) / (k * 8 * x)
			sum += term
		}
		return sum * math.Sqrt(math.Pi/2) / math.Sqrt(x)
	}
	if x < 1 {
		return besselKSeries(order, x) * math.Exp(x)
	}
	// For large x, the integrand is about 1/sqrt(x) wide. Its factors are multiplied by adding exponents, which overflow later.
	step := 1.0 / 32 / math.Max(1, math.Sqrt(x))
	sum := 0.5
	for t := step; ; t += step {
		s := math.Sinh(t / 2)
		term := math.Exp(order*t-2*x*s*s) * (1 + math.Exp(-2*order*t)) / 2
		sum += term
		if term <= 1e-18*sum && 2*x*s*s > order*t {
			return sum * step
		}
	}
}

// besselKSeries is the modified Bessel function of the second kind for x below 1, as a power series.
func besselKSeries(order, x float64) float64 {
	const euler = 0.57721566490153286
	square := x / 2 * (x / 2)
	l := log64(x/2) + euler
	if x < 0x1p-1021 { // x/2 may have been rounded
		l = log64(x) - math.Ln2 + euler
	}
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

func besselK0e(x float64) float64 { return besselKe(0, x) }

func besselK1e(x float64) float64 { return besselKe(1, x) }

func besselK0(x float64) float64 { return besselKe(0, x) * math.Exp(-x) }

func besselK1(x float64) float64 { return besselKe(1, x) * math.Exp(-x) }

// besselY0 and besselY1 are -∞ at 0, and also for negative arguments, where they are complex.
func besselY0(x float64) float64 {
	if x < 0 {
		return math.Inf(-1)
	}
	if x > 0 && x < 0x1p-1000 {
		const euler = 0.57721566490153286
		return 2 / math.Pi * (log64(x) - math.Ln2 + euler)
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

// dawson is exp(-x²) times the integral of exp(t²) from 0 to x, by sampling (Rybicki).
func dawson(x float64) float64 {
	const h = 0.2
	size := math.Abs(x)
	switch {
	case math.IsNaN(x):
		return x
	case size < 0.25:
		term, sum := x, x
		for k := 1.0; math.Abs(term) > 1e-18*math.Abs(sum); k++ {
			term *= -2 * x * x / (2*k + 1)
			sum += term
		}
		return sum
	case size > 50: // the expansion for large arguments
		r := 0.5 / (x * x)
		return 0.5 / x * (1 + r*(1+r*(3+r*(15+r*105))))
	}
	center := 2 * math.Round(size/(2*h))
	sum := 0.0
	for n := -51.0; n <= 51; n += 2 {
		d := size - (center+n)*h
		sum += math.Exp(-d*d) / (center + n)
	}
	return math.Copysign(sum/math.Sqrt(math.Pi), x)
}

// gaussNodes and gaussWeights are the positive half of 10-point Gauss-Legendre quadrature on [-1,1].
var (
	gaussNodes   = [5]float64{0.1488743389816312, 0.4333953941292472, 0.6794095682990244, 0.8650633666889845, 0.9739065285171717}
	gaussWeights = [5]float64{0.2955242247147529, 0.2692667193099963, 0.2190863625159820, 0.1494513491505806, 0.0666713443086881}
)

// fresnel returns the integrals of sin(πt²/2) and cos(πt²/2) from 0 to x.
func fresnel(x float64) (s, c float64) {
	size := math.Abs(x)
	switch {
	case math.IsNaN(x):
		return x, x
	case size < 1e-4: // products with the weights below may be less than the least number
		return math.Pi / 6 * x * x * x, x
	case size > 1e8:
		return math.Copysign(0.5, x), math.Copysign(0.5, x)
	case size > 6:
		// Use the expansions of the auxiliary functions.
		z := math.Pi * size * size
		f, g, term := 0.0, 0.0, 1.0
		for k := 0; k < 12; k++ {
			f += term
			term *= float64(4*k+1) / z
			g += term
			term *= -float64(4*k+3) / z
		}
		f, g = f/(math.Pi*size), g/(math.Pi*size)
		sin, cos := math.Sincos(math.Mod(size*size, 4) * math.Pi / 2)
		s, c = 0.5-f*cos-g*sin, 0.5+f*sin-g*cos
	default:
		panels := 1 + int(size*size*2)
		width := size / float64(panels)
		for p := range panels {
			middle := (float64(p) + 0.5) * width
			for i, node := range gaussNodes {
				for _, t := range [2]float64{middle - node*width/2, middle + node*width/2} {
					sin, cos := math.Sincos(math.Pi / 2 * t * t)
					s += gaussWeights[i] * sin * width / 2
					c += gaussWeights[i] * cos * width / 2
				}
			}
		}
	}
	return math.Copysign(s, x), math.Copysign(c, x)
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
	const euler = 0.57721566490153286
	switch {
	case x < 0 || math.IsNaN(x):
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case x > 720: // the inverse of x, which is a factor below, may be less than the least number
		return math.Inf(1)
	case x > 40:
		term, sum := 1.0, 1.0
		for k := 1.0; k < x; k++ {
			term *= k / x
			sum += term
			if term < 1e-17 {
				break
			}
		}
		return timesExp(sum/x, x)
	}
	term, sum := 1.0, 0.0
	for k := 1.0; k < 500; k++ {
		term *= x / k
		sum += term / k
		if math.Abs(term/k) < 1e-18*math.Abs(sum) {
			break
		}
	}
	return euler + log64(math.Abs(x)) + sum
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
