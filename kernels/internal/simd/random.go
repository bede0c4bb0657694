package simd

import (
	"math"
	"math/bits"
)

// randomTurn divides every length that the vector kernels of random numbers produce.
const randomTurn = 64

// Philox fills dst, whose length must be a multiple of 4, with the numbers that Philox 4x32-10 yields for the counters from hi·2^64+lo on,
// four for each.
func Philox(dst []uint32, lo, hi, key uint64) {
	for len(dst) > 0 {
		n, kernel := min(len(dst), block)&^(randomTurn-1), active.philox
		// The vector kernels do not carry into the counter's upper half.
		if n == 0 || lo > math.MaxUint64-block {
			n, kernel = 4, philox
		}
		kernel(dst[:n], lo, hi, key)
		var carry uint64
		lo, carry = bits.Add64(lo, uint64(n/4), 0)
		hi += carry
		dst = dst[n:]
	}
}

// PhiloxOne returns the four numbers that Philox yields for the counter hi·2^64+lo.
func PhiloxOne(lo, hi, key uint64) [4]uint32 {
	c0, c1, c2, c3 := uint64(uint32(lo)), uint32(lo>>32), uint64(uint32(hi)), uint32(hi>>32)
	k0, k1 := uint32(key), uint32(key>>32)
	for range 5 { // two rounds each
		a, b := c0*0xD2511F53, c2*0xCD9E8D57
		c0, c1, c2, c3 = uint64(uint32(b>>32)^c1^k0), uint32(b), uint64(uint32(a>>32)^c3^k1), uint32(a)
		k0, k1 = k0+0x9E3779B9, k1+0xBB67AE85
		a, b = c0*0xD2511F53, c2*0xCD9E8D57
		c0, c1, c2, c3 = uint64(uint32(b>>32)^c1^k0), uint32(b), uint64(uint32(a>>32)^c3^k1), uint32(a)
		k0, k1 = k0+0x9E3779B9, k1+0xBB67AE85
	}
	return [4]uint32{uint32(c0), c1, uint32(c2), c3}
}

// UnitFloat converts a random number to a float in [0,1) by using its bits as the fraction.
func UnitFloat(x uint32) float32 { return math.Float32frombits(127<<23|x&0x7fffff) - 1 }

// UnitFloats sets dst to the UnitFloat of each number in src. The two may share memory.
func UnitFloats(dst []float32, src []uint32) { converted(active.unit, unit, 1, dst, src) }

// Normals sets dst to normally distributed numbers by the Box-Muller transform, which makes two from two random ones. The two slices may
// share memory. Their length must be even.
func Normals(dst []float32, src []uint32) { converted(active.normal, normal, randomTurn, dst, src) }

// NormalPair returns the two numbers that Normals makes from two.
func NormalPair(x0, x1 uint32) (float32, float32) {
	u := max(UnitFloat(x0), 1.0e-7)
	angle := float32(2 * math.Pi * float64(UnitFloat(x1)))
	radius := float32(math.Sqrt(float64(-2 * float32(math.Log(float64(u))))))
	sin, cos := math.Sincos(float64(angle))
	return float32(sin) * radius, float32(cos) * radius
}

// The portable kernels, of any length.

// philox enciphers counters. It carries into the upper half.
func philox(dst []uint32, lo, hi, key uint64) {
	for ; len(dst) > 0; dst = dst[4:] {
		*(*[4]uint32)(dst) = PhiloxOne(lo, hi, key)
		var carry uint64
		lo, carry = bits.Add64(lo, 1, 0)
		hi += carry
	}
}

func unit(dst []float32, src []uint32) {
	src = src[:len(dst)]
	for i, x := range src {
		dst[i] = UnitFloat(x)
	}
}

func normal(dst []float32, src []uint32) {
	for i := 0; i+1 < len(dst); i += 2 {
		dst[i], dst[i+1] = NormalPair(src[i], src[i+1])
	}
}
