package fourier

import (
	"math"
	"math/bits"
	"math/cmplx"
)

// Plan transforms vectors of one length, in double precision: by halves where that is a power of two, else by
// Bluestein's convolution, which such a transform of more than twice the length computes.
type Plan struct {
	n       int
	roots   []complex128 // exp(-2πik/n), of the first half
	chirp   []complex128 // exp(-πik²/n)
	kernel  []complex128 // the chirp's conjugate, transformed
	inner   *Plan
	work    []complex128
	ordinal []int // the places that the elements start from
}

// NewPlan makes the transform of vectors of n numbers.
func NewPlan(n int) *Plan {
	f := &Plan{n: n}
	if n <= 1 {
		return f
	}
	if n&(n-1) == 0 {
		f.roots, f.ordinal = make([]complex128, n/2), make([]int, n)
		for k := range f.roots {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
			f.roots[k] = complex(cos, -sin)
		}
		shift := bits.UintSize - bits.TrailingZeros(uint(n))
		for i := range f.ordinal {
			f.ordinal[i] = int(bits.Reverse(uint(i)) >> shift)
		}
		return f
	}
	size := 1 << bits.Len(uint(2*n-1))
	f.inner, f.chirp, f.kernel, f.work = NewPlan(size), make([]complex128, n), make([]complex128, size), make([]complex128, size)
	for k := range f.chirp {
		// k² modulo 2n keeps the argument small.
		sin, cos := math.Sincos(math.Pi * float64(k*k%(2*n)) / float64(n))
		f.chirp[k] = complex(cos, -sin)
		f.kernel[k] = cmplx.Conj(f.chirp[k])
		if k > 0 {
			f.kernel[size-k] = f.kernel[k]
		}
	}
	f.inner.Forward(f.kernel)
	return f
}

// Forward transforms x in place.
func (f *Plan) Forward(x []complex128) {
	switch {
	case f.n <= 1:
	case f.inner == nil:
		f.byHalves(x)
	default:
		clear(f.work)
		for k, v := range x {
			f.work[k] = v * f.chirp[k]
		}
		f.inner.Forward(f.work)
		for k := range f.work {
			f.work[k] *= f.kernel[k]
		}
		f.inner.Inverse(f.work)
		for k := range x {
			x[k] = f.work[k] * f.chirp[k]
		}
	}
}

// Inverse undoes Forward.
func (f *Plan) Inverse(x []complex128) {
	for i, v := range x {
		x[i] = cmplx.Conj(v)
	}
	f.Forward(x)
	for i, v := range x {
		x[i] = complex(real(v)/float64(f.n), -imag(v)/float64(f.n))
	}
}

func (f *Plan) byHalves(x []complex128) {
	for i, j := range f.ordinal {
		if i < j {
			x[i], x[j] = x[j], x[i]
		}
	}
	for half := 1; half < f.n; half *= 2 {
		step := f.n / (2 * half)
		for start := 0; start < f.n; start += 2 * half {
			for k := range half {
				a, b := x[start+k], x[start+k+half]*f.roots[k*step]
				x[start+k], x[start+k+half] = a+b, a-b
			}
		}
	}
}
