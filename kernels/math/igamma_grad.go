package math

import (
	"math"
)

// igammaGradA is the derivative of the regularized lower incomplete gamma function with respect to a.
func igammaGradA(a, x float64) float64 { return gammaDerivative(a, x, false) }

// gammaSampleGrad is the derivative of a sample x of the gamma distribution with respect to the shape a, for samples made by inverting the
// distribution function.
func gammaSampleGrad(a, x float64) float64 { return gammaDerivative(a, x, true) }

func gammaDerivative(a, x float64, sample bool) float64 {
	switch {
	case x == 0 && !math.IsNaN(a), x > 0 && math.IsInf(a, 1) && !math.IsInf(x, 1):
		return 0
	case x < 0 || a <= 0 || math.IsNaN(a) || math.IsNaN(x):
		return math.NaN()
	case isPeaked(a, x):
		return tailDerivative(a, x, sample)
	case x > 1 && x > a:
		return -fractionDerivative(a, x, sample)
	}
	return seriesDerivative(a, x, sample)
}

// gammaDerivativeSteps bounds the number of terms. It suffices for double precision at the shapes that need the most.
const gammaDerivativeSteps = 8000

const machineEpsilon = 1.11022302462515654042e-16

// tailDerivative is gammaDerivative for large shapes.
func tailDerivative(a, x float64, sample bool) float64 {
	direction := -1.0
	if x > a {
		direction = 1
	}
	_, slope := gammaTail(a, x, direction)
	slope *= -direction
	if sample {
		return -slope
	}
	return slope * gammaFactor(a, x) * (a / x)
}

// seriesDerivative differentiates the power series P = x^a e^-x / Γ(a+1) · Σ c term by term, where each c is the previous one times
// x/(a+k).
func seriesDerivative(a, x float64, sample bool) float64 {
	factor := gammaFactor(a, x)
	if factor == 0 && !sample {
		return 0
	}
	r, c, sum := a, 1.0, 1.0
	dc, dsum := 0.0, 0.0
	for range gammaDerivativeSteps {
		r++
		term := x / r
		dc = term*dc - x/(r*r)*c
		dsum += dc
		c *= term
		sum += c
		if math.Abs(dc) <= machineEpsilon*math.Abs(dsum) {
			break
		}
	}
	dlog := log64(x) - digamma64(a+1)
	if sample {
		return -(dsum + sum*dlog) * x / a
	}
	return sum*factor*dlog + dsum*factor
}

// fractionDerivative differentiates the continued fraction of the upper function, whose convergents are p/q.
func fractionDerivative(a, x float64, sample bool) float64 {
	if math.IsInf(x, 1) {
		return 0
	}
	factor := a * gammaFactor(a, x)
	if factor == 0 && !sample {
		return 0
	}
	const big = 4.503599627370496e15
	y, z, c := 1-a, x+2-a, 0.0
	p2, q2, p1, q1 := 1.0, x, x+1, (x+2-a)*x
	ans := p1 / q1
	dp2, dq2, dp1, dq1 := 0.0, 0.0, 0.0, -x
	dans := (dp1 - ans*dq1) / q1
	for range gammaDerivativeSteps {
		c, y, z = c+1, y+1, z+2
		yc := y * c
		p, q := p1*z-p2*yc, q1*z-q2*yc
		dp, dq := dp1*z-p1-dp2*yc+p2*c, dq1*z-q1-dq2*yc+q2*c
		if q != 0 {
			ans = p / q
			last := dans
			dans = (dp - ans*dq) / q
			if math.Abs(dans-last) <= machineEpsilon {
				break
			}
		}
		p2, p1, q2, q1 = p1, p, q1, q
		dp2, dp1, dq2, dq1 = dp1, dp, dq1, dq
		if math.Abs(p) > big {
			for _, v := range []*float64{&p2, &p1, &q2, &q1, &dp2, &dp1, &dq2, &dq1} {
				*v /= big
			}
		}
	}
	dlog := log64(x) - digamma64(a)
	if sample {
		return -(dans + ans*dlog) * x
	}
	return ans*factor*dlog + dans*factor
}
