package simd

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/troupe-run/troupe/internal/extent"
)

// onBoth runs f with the plain kernels and then with those of each level, and compares the results.
func onBoth(t *testing.T, rounds int, f func(r *rand.Rand, mem *arena) []uint8) {
	eachLevel(t, func(t *testing.T) {
		level := active
		defer func() { active = level }()
		for seed := range uint64(rounds) {
			results := [2][]uint8{}
			for i, set := range []*kernelSet{&portable, level} {
				active = set
				mem := &arena{r: rand.New(rand.NewPCG(seed, 1))}
				results[i] = bytes.Clone(f(rand.New(rand.NewPCG(seed, 2)), mem))
				mem.release()
			}
			if !bytes.Equal(results[0], results[1]) {
				t.Fatalf("round %d: %v, want %v", seed, results[1], results[0])
			}
		}
	})
}

// coefficients fills a block: with few numbers, with many, or with any bits.
func coefficients(r *rand.Rand, block []int16, bits int) {
	for i := range block {
		block[i] = 0
		if r.IntN(8) <= bits%8 {
			block[i] = int16(r.Uint32()) >> (15 - bits)
		}
	}
}

func TestInverseDCT(t *testing.T) {
	n := 3000
	if !extent.Check() {
		n = 300
	}
	for name, transform := range map[string]Transform{"accurate": AccurateTransform, "fast": FastTransform} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, n, func(r *rand.Rand, mem *arena) []uint8 {
				stride := 8 + r.IntN(9)
				block, quanta := (*[64]int16)(guarded[int16](mem, 64, 0)), (*[64]int16)(guarded[int16](mem, 64, 0))
				coefficients(r, block[:], r.IntN(16))
				for i := range quanta {
					quanta[i] = int16(1 + r.IntN(255))
					if r.IntN(200) == 0 {
						quanta[i] = int16(r.Uint32())
					}
				}
				dst := guarded[uint8](mem, 7*stride+8, r.IntN(4))
				for i := range dst {
					dst[i] = 99
				}
				InverseDCT(transform, dst, stride, block, quanta)
				if *block != [64]int16{} {
					t.Fatal("the block is not cleared")
				}
				return dst
			})
		})
	}
}

func TestInverseDCTs(t *testing.T) {
	for name, transform := range map[string]Transform{"accurate": AccurateTransform, "fast": FastTransform} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, 1000, func(r *rand.Rand, mem *arena) []uint8 {
				stride := 8 + r.IntN(9)
				both, quanta := guarded[int16](mem, 128, 0), (*[64]int16)(guarded[int16](mem, 64, 0))
				blocks := (*[2][64]int16)(unsafe.Pointer(&both[0]))
				coefficients(r, both, r.IntN(16))
				for i := range quanta {
					quanta[i] = int16(1 + r.IntN(255))
				}
				dst, second := guarded[uint8](mem, 7*stride+8, r.IntN(4)), guarded[uint8](mem, 7*stride+8, r.IntN(4))
				clear(dst)
				clear(second)
				InverseDCTs(transform, dst, second, stride, blocks, quanta)
				if *blocks != [2][64]int16{} {
					t.Fatal("the blocks are not cleared")
				}
				return append(bytes.Clone(dst), second...)
			})
		})
	}
}

// TestInverseDCTIsNearTheTransform compares the accurate transform with one of floats.
func TestInverseDCTIsNearTheTransform(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		ones := [64]int16{}
		for i := range ones {
			ones[i] = 1
		}
		for range 200 {
			var block [64]int16
			for i := range 10 {
				block[r.IntN(64)] = int16(r.IntN(200)-100) / int16(i+1)
			}
			want := cosines(block)
			got := make([]uint8, 64)
			InverseDCT(AccurateTransform, got, 8, &block, &ones)
			for i, w := range want {
				if d := float64(got[i]) - min(max(w+128, 0), 255); d > 1 || d < -1 {
					t.Fatalf("sample %d is %d, want %v", i, got[i], w+128)
				}
			}
		}
	})
}

func testSampleRows(t *testing.T, rows, perSample int, padding int, f func(dst []uint8, rows [][]uint8)) {
	onBoth(t, 600, func(r *rand.Rand, mem *arena) []uint8 {
		n := r.IntN(150)
		in := make([][]uint8, rows)
		for i := range in {
			in[i] = guarded[uint8](mem, n+padding, r.IntN(4))
			for j := range in[i] {
				in[i][j] = uint8(r.Uint32())
				if r.IntN(4) == 0 {
					in[i][j] = []uint8{0, 255, 127, 128}[r.IntN(4)]
				}
			}
		}
		dst := guarded[uint8](mem, n*perSample, r.IntN(4))
		f(dst, in)
		return dst
	})
}

func TestRowsOfPictures(t *testing.T) {
	t.Run("both", func(t *testing.T) {
		testSampleRows(t, 2, 2, 2, func(dst []uint8, rows [][]uint8) { UpsampleBoth(dst, rows[0], rows[1]) })
	})
	t.Run("across", func(t *testing.T) {
		testSampleRows(t, 1, 2, 2, func(dst []uint8, rows [][]uint8) { UpsampleAcross(dst, rows[0]) })
	})
	t.Run("repeat", func(t *testing.T) {
		testSampleRows(t, 1, 2, 0, func(dst []uint8, rows [][]uint8) { RepeatAcross(dst, rows[0]) })
	})
	t.Run("colours", func(t *testing.T) {
		testSampleRows(t, 3, 3, 0, func(dst []uint8, rows [][]uint8) { YCbCrToRGB(dst, rows[0], rows[1], rows[2]) })
	})
}

func BenchmarkInverseDCT(b *testing.B) {
	var block, quanta [64]int16
	dst := make([]uint8, 64)
	for name, transform := range map[string]Transform{"accurate": AccurateTransform, "fast": FastTransform} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				InverseDCT(transform, dst, 8, &block, &quanta)
			}
		})
	}
}

func BenchmarkYCbCrToRGB(b *testing.B) {
	y, cb, cr, dst := make([]uint8, 299), make([]uint8, 299), make([]uint8, 299), make([]uint8, 897)
	for b.Loop() {
		YCbCrToRGB(dst, y, cb, cr)
	}
}

// cosines is the inverse cosine transform.
func cosines(block [64]int16) (samples [64]float64) {
	for y := range 8 {
		for x := range 8 {
			for v := range 8 {
				for u := range 8 {
					p := float64(block[8*v+u]) / 4 * math.Cos(float64((2*x+1)*u)*math.Pi/16) * math.Cos(float64((2*y+1)*v)*math.Pi/16)
					if u == 0 {
						p /= math.Sqrt2
					}
					if v == 0 {
						p /= math.Sqrt2
					}
					samples[8*y+x] += p
				}
			}
		}
	}
	return samples
}
