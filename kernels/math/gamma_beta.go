package math

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/kernels/internal/powers"
)

// These are the distribution functions of the gamma and beta distributions. Both integrate a density with a single maximum. The density's
// logarithm is taken relative to that maximum: for large shapes, differences of log-gamma values would leave few digits.

// largeShape is the shape from which densities are integrated by quadrature. The number of terms of series and continued fractions grows
// with the root of the shape.
const largeShape = 3000

// tinyShape is the shape below which functions are so close to 0 or 1 that the distance is computed instead.
const tinyShape = 1e-4

// smallShape is the same bound for functions of one shape. It is higher, since their series is not cut after a few terms.
const smallShape = 0.1

// leastExponent is an exponent for which exp returns 0, with a margin for factors.
const leastExponent = -800

// peak is a^a·exp(-a)/Γ(a+1), the maximum of a gamma density, for a not negative.
func peak(a float64) float64 {
	if a < 10 {
		return powers.Of(a, a) * math.Exp(-a) / math.Gamma(a+1)
	}
	r := 1 / (a * a)
	stirling := (1.0/12 - r*(1.0/360-r*(1.0/1260-r*(1.0/1680-r*(1.0/1188-r*(691.0/360360-r/156)))))) / a
	return math.Exp(-stirling) / math.Sqrt(2*math.Pi) / math.Sqrt(a)
}

// excess is z - log(1+z), for z above -1.
func excess(z float64) float64 {
	if z < -0.25 || z > 0.25 {
		return z - math.Log1p(z)
	}
	r := z / (2 + z)
	s, sum := r*r, 0.0
	for k := 21.0; k >= 3; k -= 2 {
		sum = sum*s + 1/k
	}
	return r * (z - 2*s*sum)
}

// deviance is a·(z-log(1+z)) for z = v/a, where a(1+z) = m·x. It is the drop of a density's logarithm from the maximum, which is at a.
func deviance(a, v, m, x float64) float64 {
	switch w := m * x / a; {
	case math.Abs(v) < a/4:
		return a * excess(v/a)
	case w > 1e-290 && w < 1e290 && m*x > 1e-290 && m*x < 1e290:
		return v - a*log64(w)
	}
	return v - a*(log64(m)+log64(x)-log64(a))
}

// tailNodes and tailWeights are the positive half of 20-point Gauss-Legendre quadrature on [-1,1].
var (
	tailNodes = [10]float64{0.07652652113349734, 0.22778585114164507, 0.37370608871541955, 0.5108670019508271, 0.636053680726515,
		0.7463319064601508, 0.8391169718222188, 0.912234428251326, 0.9639719272779138, 0.9931285991850949}
	tailWeights = [10]float64{0.15275338713072584, 0.14917298647260374, 0.14209610931838204, 0.13168863844917664, 0.11819453196151841,
		0.10193011981724044, 0.08327674157670475, 0.06267204833410907, 0.04060142980038694, 0.017614007139152118}
)

// tail integrates a density of width sigma with its maximum at 0, from v outward. direction is the sign of the side on which v lies. The
// integral ends where the rest is negligible.
func tail(v, sigma, direction float64, density func(v float64) float64) float64 {
	const panels = 4
	s := math.Abs(v) / sigma
	// At the end a normal density has dropped to exp(-40). Wider densities retain more.
	width := 1.6 * sigma * (80 / (math.Sqrt(s*s+80) + s)) / panels
	sum := 0.0
	for p := range panels {
		middle := v + direction*(float64(p)+0.5)*width
		for i, node := range tailNodes {
			sum += tailWeights[i] * (density(middle-node*width/2) + density(middle+node*width/2))
		}
	}
	return sum * width / 2
}

// betainc is the regularized incomplete beta function.
func betainc(a, b, x float64) float64 {
	switch {
	case math.IsNaN(a) || math.IsNaN(b) || math.IsNaN(x) || a <= 0 || b <= 0 || x < 0 || x > 1:
		return math.NaN()
	case x == 0 || x == 1:
		return x
	case math.IsInf(a, 1) || math.IsInf(b, 1):
		return math.NaN()
	}
	if a > 1e300 && b > 1e300 { // the sum may overflow; smaller shapes give the same to the last digit
		a, b = a*0x1p-20, b*0x1p-20
	}
	// Below the mean the integral from 0 is computed, above it the one up to 1. The side must be chosen only once: for the rounded 1-x, the
	// test might pick the same side again.
	y := 1 - x
	switch {
	case b <= 1 && y <= 1e-3 && a*y <= 1: // the continued fraction of 1-y converges slowly
		if b < tinyShape {
			return betaFromOne(a, b, y)
		}
		return 1 - betaSeries(b, a, y, x)
	case b*x <= a*y:
		return betaBelow(a, b, x, y)
	case b*x <= 1 && x <= 0.95: // the difference from 1 may have no digits left
		return betaSeries(a, b, x, y)
	}
	return 1 - betaBelow(b, a, y, x)
}

