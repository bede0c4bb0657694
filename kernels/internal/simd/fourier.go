package simd

// FourierRows is how many rows are transformed together. A number of a transform is the real parts of all rows, and then their
// imaginary parts.
const FourierRows = 16

// FourierNumber is how many elements a number takes.
const FourierNumber = 2 * FourierRows

// Butterflies4 computes n times the transform of four numbers of src that lie srcStep numbers apart, to four of dst that lie dstStep
// apart; the ones after the first are multiplied by w, whose elements are real and imaginary parts. The next time is for the numbers
// behind. With inverse the real and the imaginary parts change places in src and dst, which makes it an inverse transform.
func Butterflies4(dst, src []float32, n, srcStep, dstStep int, w *[6]float32, inverse bool) {
	needNumbers(dst, n+3*dstStep)
	needNumbers(src, n+3*srcStep)
	if active.butterflies4 == nil {
		butterflies4(dst, src, n, srcStep, dstStep, w, inverse)
		return
	}
	if n > 0 {
		at, im := parts(inverse)
		active.butterflies4(&dst[at], &src[at], n, fourierBytes*srcStep, fourierBytes*dstStep, im, &w[0])
	}
}

// Butterflies2 is Butterflies4 for two numbers.
func Butterflies2(dst, src []float32, n, srcStep, dstStep int, inverse bool) {
	needNumbers(dst, n+dstStep)
	needNumbers(src, n+srcStep)
	if active.butterflies2 == nil {
		butterflies2(dst, src, n, srcStep, dstStep)
		return
	}
	if n > 0 {
		at, im := parts(inverse)
		active.butterflies2(&dst[at], &src[at], n, fourierBytes*srcStep, fourierBytes*dstStep, im)
	}
}

// Untangle sets, for k below n, with a = src[k] and b = src[last-k], number k of dst to the half of a+b* plus w[k] times the half of
// a-b*, and number last-k to the conjugate of what the difference of the two halves is. That takes the transforms of even and odd
// elements apart, or puts them together.
func Untangle(dst, src []float32, last, n int, w [][2]float32) {
	needNumbers(dst, last+1)
	needNumbers(src, last+1)
	if n > last+1 {
		panic("simd: a Fourier transform of numbers that are not there")
	}
	w = w[:n]
	if active.untangle == nil {
		untangle(dst, src, last, w)
		return
	}
	if n > 0 {
		end := FourierNumber * last
		active.untangle(&dst[0], &dst[end], &src[0], &src[end], n, &w[0][0])
	}
}

const fourierBytes = 4 * FourierNumber

// needNumbers panics if a list has not so many numbers.
func needNumbers(list []float32, n int) {
	if n < 0 || len(list) < FourierNumber*n {
		panic("simd: a Fourier transform of numbers that are not there")
	}
}

// parts is where the parts begin that count as real ones, and how many bytes behind it the others do.
func parts(inverse bool) (at, im int) {
	if inverse {
		return FourierRows, -4 * FourierRows
	}
	return 0, 4 * FourierRows
}

func butterflies4(dst, src []float32, n, srcStep, dstStep int, w *[6]float32, inverse bool) {
	at, _ := parts(inverse)
	other := FourierRows - at
	for q := range n {
		for row := range FourierRows {
			var x [4]complex64
			for i := range x {
				number := src[FourierNumber*(q+i*srcStep):][:FourierNumber]
				x[i] = complex(number[at+row], number[other+row])
			}
			even, odd := x[0]+x[2], x[0]-x[2]
			even2, odd2 := x[1]+x[3], x[1]-x[3]
			turned := complex(-imag(odd2), real(odd2))
			y := [4]complex64{
				even + even2, complex(w[0], w[1]) * (odd - turned),
				complex(w[2], w[3]) * (even - even2), complex(w[4], w[5]) * (odd + turned),
			}
			for i, v := range y {
				number := dst[FourierNumber*(q+i*dstStep):][:FourierNumber]
				number[at+row], number[other+row] = real(v), imag(v)
			}
		}
	}
}

func butterflies2(dst, src []float32, n, srcStep, dstStep int) {
	for q := range n {
		for i := range FourierNumber {
			a, b := src[FourierNumber*q+i], src[FourierNumber*(q+srcStep)+i]
			dst[FourierNumber*q+i], dst[FourierNumber*(q+dstStep)+i] = a+b, a-b
		}
	}
}

func untangle(dst, src []float32, last int, w [][2]float32) {
	for k, factor := range w {
		up, down := dst[FourierNumber*k:][:FourierNumber], dst[FourierNumber*(last-k):][:FourierNumber]
		from, mirror := src[FourierNumber*k:][:FourierNumber], src[FourierNumber*(last-k):][:FourierNumber]
		for row := range FourierRows {
			a := complex(0.5*from[row], 0.5*from[FourierRows+row])
			b := complex(0.5*mirror[row], -0.5*mirror[FourierRows+row])
			e, t := a+b, complex(factor[0], factor[1])*(a-b)
			up[row], up[FourierRows+row] = real(e+t), imag(e+t)
			down[row], down[FourierRows+row] = real(e-t), -imag(e-t)
		}
	}
}
