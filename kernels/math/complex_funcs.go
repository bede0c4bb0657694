package math

import (
	"math"
	"math/cmplx"
)

// These inverse functions of complex numbers follow Kahan ("Branch cuts for complex elementary functions"). Those of math/cmplx lose digits
// for large arguments and take some branch cuts from the other side than the C functions that TensorFlow calls. Infinities and NaNs are
// left to math/cmplx.

// plus and minus return z+1 and 1-z. They keep the sign of a zero imaginary part.
func plus(z complex128) complex128 { return complex(real(z)+1, imag(z)) }

func minus(z complex128) complex128 { return complex(1-real(z), -imag(z)) }

// times returns a·b, computed by parts without checks for infinities.
func times(a, b complex128) complex128 {
	return complex(real(a)*real(b)-imag(a)*imag(b), real(a)*imag(b)+imag(a)*real(b))
}

func isFiniteComplex(z complex128) bool { return !cmplx.IsInf(z) && !cmplx.IsNaN(z) }

func complexAsin(z complex128) complex128 {
	if !isFiniteComplex(z) {
		return cmplx.Asin(z)
	}
	a, b := cmplx.Sqrt(minus(z)), cmplx.Sqrt(plus(z))
	return complex(math.Atan2(real(z), real(times(a, b))), math.Asinh(imag(times(cmplx.Conj(a), b))))
}

func complexAcos(z complex128) complex128 {
	if !isFiniteComplex(z) {
		return cmplx.Acos(z)
	}
	a, b := cmplx.Sqrt(minus(z)), cmplx.Sqrt(plus(z))
	return complex(2*math.Atan2(real(a), real(b)), math.Asinh(imag(times(cmplx.Conj(b), a))))
}

func complexAcosh(z complex128) complex128 {
	if !isFiniteComplex(z) {
		return cmplx.Acosh(z)
	}
	a, b := cmplx.Sqrt(complex(real(z)-1, imag(z))), cmplx.Sqrt(plus(z))
	return complex(math.Asinh(real(times(cmplx.Conj(a), b))), 2*math.Atan2(imag(a), real(b)))
}

// complexAsinh is -i·asin(i·z).
func complexAsinh(z complex128) complex128 {
	w := complexAsin(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}

func complexAtanh(z complex128) complex128 {
	x, y := real(z), imag(z)
	if !isFiniteComplex(z) || math.Abs(x) > 1e150 || math.Abs(y) > 1e150 {
		return cmplx.Atanh(z)
	}
	return complex(math.Copysign(math.Log1p(4*math.Abs(x)/((1-math.Abs(x))*(1-math.Abs(x))+y*y))/4, x),
		math.Atan2(2*y, (1-x)*(1+x)-y*y)/2)
}

// complexAtan is -i·atanh(i·z).
func complexAtan(z complex128) complex128 {
	w := complexAtanh(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}

// complexTanh returns the limit of tanh where the hyperbolic functions that it is computed from overflow.
func complexTanh(z complex128) complex128 {
	x := math.Abs(real(z))
	if !isFiniteComplex(z) || x < 300 {
		return cmplx.Tanh(z)
	}
	sin, cos := math.Sincos(imag(z))
	return complex(math.Copysign(1, real(z)), 4*sin*cos*math.Exp(-2*x))
}
