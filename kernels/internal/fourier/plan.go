package fourier

import (
	"math"
	"math/bits"
	"math/cmplx"
)

// Plan transforms vectors of one length in double precision: by halving if the length is a power of two, otherwise by Bluestein's
// convolution, which uses such a transform of more than twice the length.
type Plan struct {
	n       int
	roots   []complex128 // exp(-2πik/n), of the first half
	chirp   []complex128 // exp(-πik²/n)
	kernel  []complex128 // the chirp's conjugate, transformed
	inner   *Plan
	work    []complex128
	ordinal []int // the bit-reversed order that the elements start in
	ended   func() bool
}

// glance is the number of elements computed between two checks for the end of the work.
const glance = 1 << 16

// NewPlan returns the transform of vectors of n numbers. Once ended, if not nil, returns true, NewPlan and transforms return early, leaving
// undefined results.
func NewPlan(n int, ended func() bool) *Plan {
	if ended == nil {
		ended = func() bool { return false }
	}
	f := &Plan{n: n, ended: ended}
	if n <= 1 {
		return f
	}
	if n&(n-1) == 0 {
		if f.roots = make([]complex128, n/2); ended() {
			return f
		}
		f.ordinal = make([]int, n)
		for k := range f.roots {
			if k%glance == 0 && ended() {
				break
			}
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
			f.roots[k] = complex(cos, -sin)
		}
		shift := bits.UintSize - bits.TrailingZeros(uint(n))
		for i := range f.ordinal {
			if i%glance == 0 && ended() {
				break
			}
			f.ordinal[i] = int(bits.Reverse(uint(i)) >> shift)
		}
		return f
	}
	size := 1 << bits.Len(uint(2*n-1))
	// Allocating what a long transform needs takes as long as computing with it.
	room := func(n int) []complex128 {
		if ended() {
			return nil
		}
		return make([]complex128, n)
	}
	f.inner, f.work, f.kernel, f.chirp = NewPlan(size, ended), room(size), room(size), room(n)
	for k := range f.chirp {
		if k%glance == 0 && ended() {
			return f
		}
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
	case f.ended():
	default:
		clear(f.work)
		for k, v := range x {
			f.work[k] = v * f.chirp[k]
		}
		f.inner.Forward(f.work)
		if f.ended() {
			return
		}
		for k := range f.work {
			f.work[k] *= f.kernel[k]
		}
		f.inner.Inverse(f.work)
		if f.ended() {
			return
		}
		for k := range x {
			x[k] = f.work[k] * f.chirp[k]
		}
	}
}

// Inverse is the inverse of Forward.
func (f *Plan) Inverse(x []complex128) {
	for i, v := range x {
		x[i] = cmplx.Conj(v)
	}
	f.Forward(x)
	if f.ended() {
		return
	}
	for i, v := range x {
		x[i] = complex(real(v)/float64(f.n), -imag(v)/float64(f.n))
	}
}

func (f *Plan) byHalves(x []complex128) {
	for i, j := range f.ordinal {
		if i%glance == 0 && f.ended() {
			return
		}
		if i < j {
			x[i], x[j] = x[j], x[i]
		}
	}
	left := 0
	for half := 1; half < f.n; half *= 2 {
		step := f.n / (2 * half)
		for start := 0; start < f.n; start += 2 * half {
			if left -= half; left <= 0 {
				if left = glance; f.ended() {
					return
				}
			}
			for k := range half {
				a, b := x[start+k], x[start+k+half]*f.roots[k*step]
				x[start+k], x[start+k+half] = a+b, a-b
			}
		}
	}
}
