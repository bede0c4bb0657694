package tensor

import "math"

// F16 is an element of a Float16 tensor: an IEEE 754 binary16 number.
type F16 uint16

// BF16 is an element of a BFloat16 tensor: the upper half of a float32.
type BF16 uint16

// Float32 returns the number's value, which a float32 represents exactly.
func (h F16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch exp {
	case 0:
		// Zero and subnormals are multiples of 2^-24, exact in float32.
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// ToF16 rounds to the nearest half, ties to even; values beyond 65504 become infinite.
func ToF16(f float32) F16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return F16(sign | 0x7e00)
	case b >= 0x477ff000: // 65520 and above round up to infinity
		return F16(sign | 0x7c00)
	case b < 0x38800000: // below the least normal half
		// Adding 0.5 leaves the rounded multiple of 2^-24 in the low bits of the fraction.
		f := math.Float32frombits(b) + 0.5
		return F16(sign | uint16(math.Float32bits(f)-0x3f000000))
	}
	b += 0xfff + b>>13&1
	return F16(sign | uint16(b>>13-112<<10))
}

// Float32 returns the number's value, which a float32 represents exactly.
func (h BF16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds to the nearest bfloat16, ties to even.
func ToBF16(f float32) BF16 {
	b := math.Float32bits(f)
	if f != f {
		return BF16(b>>16&0x8000 | 0x7fc0)
	}
	return BF16((b + 0x7fff + b>>16&1) >> 16)
}