// betaFactor is x^a·y^b/(a·B(a,b)), for y = 1-x.
func betaFactor(a, b, x, y float64) float64 {
	n, v := a+b, b*x-a*y
	return peak(a) * peak(b) / peak(n) * (b / n) * math.Exp(-deviance(a, v, n, x)-deviance(b, -v, n, y))
}

// betaSeries is betainc as a power series in x. Its terms have one sign or, for b·x of at most 1, nearly so.
func betaSeries(a, b, x, y float64) float64 {
	term, sum := 1.0, 1.0
	for k := 1.0; k < 2000 && math.Abs(term) > 1e-17*sum; k++ {
		term *= (k - b) * x / k
		sum += term * (a / (a + k))
	}
	return betaFactor(a, b, x, y) * math.Exp(-b*math.Log1p(-x)) * sum
}

// betaFromOne is betainc for tiny b and small y = 1-x: 1 minus the function of y in b and a, whose logarithm is about b.
func betaFromOne(a, b, y float64) float64 {
	// The terms of betaSeries, except the first, divided by b.
	term, sum := 1.0, 0.0
	for k := 1.0; k < 2000 && math.Abs(term) > 1e-17*math.Abs(sum); k++ {
		term *= (k - a) * y / k
		sum += term / (b + k)
	}
	// Taylor series of the logarithm of Γ(a+b)/Γ(a).
	rise := digamma64(a) + b*(zeta(2, a)/2-b*(zeta(3, a)/3-b*zeta(4, a)/4))
	return -math.Expm1(b*(log64(y)+rise) - lgammaFromOne(b) + math.Log1p(b*sum))
}

// zetas are ζ(k)/k for k from 2.
var zetas = [...]float64{
	0.8224670334241132, 0.40068563438653143, 0.27058080842778454, 0.20738555102867398, 0.1695571769974082,
	0.1440498967688461, 0.12550966952474304, 0.11133426586956469, 0.1000994575127818, 0.09095401714582904,
	0.083353840546109, 0.0769325164113522, 0.07143294629536133, 0.06666870588242046, 0.06250095514121304,
	0.058823978658684585, 0.055555767627403614, 0.05263167937961666, 0.05000004769810169, 0.047619070330142226,
}

// lgammaFromOne is the logarithm of Γ(1+a), for a below smallShape.
func lgammaFromOne(a float64) float64 {
	const euler = 0.57721566490153286
	sum := 0.0
	for _, z := range slices.Backward(zetas[:]) {
		sum = z - a*sum
	}
	return a * (a*sum - euler)
}

// betaBelow is betainc for x not above the mean a/(a+b).
func betaBelow(a, b, x, y float64) float64 {
	if a > largeShape && b > largeShape {
		return betaTail(a, b, x, y)
	}
	near := func(v float64) float64 {
		if math.Abs(v) < 1e-300 {
			return 1e-300
		}
		return v
	}
	// Lentz's method for the continued fraction.
	n := a + b
	c, d := 1.0, 1/near(1-n/(a+1)*x)
	h := d
	for m := 1.0; m < 10000; m++ {
		even := m / (a + 2*m - 1) * ((b - m) / (a + 2*m)) * x
		d, c = 1/near(1+even*d), near(1+even/c)
		h *= d * c
		odd := -(a + m) / (a + 2*m) * ((n + m) / (a + 2*m + 1)) * x
		d, c = 1/near(1+odd*d), near(1+odd/c)
		h *= d * c
		if math.Abs(d*c-1) < 1e-16 {
			break
		}
	}
	return betaFactor(a, b, x, y) * h
}

