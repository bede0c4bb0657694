package kernels

import "math"

func add[T numeric | string](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func sub[T numeric](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func mul[T numeric](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// div is the division of the element type: truncating for integers, whose divisors the driver
// has checked.
func div[T numeric](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

// mulNoNan is zero where b is, whatever a is.
func mulNoNan[T floating | complexNum](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if b[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = a[i] * b[i]
		}
	}
}

func divNoNan[T floating | complexNum](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if b[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = a[i] / b[i]
		}
	}
}

// floorDivSigned rounds towards negative infinity.
func floorDivSigned[T signedInt](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		q := a[i] / b[i]
		if a[i]%b[i] != 0 && (a[i] < 0) != (b[i] < 0) {
			q--
		}
		dst[i] = q
	}
}

func floorDivFloat[T floating](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Floor(float64(a[i] / b[i])))
	}
}

func truncDivFloat[T floating](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Trunc(float64(a[i] / b[i])))
	}
}

func mod[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] % b[i]
	}
}

// floorModSigned has the sign of the divisor.
func floorModSigned[T signedInt](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		m := a[i] % b[i]
		if m != 0 && (m < 0) != (b[i] < 0) {
			m += b[i]
		}
		dst[i] = m
	}
}

// floorMod64 is the float form of floorModSigned.
func floorMod64(a, b float64) float64 {
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}

// maximum gives NaN where either operand is one.
func maximum[T ordered](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

func minimum[T ordered](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}

// powInt multiplies by squaring; the driver has refused negative exponents.
func powInt[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		result, base := T(1), a[i]
		for e := b[i]; e > 0; e >>= 1 {
			if e&1 == 1 {
				result *= base
			}
			base *= base
		}
		dst[i] = result
	}
}

func squaredDifference[T ordered](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		d := a[i] - b[i]
		dst[i] = d * d
	}
}

func xdivy[T floating | complexNum](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if a[i] == 0 {
			dst[i] = 0
		} else {
			dst[i] = a[i] / b[i]
		}
	}
}

func xlogy64(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log(y)
}

func xlog1py64(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log1p(y)
}

func less[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}

func lessEqual[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}

func greater[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] > b[i]
	}
}

func greaterEqual[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >= b[i]
	}
}

func equal[T comparable](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}

func notEqual[T comparable](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] != b[i]
	}
}

func logicalAnd(dst, a, b []bool) {
	for i := range dst {
		dst[i] = a[i] && b[i]
	}
}

func logicalOr(dst, a, b []bool) {
	for i := range dst {
		dst[i] = a[i] || b[i]
	}
}

func bitAnd[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}

func bitOr[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}

func bitXor[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}

// shiftCount brings a shift into the range that the element type has bits for.
func shiftCount[T integer](v T, bits T) T { return min(max(v, 0), bits-1) }

// bitsOf is the number of bits of T.
func bitsOf[T integer]() T {
	n := T(0)
	for v := T(1); v != 0; v <<= 1 {
		n++
	}
	return n
}

func leftShift[T integer](dst, a, b []T) {
	bits := bitsOf[T]()
	for i := range dst {
		dst[i] = a[i] << shiftCount(b[i], bits)
	}
}

func rightShift[T integer](dst, a, b []T) {
	bits := bitsOf[T]()
	for i := range dst {
		dst[i] = a[i] >> shiftCount(b[i], bits)
	}
}
