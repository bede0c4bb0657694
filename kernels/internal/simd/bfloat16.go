package simd

import "math"

// bfloatTurn divides every length that the vector kernels convert.
const bfloatTurn = 16

// NarrowBFloat16 sets dst to the bits of the bfloat16 nearest to each number in src, ties to even, as TensorFlow's Cast does: values beyond
// the greatest become infinite, a NaN the quiet NaN of its sign. dst may be in the first half of src's memory.
func NarrowBFloat16(dst []uint16, src []float32) {
	if len(dst) != len(src) {
		checkLengths(len(dst), len(src))
	}
	for len(dst) >= bfloatTurn {
		n := min(len(dst), block) &^ (bfloatTurn - 1)
		active.narrow(dst[:n], src[:n])
		dst, src = dst[n:], src[n:]
	}
	narrow(dst, src)
}

// WidenBFloat16 sets dst to the numbers whose bfloat16 bits are in src. src may be in the second half of dst's memory.
func WidenBFloat16(dst []float32, src []uint16) {
	if len(dst) != len(src) {
		checkLengths(len(dst), len(src))
	}
	for len(dst) >= bfloatTurn {
		n := min(len(dst), block) &^ (bfloatTurn - 1)
		active.widen(dst[:n], src[:n])
		dst, src = dst[n:], src[n:]
	}
	widen(dst, src)
}

// The portable kernels, of any length.

func narrow(dst []uint16, src []float32) {
	src = src[:len(dst)]
	for i, f := range src {
		b := math.Float32bits(f)
		r := (b + 0x7fff + b>>16&1) >> 16
		if f != f {
			r = b>>16&0x8000 | 0x7fc0
		}
		dst[i] = uint16(r)
	}
}

func widen(dst []float32, src []uint16) {
	src = src[:len(dst)]
	for i, h := range src {
		dst[i] = math.Float32frombits(uint32(h) << 16)
	}
}