// betaTail is betaBelow for large shapes, by quadrature over v, which is a+b times the distance from the mean.
func betaTail(a, b, x, y float64) float64 {
	n, v := a+b, b*x-a*y
	most := deviance(a, v, n, x) + deviance(b, -v, n, y)
	if most > -leastExponent {
		return 0
	}
	sigma := math.Sqrt(a) * math.Sqrt(b/n)
	sum := tail(v, sigma, -1, func(v float64) float64 {
		// t·(1-t) is (a+v)(b-v)/n².
		return math.Exp(most-a*excess(v/a)-b*excess(-v/b)) / ((1 + v/a) * (1 - v/b))
	})
	return peak(a) * peak(b) / peak(n) * math.Exp(-most) * sum
}

// igamma is the regularized lower incomplete gamma function, igammac the upper one.
func igamma(a, x float64) float64 {
	switch {
	case x == 0:
		return 0
	case x < 0 || a <= 0 || math.IsNaN(a) || math.IsNaN(x):
		return math.NaN()
	case math.IsInf(a, 1):
		if math.IsInf(x, 1) {
			return math.NaN()
		}
		return 0
	case math.IsInf(x, 1):
		return 1
	case x > 1 && x > a:
		return 1 - gammaAbove(a, x)
	}
	return gammaBelow(a, x)
}

func igammac(a, x float64) float64 {
	switch {
	case x < 0 || a <= 0 || math.IsNaN(a) || math.IsNaN(x):
		return math.NaN()
	case x == 0:
		return 1
	case math.IsInf(a, 1):
		if math.IsInf(x, 1) {
			return math.NaN()
		}
		return 1
	case math.IsInf(x, 1):
		return 0
	case x > 1 && x > a:
		return gammaAbove(a, x)
	case a < smallShape && x <= 1:
		return gammaFromOne(a, x)
	}
	return 1 - gammaBelow(a, x)
}

// gammaFactor is x^a·exp(-x)/Γ(a+1).
func gammaFactor(a, x float64) float64 { return peak(a) * math.Exp(-deviance(a, x-a, 1, x)) }

// gammaBelow is igamma for x not above a, or not above 1.
func gammaBelow(a, x float64) float64 {
	if isPeaked(a, x) {
		p, _ := gammaTail(a, x, -1)
		return p
	}
	term, sum := 1.0, 1.0
	for k := 1.0; k < 20000 && term > 1e-17*sum; k++ {
		term *= x / (a + k)
		sum += term
	}
	return sum * gammaFactor(a, x)
}

// gammaFromOne is igammac for small a and x not above 1: 1 minus a function whose logarithm is about a.
func gammaFromOne(a, x float64) float64 {
	term, sum := 1.0, 0.0
	for k := 1.0; k < 40; k++ {
		term *= -x / k
		sum += term / (a + k)
	}
	return -math.Expm1(a*log64(x) - lgammaFromOne(a) + math.Log1p(a*sum))
}

// gammaAbove is igammac for x above a and 1, by Lentz's method for a continued fraction.
func gammaAbove(a, x float64) float64 {
	if isPeaked(a, x) {
		q, _ := gammaTail(a, x, 1)
		return q
	}
	b := x + 1 - a
	c, d := 1e300, 1/b
	h := d
	for i := 1.0; i < 20000; i++ {
		an := -i * (i - a)
		b += 2
		if d = an*d + b; math.Abs(d) < 1e-300 {
			d = 1e-300
		}
		if c = b + an/c; math.Abs(c) < 1e-300 {
			c = 1e-300
		}
		d = 1 / d
		h *= d * c
		if math.Abs(d*c-1) < 1e-16 {
			break
		}
	}
	return h * a * gammaFactor(a, x)
}

// isPeaked reports whether the gamma density at x is near enough to that of a normal distribution for gammaTail. Elsewhere, the series and the
// continued fraction have few terms.
func isPeaked(a, x float64) bool { return a > largeShape && math.Abs(x-a) < a/2 }

// gammaTail integrates the gamma density of a large shape from x on, outward: down for a direction of -1, up for 1. slope is the derivative
// of the integral by the shape, over the density at x.
func gammaTail(a, x, direction float64) (integral, slope float64) {
	v := x - a
	most := deviance(a, v, 1, x)
	density := func(v float64) float64 { return math.Exp(most-a*excess(v/a)) / (1 + v/a) }
	sigma := math.Sqrt(a)
	integral = tail(v, sigma, direction, density) * peak(a) * math.Exp(-most)
	// The density's logarithm has the derivative log(t) - ψ(a).
	from := (0.5 + (1.0/12-1/(120*a*a))/a) / a
	slope = tail(v, sigma, direction, func(v float64) float64 { return density(v) * (math.Log1p(v/a) + from) }) * (1 + v/a)
	return integral, slope
}
