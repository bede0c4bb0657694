package elementwise

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBroadcastParts checks that parts cover all elements once, locate the operands, and respect the limits.
func TestBroadcastParts(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		dims := make([]int, 1+r.IntN(5))
		strides := [][]int{make([]int, len(dims)), make([]int, len(dims))}
		n := 1
		for d := range dims {
			dims[d] = 1 + r.IntN(6)
			n *= dims[d]
			for o := range strides {
				strides[o][d] = r.IntN(20)
			}
		}
		axes, most := 1+r.IntN(3), 1+r.IntN(40)
		want, got := elementsOf([]int{0, 0}, dims, strides), make([][2]int, n)
		seen := 0
		broadcastParts(dims, strides, axes, most, func(from int, at []int, dims []int, strides [][]int) {
			part := elementsOf(at, dims, strides)
			if len(dims) > axes || len(part) > most {
				t.Fatalf("a part of dimensions %v is beyond %d axes or %d elements", dims, axes, most)
			}
			seen += copy(got[from:], part)
		})
		if seen != n || !slices.Equal(got, want) {
			t.Fatalf("dimensions %v in parts of %d axes and %d elements: %v, want %v", dims, axes, most, got, want)
		}
	}
}

// elementsOf lists the operands' offsets for each element.
func elementsOf(at []int, dims []int, strides [][]int) (all [][2]int) {
	w := &Walk{Dims: dims, Strides: strides}
	w.Each(0, w.Rows(), func(_ int, row []int) {
		for i := range w.Inner() {
			all = append(all, [2]int{at[0] + row[0] + i*w.InnerStride(0), at[1] + row[1] + i*w.InnerStride(1)})
		}
	})
	return all
}

// TestAxesDivide checks that the device's divisors give the right quotients, up to the greatest index.
func TestAxesDivide(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for k := range 5000 {
		size := 1 + r.IntN(1<<(1+k%30))
		word := appendAxes(make([]uint64, 0, 3*mostAxes), []int{size}, [][]int{{1}})
		magic, shift := word[0]>>32, word[1]&0xffffffff
		for _, i := range []uint64{0, 1, uint64(size) - 1, uint64(size), uint64(size) + 1, mostIndex - 1, mostIndex, 1<<31 - 1, uint64(r.IntN(1 << 31))} {
			i = min(i, 1<<31-1)
			if q := uint64(uint32(i*magic>>32)+uint32(i)) >> shift; q != i/uint64(size) {
				t.Fatalf("%d / %d gives %d", i, size, q)
			}
		}
	}
}
