package math

import "math"

// lgamma64 is the logarithm of the absolute value of the gamma function.
func lgamma64(v float64) float64 {
	switch {
	case math.IsInf(v, 0):
		return math.Inf(1)
	case math.Abs(v) < 0x1p-1000:
		return -log64(math.Abs(v))
	case v > -2 && v < 0 && v != -1: // Γ(v+2) = (v+1) v Γ(v)
		return lgammaAbove(v+2) - log64(-v*math.Abs(v+1))
	case v < -2 && v > -lgammaPoles-0.5 && v != math.Floor(v):
		return lgammaByZero(v)
	}
	return lgammaAbove(v)
}

// lgammaAbove is math.Lgamma, except in the two places where that uses a polynomial beyond its range.
func lgammaAbove(v float64) float64 {
	switch {
	case v > 1.19 && v < 1.232:
		return lgammaRise(1, v-1)
	case v > 0.19 && v < 0.232:
		return lgammaRise(1, v) - math.Log(v)
	}
	l, _ := math.Lgamma(v)
	return l
}

// lgammaByZero is lgamma64 between the poles at -2 and -lgammaPoles, which has a zero next to each side of each pole. By the reflection
//
//	lgamma(x) = log(π/|sin(πx)|) - lgamma(1-x)
//
// it would be a difference of numbers that are much greater than the result. Instead, each of the two is compared with what it is at the zero, of
// which more digits are known than a number has.
func lgammaByZero(x float64) float64 {
	n := math.Round(x)
	if x > -2.6 {
		n = -2 // whose zero is the nearer one
	}
	e := x - n // exact
	pole := lgammaZeros[int(-n)-2]
	at := pole[0]
	if e > 0 {
		at = pole[1]
	}
	if at == [2]float64{} { // between -2 and -1.5 there is none
		l, _ := math.Lgamma(x)
		return l
	}
	d := e - at[0] - at[1] // from the zero
	zero, half := math.Sin(math.Pi*at[0]), math.Pi/2*d
	ratio := 2 * math.Cos(math.Pi/2*(e+at[0])) * math.Sin(half) / zero // of the sines, less 1
	var sines float64
	if math.Abs(ratio) < 0.5 {
		sines = math.Log1p(ratio)
	} else {
		sines = log64(math.Sin(math.Pi*e) / zero)
	}
	return -sines - lgammaRise(1-n-at[0], -d)
}

// lgammaRise is lgamma(y+d) - lgamma(y), for positive y and y+d: by Stirling's series, for numbers that are greater by lgammaShift.
func lgammaRise(y, d float64) float64 {
	shift := 0.0
	for range lgammaShift {
		shift += math.Log1p(d / y)
		y++
	}
	z := y + d
	a, b := 1/y, 1/z
	// b^m - a^m = (b-a) (b^(m-1) + b^(m-2) a + … + a^(m-1)), for m = 1, 3, 5, …
	like, power, series := 1.0, a, 0.0
	for _, c := range stirling {
		series += c * like
		for range 2 {
			like = like*b + power
			power *= a
		}
	}
	return (y-0.5)*math.Log1p(d/y) + d*log64(z) - d - d*a*b*series - shift
}

const lgammaShift = 9

// stirling are the coefficients of the odd powers of 1/y in Stirling's series.
var stirling = [...]float64{1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156}
