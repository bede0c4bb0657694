package array

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// expectNumbers compares numbers with those from a Go map.
func expectNumbers[T comparable, K cell](t *testing.T, values []T, bits func(T) K, float floatCells[K]) {
	t.Helper()
	ctx := kernels.Context{Device: kt.NewDevice(t)}
	m := ctx.Meter()
	defer m.Done()
	n := numbering{meter: &m, number: make([]int32, len(values))}
	cells := make([]K, len(values))
	for i, v := range values {
		cells[i] = bits(v)
	}
	if err := numberCells(&n, cells, float); err != nil {
		t.Fatal(err)
	}
	seen := map[T]int{}
	next := 0
	for i, v := range values {
		want, ok := seen[v]
		if !ok {
			want = next
			seen[v] = want
			if int(n.first[next]) != i {
				t.Fatalf("number %d appears first at %d, want %d", next, n.first[next], i)
			}
			next++
		}
		if int(n.number[i]) != want {
			t.Fatalf("element %d (%v) has number %d, want %d", i, v, n.number[i], want)
		}
	}
	if len(n.first) != next {
		t.Fatalf("%d numbers, want %d", len(n.first), next)
	}
}

func TestNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	special := []float64{0, math.Copysign(0, -1), math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1), 1, -1}
	for _, size := range []int{0, 1, 100, 511, 513, 5000, 100000} {
		for _, kinds := range []int{1, 10, 3000, 1 << 30} {
			bytes, longs, floats, doubles := make([]uint8, size), make([]uint64, size), make([]float32, size), make([]float64, size)
			for i := range size {
				bytes[i], longs[i] = uint8(r.IntN(kinds)), uint64(r.IntN(kinds))<<r.IntN(2)*32
				doubles[i] = float64(r.IntN(kinds))
				if r.IntN(10) == 0 {
					doubles[i] = special[r.IntN(len(special))]
				}
				floats[i] = float32(doubles[i])
			}
			expectNumbers(t, bytes, func(v uint8) uint8 { return v }, floatCells[uint8]{})
			expectNumbers(t, longs, func(v uint64) uint64 { return v }, floatCells[uint64]{})
			expectNumbers(t, floats, math.Float32bits, floatCells[uint32]{1 << 31, 0x7f800000})
			expectNumbers(t, doubles, math.Float64bits, floatCells[uint64]{1 << 63, 0x7ff << 52})
		}
	}
}
