package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// halves returns memory for n 2-byte numbers that begins or ends at a guard page.
func (a *arena) halves(n int) []uint16 {
	f := a.floats((n + 1) / 2)
	h := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(f))), 2*len(f))
	return h[len(h)-n:]
}

// bfloats returns random bfloat16 numbers and their exact values.
func bfloats(mem *arena, n int) ([]uint16, []float32) {
	exact := make([]float32, n)
	for i := range exact {
		exact[i] = float32(mem.r.NormFloat64())
	}
	bits := mem.halves(n)
	narrow(bits, exact)
	widen(exact, bits)
	return bits, exact
}

// TestGemmBFloat16 compares products with sums in float64. The rounded result must be within 1/256 of the sum of the absolute products.
//
// It does so with each implementation that the processor has.
func TestGemmBFloat16(t *testing.T) {
	if !HasGemmBFloat16(1) {
		t.Skip("this processor does not multiply bfloat16")
	}
	before := active.bfloatTiles
	defer func() { active.bfloatTiles = before }()
	for _, p := range bfloatTilings {
		active.bfloatTiles = p.tiles
		t.Run(p.name, testGemmBFloat16)
	}
}

func testGemmBFloat16(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	mem := &arena{r: r}
	sizes := [][3]int{{1, 1, 1}, {16, 16, 16}, {32, 32, 32}, {33, 31, 65}, {64, 96, 128}, {5, 200, 33}, {100, 7, 1}, {128, 10, 100}, {31, 33, 0}}
	for range 150 {
		sizes = append(sizes, [3]int{1 + r.IntN(100), 1 + r.IntN(100), 1 + r.IntN(150)})
	}
	for i, s := range sizes {
		m, n, k := s[0], s[1], s[2]
		for _, transA := range []bool{false, true} {
			for _, transB := range []bool{false, true} {
				lda, ldb, ldc := k+r.IntN(2), n+r.IntN(2), n+r.IntN(2)
				lenA, lenB := max(0, (m-1)*lda+k), max(0, (k-1)*ldb+n)
				stepA, stepK, stepB, stepN := lda, 1, ldb, 1
				if transA {
					lda = m + r.IntN(2)
					lenA, stepA, stepK = max(0, (k-1)*lda+m), 1, lda
				}
				if transB {
					ldb = k + r.IntN(2)
					lenB, stepB, stepN = max(0, (n-1)*ldb+k), 1, ldb
				}
				if k == 0 {
					lenA, lenB = 0, 0
				}
				a, exactA := bfloats(mem, lenA)
				b, exactB := bfloats(mem, lenB)
				c := mem.halves((m-1)*ldc + n)
				for i := range c {
					c[i] = 0x7fc0
				}
				par := Parallel(nil)
				if i%2 == 0 {
					par = splitting
				}
				GemmBFloat16(par, transA, transB, m, n, k, a, lda, b, ldb, c, ldc)
				for i := range m {
					for j := range n {
						want, size := 0.0, 0.0
						for x := range k {
							p := float64(exactA[i*stepA+x*stepK]) * float64(exactB[x*stepB+j*stepN])
							want += p
							size += math.Abs(p)
						}
						got := float64(math.Float32frombits(uint32(c[i*ldc+j]) << 16))
						if !(math.Abs(got-want) <= size/256) {
							t.Fatalf("%v %v %v: element %d, %d is %g, want %g", s, transA, transB, i, j, got, want)
						}
					}
					if i+1 < m && ldc > n && c[i*ldc+n] != 0x7fc0 {
						t.Fatalf("%v: wrote between the rows", s)
					}
				}
				mem.release()
			}
		}
	}
}

func BenchmarkGemmBFloat16(b *testing.B) {
	if !HasGemmBFloat16(1) {
		b.Skip("this processor has no tiles")
	}
	for _, n := range []int{64, 256, 512, 1024, 2048} {
		for _, trans := range []string{"", "At", "Bt"} {
			b.Run(fmt.Sprint(n, trans), func(b *testing.B) {
				x, y, z := make([]uint16, n*n), make([]uint16, n*n), make([]uint16, n*n)
				for b.Loop() {
					GemmBFloat16(nil, trans == "At", trans == "Bt", n, n, n, x, n, y, n, z, n)
				}
				b.ReportMetric(2*float64(n)*float64(n)*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
