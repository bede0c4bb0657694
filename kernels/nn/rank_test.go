package nn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/kernels/internal/element"
)

// expectTop compares the indices that a ranking returns with those of a plain sort.
func expectTop[T element.Ordered, K rankKey](t *testing.T, r ranking[T, K], row []T, count int) {
	t.Helper()
	want := make([]int, len(row))
	for i := range want {
		want[i] = i
	}
	greater := func(a, b T) bool { return a > b || a != a && b == b }
	slices.SortStableFunc(want, func(i, j int) int {
		switch {
		case greater(row[i], row[j]):
			return -1
		case greater(row[j], row[i]):
			return 1
		}
		return 0
	})
	for i, b := range r.top(make([]uint64, r.words(count, len(row))), row, count) {
		if int(b.at) != want[i] {
			t.Fatalf("number %d of the %d greatest of %d elements is at %d (%v), want %d (%v)", i, count, len(row), b.at, row[b.at], want[i], row[want[i]])
		}
	}
	for i, at := range top(nil, row, min(count, fewTop)) {
		if at != want[i] {
			t.Fatalf("number %d of the %d greatest of %d elements is at %d in the list, want %d", i, min(count, fewTop), len(row), at, want[i])
		}
	}
}

func testRanking[T element.Ordered, K rankKey](t *testing.T, r ranking[T, K], make1 func(*rand.Rand) T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, columns := range []int{1, 2, 33, 127, 128, 1000, 5000} {
		row := make([]T, columns)
		for i := range row {
			row[i] = make1(random)
		}
		for _, count := range []int{1, columns / 40, columns / 8, columns/8 + 1, columns / 2, columns} {
			if count > 0 {
				expectTop(t, r, row, count)
			}
		}
		ascending := slices.Clone(row)
		slices.Sort(ascending)
		expectTop(t, r, ascending, columns/9+1)
		slices.Reverse(ascending)
		expectTop(t, r, ascending, columns/9+1)
		for i := range row {
			row[i] = row[0]
		}
		expectTop(t, r, row, columns/9+1)
		expectTop(t, r, row, columns)
	}
}

func TestRankings(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), -math.NaN(), 1, -1, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, math.MaxFloat32}
	float := func(r *rand.Rand) float64 {
		if r.IntN(2) == 0 {
			return special[r.IntN(len(special))]
		}
		return r.NormFloat64()
	}
	testRanking(t, rankFloats, func(r *rand.Rand) float32 { return float32(float(r)) })
	testRanking(t, rankFloats, func(r *rand.Rand) float32 { return math.Float32frombits(r.Uint32()) })
	testRanking(t, rankDoubles, float)
	testRanking(t, rankDoubles, func(r *rand.Rand) float64 { return math.Float64frombits(r.Uint64()) })
	testRanking(t, rankInt8, func(r *rand.Rand) int8 { return int8(r.Uint32()) })
	testRanking(t, rankInt16, func(r *rand.Rand) int16 { return int16(r.Uint32()) })
	testRanking(t, rankInt32, func(r *rand.Rand) int32 { return int32(r.Uint32()) })
	testRanking(t, rankInt64, func(r *rand.Rand) int64 { return int64(r.Uint64()) >> r.IntN(64) })
	testRanking(t, rankUint8, func(r *rand.Rand) uint8 { return uint8(r.Uint32()) })
	testRanking(t, rankUint16, func(r *rand.Rand) uint16 { return uint16(r.Uint32()) })
	testRanking(t, rankUint32, func(r *rand.Rand) uint32 { return r.Uint32() })
	testRanking(t, rankUint64, func(r *rand.Rand) uint64 { return r.Uint64() >> r.IntN(64) })
}
