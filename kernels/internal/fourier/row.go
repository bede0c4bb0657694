package fourier

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// LeastRow is the minimum length of a Row.
const LeastRow = Rows * Rows

// Row transforms one vector at once, in single precision. Its length is a power of two and at least LeastRow. It works in two steps: first
// on sets of every sixteenth number, one set in each lane of the processor's registers, then on the numbers at one position in all sets.
// Unlike with Lanes, all numbers stay in the first-level cache. It may be used by one goroutine at a time.
type Row struct {
	*Table
	sets, places *Table
	here, there  []float32
	half         []float32 // what ToReal starts from
}

// Row returns a Row for the table's length.
func (t *Table) Row() *Row {
	t.turned.Do(func() {
		t.turns = make([]float32, 2*t.n)
		for k := range t.n / Rows {
			for set := range Rows {
				sin, cos := math.Sincos(2 * math.Pi * float64(set*k) / float64(t.n))
				t.turns[number*k+set], t.turns[number*k+Rows+set] = float32(cos), float32(-sin)
			}
		}
	})
	return &Row{t, NewTable(t.n / Rows), NewTable(Rows), make([]float32, 2*t.n), make([]float32, 2*t.n), make([]float32, 2*t.n+2)}
}

// Transform sets dst to the transform of the complex numbers in src, whose real and imaginary parts alternate. The inverse divides by their
// count.
func (f *Row) Transform(dst, src []float32, inverse bool) {
	count := f.sets.n // numbers in each set
	simd.LoadNumbers(f.here, src, count, number, inverse)
	here, there := f.sets.pass(f.here, f.there, 1, false)
	simd.MulNumbers(here, f.turns)
	blocks := count / Rows
	for b := range blocks {
		for part := 0; part < number; part += Rows {
			simd.Transpose(there[number*b+part:], number*blocks, here[number*Rows*b+part:], number, Rows, Rows)
		}
	}
	here, there = f.places.pass(there, here, blocks, false)
	scale := float32(1)
	if inverse {
		scale = 1 / float32(f.n)
	}
	simd.StoreNumbers(dst, here, count, number, scale, inverse)
	f.here, f.there = here, there
}

// FromReal sets dst to the first n+1 numbers of the transform of the 2n real numbers in src.
func (f *Row) FromReal(dst, src []float32) {
	f.Transform(dst, src, false)
	dst[2*f.n], dst[2*f.n+1] = dst[0], dst[1] // the transform has a period of n
	simd.UntangleRow(dst, dst, f.n, f.forth)
}

// ToReal is the inverse of FromReal.
func (f *Row) ToReal(dst, src []float32) {
	copy(f.half, src)
	// The first and the last number of a real transform are real.
	f.half[1], f.half[2*f.n+1] = 0, 0
	simd.UntangleRow(f.half, f.half, f.n, f.back)
	f.Transform(dst, f.half, true)
}
