package element

import "math"

// Convert sets dst to the elements of a, converted by Go's rules.
func Convert[S, D Integer | Floating](dst []D, a []S) {
	dst = dst[:len(a)]
	for i, v := range a {
		dst[i] = D(v)
	}
}

// Trunc32 truncates v to an integer. A value that does not fit becomes the least integer, which is what the processor's 32-bit conversion,
// and so TensorFlow, yields.
func Trunc32[S Floating](v S) int32 {
	if v > math.MinInt32-1.0 && v < math.MaxInt32+1.0 {
		return int32(v)
	}
	return math.MinInt32
}
