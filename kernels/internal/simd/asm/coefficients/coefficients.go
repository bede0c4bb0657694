// Package coefficients has the numbers that the elementary functions are computed by, on every processor.
package coefficients

// The logarithm of two in two parts, the first of which has so few bits that its product with
// an exponent is exact.
const (
	Ln2High = 0.693359375
	Ln2Low  = -2.12194440e-4
)

// Bounds of exp's argument, just outside those beyond which the result is
// infinite or zero; between them the exponent arithmetic cannot overflow.
const (
	ExpHighest = 89
	ExpLowest  = -104
)

// Exp is p in exp(r) = 1 + r + r²·p(r), |r| <= ln(2)/2, highest
// power first (the coefficients are those of Cephes' expf).
var Exp = []float64{
	1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5,
}

// Log is p in log(1+f) = f - f²/2 + f³·p(f), for 1+f between the
// square roots of a half and of two (Cephes' logf).
var Log = []float64{
	7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
	-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
}

// Tanh is p in tanh(x) = x + x³·p(x²), |x| < 0.625 (Cephes' tanhf).
var Tanh = []float64{
	-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1,
}

// ErfSmall is p in erf(x) = x + x·p(x²), |x| < 1, and ErfLarge q in erf(x) = 1 - exp(-x²)·q(1/x), 1 <= x <= 4: minimax
// polynomials of the exact functions, with errors of 3.4e-11 and 5.5e-8.
var (
	ErfSmall = []float64{
		-9.667044571486996e-06, 0.00011265959025606609, -0.0008484080405535107, 0.005221031807858023,
		-0.026865430727670243, 0.11283782495236845, -0.3761263846802871, 0.1283791670615435,
	}
	ErfLarge = []float64{
		-0.019605029369706144, 0.12847945060292618, -0.36856255862597054, 0.5898971730107935,
		-0.5138991224025817, 0.05359949362280515, 0.5572926350496831, 0.00038153229441997627,
	}
)

// ErfWhole is from where on erf is 1 to the last bit of a float32.
const ErfWhole = 4
