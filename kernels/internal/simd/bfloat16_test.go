package simd

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// nearestBFloat16 is the oracle: it returns the nearer of the two bfloat16 around a number, found by exact arithmetic.
func nearestBFloat16(f float32) uint16 {
	b := math.Float32bits(f)
	sign, below := uint16(b>>16&0x8000), uint16(b>>16&0x7fff)
	switch {
	case f != f:
		return sign | 0x7fc0
	case below == 0x7f80:
		return sign | below
	}
	value := func(h uint16) *big.Float {
		if h == 0x7f80 {
			return new(big.Float).SetMantExp(big.NewFloat(1), 128) // where infinity would be
		}
		return new(big.Float).SetFloat64(float64(math.Float32frombits(uint32(h) << 16)))
	}
	x := new(big.Float).SetFloat64(math.Abs(float64(f)))
	down := new(big.Float).Sub(x, value(below))
	up := new(big.Float).Sub(value(below+1), x)
	if c := down.Cmp(up); c > 0 || c == 0 && below&1 == 1 {
		below++
	}
	return sign | below
}

// TestNarrowBFloat16 takes every number that a bfloat16 can begin, with all cases of the lost bits that affect rounding.
func TestNarrowBFloat16(t *testing.T) {
	rests := []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1234, 0xabcd}
	src := make([]float32, 0, len(rests)<<16)
	want := make([]uint16, 0, cap(src))
	for high := range uint32(1 << 16) {
		for _, rest := range rests {
			f := math.Float32frombits(high<<16 | rest)
			src, want = append(src, f), append(want, nearestBFloat16(f))
		}
	}
	eachLevel(t, func(t *testing.T) {
		dst := make([]uint16, len(src))
		NarrowBFloat16(dst, src)
		for i := range dst {
			if dst[i] != want[i] {
				t.Fatalf("%x becomes %#04x, want %#04x", math.Float32bits(src[i]), dst[i], want[i])
			}
		}
	})
}

func TestWidenBFloat16(t *testing.T) {
	src := make([]uint16, 1<<16)
	for i := range src {
		src[i] = uint16(i)
	}
	eachLevel(t, func(t *testing.T) {
		dst := make([]float32, len(src))
		WidenBFloat16(dst, src)
		for i := range dst {
			if math.Float32bits(dst[i]) != uint32(i)<<16 {
				t.Fatalf("%#04x becomes %x", i, math.Float32bits(dst[i]))
			}
		}
	})
}

// TestBFloat16InPlace checks that narrowing and widening may overwrite what they have read, at all lengths and right up to the edge of the
// memory.
func TestBFloat16InPlace(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		mem := &arena{r: r}
		for n := 1; n <= maxLength; n++ {
			apart, both := make([]uint16, n), randomFloats(r, mem.floats(n))
			NarrowBFloat16(apart, both)
			halves := unsafe.Slice((*uint16)(unsafe.Pointer(&both[0])), 2*n)
			NarrowBFloat16(halves[:n], both)
			for i := range apart {
				if halves[i] != apart[i] {
					t.Fatalf("length %d: %#04x in place, %#04x apart", n, halves[i], apart[i])
				}
			}
			copy(halves[n:], halves[:n])
			WidenBFloat16(both, halves[n:])
			for i := range apart {
				if got := math.Float32bits(both[i]); got != uint32(apart[i])<<16 {
					t.Fatalf("length %d: %#04x widened in place to %#x", n, apart[i], got)
				}
			}
			mem.release()
		}
	})
}

func BenchmarkBFloat16(b *testing.B) {
	wide, halves := make([]float32, 1<<18), make([]uint16, 1<<18)
	randomFloats(rand.New(rand.NewPCG(1, 2)), wide)
	before := active
	defer func() { active = before }()
	for _, set := range available() {
		active = set
		b.Run(fmt.Sprintf("narrow/%s", set.name), func(b *testing.B) {
			b.SetBytes(int64(4 * len(wide)))
			for b.Loop() {
				NarrowBFloat16(halves, wide)
			}
		})
		b.Run(fmt.Sprintf("widen/%s", set.name), func(b *testing.B) {
			b.SetBytes(int64(4 * len(wide)))
			for b.Loop() {
				WidenBFloat16(wide, halves)
			}
		})
	}
}
