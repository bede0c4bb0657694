package element

import "math"

// Convert sets dst to the elements of a, as Go converts them.
func Convert[S, D Integer | Floating](dst []D, a []S) {
	dst = dst[:len(a)]
	for i, v := range a {
		dst[i] = D(v)
	}
}

// Trunc32 cuts v to an integer. What does not fit becomes what the processor's conversion to 32 bits makes of
// it, as in TensorFlow: the least integer.
func Trunc32[S Floating](v S) int32 {
	if v > math.MinInt32-1.0 && v < math.MaxInt32+1.0 {
		return int32(v)
	}
	return math.MinInt32
}
