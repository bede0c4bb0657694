package fourier

import (
	"math"
	"math/bits"
	"sync"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Rows is the number of rows that Lanes transforms together.
const Rows = simd.FourierRows

// number is the number of floats that one complex number of all rows takes: all real parts, then all imaginary parts.
const number = simd.FourierNumber

// Table holds what all transforms of a length, a power of two, share.
type Table struct {
	n           int
	passes      [][][6]float32 // factors of the radix-4 passes
	forth, back [][2]float32   // split the transform of twice as many real numbers, and join it

	turned sync.Once
	turns  []float32 // between the two steps of a Row
}

// tables holds the tables of short lengths, built on first use.
var tables [15]struct {
	once  sync.Once
	table *Table
}

// NewTable returns the table for transforms of n numbers, where n is a power of two. Tables of short lengths are shared.
func NewTable(n int) *Table {
	if k := bits.TrailingZeros(uint(n)); k < len(tables) {
		known := &tables[k]
		known.once.Do(func() { known.table = newTable(n) })
		return known.table
	}
	return newTable(n)
}

func newTable(n int) *Table {
	f := &Table{n: n}
	for left := n; left > 2; left /= 4 {
		pass := make([][6]float32, left/4)
		for p := range pass {
			for k := range 3 {
				sin, cos := math.Sincos(2 * math.Pi * float64((k+1)*p) / float64(left))
				pass[p][2*k], pass[p][2*k+1] = float32(cos), float32(-sin)
			}
		}
		f.passes = append(f.passes, pass)
	}
	for k := range n/2 + 1 {
		// The root is cos-i·sin; the factor is -i times it, or i times its conjugate.
		sin, cos := math.Sincos(math.Pi * float64(k) / float64(n))
		f.forth = append(f.forth, [2]float32{float32(-sin), float32(-cos)})
		f.back = append(f.back, [2]float32{float32(-sin), float32(cos)})
	}
	return f
}

// Lanes transforms vectors in single precision, Rows at once: one in each lane of the processor's registers. It may be used by one
// goroutine at a time.
type Lanes struct {
	*Table
	here  []float32 // the numbers, between loading and storing
	there []float32 // where a pass writes its results
}

// Bytes returns the memory that Lanes and its table take for vectors of n numbers.
func Bytes(n int) int { return 4 * (2*number*(n+1) + 8*n) }

// Lanes returns a Lanes for the table's length.
func (t *Table) Lanes() *Lanes {
	return &Lanes{t, make([]float32, number*(t.n+1)), make([]float32, number*(t.n+1))}
}

// Load loads the complex numbers of up to Rows rows. Real and imaginary parts alternate, and rows begin stride elements apart. Missing
// rows, and everything beyond the end of a row, are zero.
func (f *Lanes) Load(rows []float32, count, length, stride int) {
	if length = min(length, 2*f.n+2); count < Rows || length < 2*f.n {
		clear(f.here)
	}
	simd.Transpose(f.here, Rows, rows, stride, length, count)
}

// Store stores the first elements of each row.
func (f *Lanes) Store(rows []float32, count, length, stride int) {
	simd.Transpose(rows, stride, f.here, Rows, count, length)
}

// LoadColumns is Load for a transposed layout: the numbers at the same position in all rows are adjacent, and positions are stride elements
// apart.
func (f *Lanes) LoadColumns(src []float32, count, stride int) {
	if count == Rows {
		simd.LoadNumbers(f.here, src, f.n, stride, false)
		return
	}
	clear(f.here)
	for i := range f.n {
		from, to := src[i*stride:][:2*count], (*[number]float32)(f.here[number*i:])
		for j := range count {
			to[j], to[Rows+j] = from[2*j], from[2*j+1]
		}
	}
}

// StoreColumns is Store for the layout of LoadColumns.
func (f *Lanes) StoreColumns(dst []float32, count, stride int) {
	if count == Rows {
		simd.StoreNumbers(dst, f.here, f.n, stride, 1, false)
		return
	}
	for i := range f.n {
		to, from := dst[i*stride:][:2*count], (*[number]float32)(f.here[number*i:])
		for j := range count {
			to[2*j], to[2*j+1] = from[j], from[Rows+j]
		}
	}
}

// Transform transforms the loaded numbers. The inverse divides by their count.
func (f *Lanes) Transform(inverse bool) {
	f.here, f.there = f.pass(f.here, f.there, 1, inverse)
	if inverse {
		simd.MulScalar(f.here[:number*f.n], f.here[:number*f.n], 1/float32(f.n))
	}
}

// pass transforms apart interleaved sets of numbers. The passes alternate between here and there and leave the numbers in order (Stockham).
// The inverse does not divide.
func (t *Table) pass(here, there []float32, apart int, inverse bool) (result, other []float32) {
	all, left := apart*t.n, t.n
	for _, factors := range t.passes {
		simd.Butterflies4(there, here, apart, all/4, apart, factors, inverse)
		here, there = there, here
		apart *= 4
		left /= 4
	}
	if left == 2 {
		simd.Butterflies2(there, here, apart, all/2, apart, inverse)
		here, there = there, here
	}
	return here, there
}

// FromReal transforms rows of 2n real numbers, loaded as n complex numbers of adjacent pairs. The result is the first n+1 numbers.
func (f *Lanes) FromReal() {
	f.Transform(false)
	copy(f.here[number*f.n:], f.here[:number]) // the transform has a period of n
	f.untangle(f.forth)
}

// ToReal is the inverse of FromReal, for n+1 loaded numbers.
func (f *Lanes) ToReal() {
	// The first and the last number of a real transform are real.
	clear(f.here[Rows:number])
	clear(f.here[number*f.n+Rows:][:Rows])
	f.untangle(f.back)
	f.Transform(true)
}

func (f *Lanes) untangle(factors [][2]float32) {
	simd.Untangle(f.there, f.here, f.n, len(factors), factors)
	f.here, f.there = f.there, f.here
}
