package element

import (
	"math"
)

func Convert[S, D Integer | Floating](dst []D, a []S) {
	dst = dst[:len(a)]
	for i, v := range a {
		dst[i] = D(v)
	}
}

// What does not fit an integer becomes what the processor's conversion to 32 or 64 bits makes of
// it, as in TensorFlow: the least integer. Narrower integers get the low bits of 32, uint32 those of 64.

func Trunc32[S Floating](v S) int32 {
	if v > math.MinInt32-1.0 && v < math.MaxInt32+1.0 {
		return int32(v)
	}
	return math.MinInt32
}
