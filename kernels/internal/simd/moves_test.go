package simd

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// guarded returns n cells at the edge of a guard page, offset cells away from alignment.
func guarded[T any](mem *arena, n, offset int) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	words := ((n+offset)*size + 3) / 4
	room := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem.floats(max(words, 1))))), words*4/size)
	return room[len(room)-n:]
}

func fillBits[T Cell](r *rand.Rand, s []T) {
	for i := range s {
		s[i] = T(r.Uint64())
	}
}

func testSelect[T Cell](t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		mem := &arena{r: r}
		for n := range 2*selectTurn + 10 {
			dst, a, b := guarded[T](mem, n, r.IntN(4)), guarded[T](mem, n, r.IntN(4)), guarded[T](mem, n, r.IntN(4))
			cond := guarded[bool](mem, n, r.IntN(4))
			fillBits(r, a)
			fillBits(r, b)
			want := make([]T, n)
			for i := range cond {
				cond[i] = r.IntN(2) == 0
				want[i] = b[i]
				if cond[i] {
					want[i] = a[i]
				}
			}
			Select(dst, cond, a, b)
			if !slices.Equal(dst, want) {
				t.Fatalf("length %d: %v, want %v", n, dst, want)
			}
			Select(b, cond, a, b)
			if !slices.Equal(b, want) {
				t.Fatalf("length %d onto b: %v, want %v", n, b, want)
			}
			mem.release()
		}
	})
}

func TestSelect(t *testing.T) {
	t.Run("1", testSelect[uint8])
	t.Run("2", testSelect[uint16])
	t.Run("4", testSelect[uint32])
	t.Run("8", testSelect[uint64])
}

// sameBits reports whether values have the same bits or are both NaN.
func sameBits[T int32 | float32 | float64](a, b T) bool {
	return a != a && b != b || a == b && 1/float64(a) == 1/float64(b)
}

func expectConverted[D, S int32 | float32 | float64](t *testing.T, convert, reference func(dst []D, src []S), fill func(r *rand.Rand, s []S)) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		mem := &arena{r: r}
		for n := range maxLength {
			dst, src := guarded[D](mem, n, r.IntN(4)), guarded[S](mem, n, r.IntN(4))
			fill(r, src)
			want := make([]D, n)
			reference(want, src)
			convert(dst, src)
			for i := range want {
				if !sameBits(dst[i], want[i]) {
					t.Fatalf("length %d: %v becomes %v, want %v", n, src[i], dst[i], want[i])
				}
			}
			mem.release()
		}
	})
}

func TestConversions(t *testing.T) {
	floats := func(r *rand.Rand, s []float32) {
		randomFloats(r, s)
		for i := range s {
			if r.IntN(4) == 0 {
				s[i] = []float32{-1 << 31, 1 << 31, 1<<31 - 128, -1<<31 - 256, 1.9, -1.9, 0.99999994}[r.IntN(7)]
			}
		}
	}
	t.Run("Truncate", func(t *testing.T) { expectConverted(t, Truncate, truncate, floats) })
	t.Run("Doubles", func(t *testing.T) { expectConverted(t, Doubles, convert[float64, float32], floats) })
	t.Run("FloatsOfDoubles", func(t *testing.T) {
		expectConverted(t, FloatsOfDoubles, convert[float32, float64], func(r *rand.Rand, s []float64) {
			for i, v := range randomFloats(r, make([]float32, len(s))) {
				s[i] = float64(v) * (1 + r.Float64()*0x1p-20)
			}
		})
	})
}

func TestTranspose(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		mem := &arena{r: r}
		for range 300 {
			rows, columns := 1+r.IntN(40), 1+r.IntN(40)
			lds, ldd := rows+r.IntN(5), columns+r.IntN(5)
			src, dst := guarded[uint32](mem, (columns-1)*lds+rows, 0), guarded[uint32](mem, (rows-1)*ldd+columns, 0)
			fillBits(r, src)
			before := slices.Clone(dst)
			Transpose(dst, ldd, src, lds, rows, columns)
			for i := range dst {
				want := before[i]
				if at := i % ldd; at < columns {
					want = src[at*lds+i/ldd]
				}
				if dst[i] != want {
					t.Fatalf("%dx%d by %d and %d: element %d is %x, want %x", rows, columns, ldd, lds, i, dst[i], want)
				}
			}
			mem.release()
		}
	})
}
