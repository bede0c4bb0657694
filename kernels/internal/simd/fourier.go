package simd

// FourierRows is the number of rows that are transformed together. A number of a transform consists of the real parts of all rows, followed
// by their imaginary parts.
const FourierRows = 16

// FourierNumber is the number of elements in a number.
const FourierNumber = 2 * FourierRows

// Butterflies4 computes, for each element of w, n transforms of four numbers. Transform i reads numbers of src that are srcStep apart,
// starting at number i, and writes numbers of dst that are dstStep apart; all but the first are multiplied by the element, which has real
// and imaginary parts. The next element continues n numbers further in src and n+3*dstStep numbers further in dst. With inverse, real and
// imaginary parts are swapped in src and dst, which makes it an inverse transform.
func Butterflies4(dst, src []float32, n, srcStep, dstStep int, w [][6]float32, inverse bool) {
	needNumbers(dst, len(w)*(n+3*dstStep))
	needNumbers(src, len(w)*n+3*srcStep)
	if active.butterflies4 == nil {
		for i := range w {
			butterflies4(dst[FourierNumber*i*(n+3*dstStep):], src[FourierNumber*i*n:], n, srcStep, dstStep, &w[i], inverse)
		}
		return
	}
	at, im := parts(inverse)
	for n > 0 && len(w) > 0 {
		most := min(len(w), max(1, numbersAtOnce/n))
		active.butterflies4(&dst[at], &src[at], n, fourierBytes*srcStep, fourierBytes*dstStep, im, &w[0][0], most)
		if w = w[most:]; len(w) > 0 {
			dst, src = dst[FourierNumber*most*(n+3*dstStep):], src[FourierNumber*most*n:]
		}
	}
}

// numbersAtOnce is the maximum number of numbers per call of a kernel that can be divided.
const numbersAtOnce = 1 << 12

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

// Untangle computes, for k below n, with a = src[k] and b = src[last-k]: dst[k] = (a+b*)/2 + w[k]·(a-b*)/2, and dst[last-k] = the conjugate
// of the difference of the same two terms. That splits the transforms of even and odd elements, or joins them.
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

// LoadNumbers loads n numbers from FourierRows rows of complex numbers, whose real and imaginary parts alternate. Rows begin srcStep
// elements apart. With inverse, real and imaginary parts are swapped.
func LoadNumbers(dst, src []float32, n, srcStep int, inverse bool) {
	needNumbers(dst, n)
	checkMatrix("numbers", n, FourierNumber, srcStep, len(src))
	if n == 0 {
		return
	}
	at, im := parts(inverse)
	if active.loadNumbers != nil {
		active.loadNumbers(&dst[at], &src[0], n, 4*srcStep, im)
		return
	}
	for i := range n {
		to, from := dst[FourierNumber*i:][:FourierNumber], src[i*srcStep:][:FourierNumber]
		for row := range FourierRows {
			to[at+row], to[FourierRows-at+row] = from[2*row], from[2*row+1]
		}
	}
}

// StoreNumbers is the inverse of LoadNumbers. It also multiplies by scale.
func StoreNumbers(dst, src []float32, n, dstStep int, scale float32, inverse bool) {
	needNumbers(src, n)
	checkMatrix("numbers", n, FourierNumber, dstStep, len(dst))
	if n == 0 {
		return
	}
	at, im := parts(inverse)
	if active.storeNumbers != nil {
		active.storeNumbers(&dst[0], &src[at], n, 4*dstStep, im, scale)
		return
	}
	for i := range n {
		to, from := dst[i*dstStep:][:FourierNumber], src[FourierNumber*i:][:FourierNumber]
		for row := range FourierRows {
			to[2*row], to[2*row+1] = scale*from[at+row], scale*from[FourierRows-at+row]
		}
	}
}

// MulNumbers multiplies the numbers in dst by those in w.
func MulNumbers(dst, w []float32) {
	checkLengths(len(dst), len(w))
	n := len(dst) / FourierNumber
	needNumbers(dst, n)
	if n == 0 {
		return
	}
	if active.mulNumbers != nil {
		active.mulNumbers(&dst[0], &w[0], n)
		return
	}
	for i := range n {
		a, f := dst[FourierNumber*i:][:FourierNumber], w[FourierNumber*i:][:FourierNumber]
		for row := range FourierRows {
			v := complex(a[row], a[FourierRows+row]) * complex(f[row], f[FourierRows+row])
			a[row], a[FourierRows+row] = real(v), imag(v)
		}
	}
}

// UntangleRow is Untangle for one row of last+1 complex numbers, whose real and imaginary parts alternate. last must be even. dst may be
// src.
func UntangleRow(dst, src []float32, last int, w [][2]float32) {
	if last < 0 || last%2 != 0 || len(dst) < 2*last+2 || len(src) < 2*last+2 || len(w) < last/2+1 {
		panic("simd: a Fourier transform of numbers that are not there")
	}
	k := 0
	if active.untangleRow != nil {
		lanes := active.tiles.lanes / 2
		if n := last / 2 / lanes; n > 0 {
			k = n * lanes
			end := 2 * (last + 1 - lanes)
			active.untangleRow(&dst[0], &dst[end], &src[0], &src[end], n, &w[0][0])
		}
	}
	for ; k <= last/2; k++ {
		a := complex(0.5*src[2*k], 0.5*src[2*k+1])
		b := complex(0.5*src[2*(last-k)], -0.5*src[2*(last-k)+1])
		e, t := a+b, complex(w[k][0], w[k][1])*(a-b)
		dst[2*k], dst[2*k+1] = real(e+t), imag(e+t)
		dst[2*(last-k)], dst[2*(last-k)+1] = real(e-t), -imag(e-t)
	}
}

const fourierBytes = 4 * FourierNumber

// needNumbers panics if a list holds fewer than n numbers.
func needNumbers(list []float32, n int) {
	if n < 0 || len(list) < FourierNumber*n {
		panic("simd: a Fourier transform of numbers that are not there")
	}
}

// parts returns the offset of the parts treated as real, and the distance in bytes from there to the others.
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
