package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestPhiloxVectors checks the known answers of the paper's implementation.
func TestPhiloxVectors(t *testing.T) {
	for _, c := range []struct {
		lo, hi, key uint64
		want        []uint32
	}{
		{0, 0, 0, []uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{math.MaxUint64, math.MaxUint64, math.MaxUint64, []uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822, []uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		eachLevel(t, func(t *testing.T) {
			for _, n := range []int{4, 64, 128} {
				got := make([]uint32, n)
				Philox(got, c.lo, c.hi, c.key)
				if !slices.Equal(got[:4], c.want) {
					t.Errorf("counter %x %x, key %x: %x, want %x", c.hi, c.lo, c.key, got[:4], c.want)
				}
			}
		})
	}
}

func TestPhilox(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		mem := &arena{r: r}
		for n := 0; n < 5*randomTurn; n += 4 {
			for _, lo := range []uint64{r.Uint64(), uint64(r.Uint32()), math.MaxUint32 - 3, math.MaxUint64 - 5, math.MaxUint64 - block - 7} {
				hi, key := r.Uint64(), r.Uint64()
				if r.IntN(4) == 0 {
					hi = math.MaxUint64
				}
				dst, want := guarded[uint32](mem, n, 0), make([]uint32, n)
				philox(want, lo, hi, key)
				Philox(dst, lo, hi, key)
				if !slices.Equal(dst, want) {
					t.Fatalf("%d numbers from %x %x: %x, want %x", n, hi, lo, dst, want)
				}
				mem.release()
			}
		}
	})
}

// TestUnitFloatsAndNormals checks that vector kernels produce the bits of the portable ones, at all lengths, including in place. The
// numbers cover all fractions, including those for which log and sine take another path.
func TestUnitFloatsAndNormals(t *testing.T) {
	edges := []uint32{0, 1, 2, 0x7fffff, 0x400000, 0x3fffff, 0x200000, 0x100000, 0x600000, 0x2d413c, 0x2d413d, 0xffffffff, 0x6a09e6}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		mem := &arena{r: r}
		for _, f := range []struct {
			name             string
			kernel, portable func(dst []float32, src []uint32)
		}{{"UnitFloats", UnitFloats, unit}, {"Normals", Normals, normal}} {
			for n := 0; n < 4*randomTurn; n += 2 {
				dst, src, want := guarded[float32](mem, n, 0), guarded[uint32](mem, n, 0), make([]float32, n)
				for i := range src {
					src[i] = r.Uint32()
					if r.IntN(4) == 0 {
						src[i] = edges[r.IntN(len(edges))]
					}
				}
				f.portable(want, src)
				f.kernel(dst, src)
				for i := range want {
					if math.Float32bits(dst[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%s of %x: %v, want %v", f.name, src[i&^1:][:2], dst[i], want[i])
					}
				}
				mem.release()
			}
		}
	})
}

// TestNormalsOfAllFractions checks every possible logarithm and angle.
func TestNormalsOfAllFractions(t *testing.T) {
	if !extent.Check() || extent.RaceDetector {
		t.Skip("takes seconds")
	}
	eachLevel(t, func(t *testing.T) {
		src, got, want := make([]uint32, 1<<12), make([]float32, 1<<12), make([]float32, 1<<12)
		for first := uint32(0); first < 1<<23; first += uint32(len(src) / 2) {
			for i := range src {
				src[i] = first + uint32(i/2)
			}
			normal(want, src)
			Normals(got, src)
			if !slices.Equal(got, want) {
				t.Fatalf("fractions from %x on differ", first)
			}
		}
	})
}
