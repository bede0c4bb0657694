package simd

import (
	"fmt"
	"sync"
)

// Taps describes windows over the pixels of an image, all with the same number of channels: the offsets of their taps, in numbers from the
// first tap of the first window. Steps may be negative. The values combined with the taps, and the results, have their own steps.
type Taps struct {
	Places, PlaceDst, PlaceA, PlaceB int // windows, and the steps between them
	Rows, RowA, RowB                 int // per window
	Cols, ColA, ColB                 int // per row
}

// taps pools descriptions; passing them to assembly would otherwise allocate.
var taps = sync.Pool{New: func() any { return new(Taps) }}

// BorrowTaps returns a Taps with undefined content, to be given back with Return.
func BorrowTaps() *Taps { return taps.Get().(*Taps) }

// Return gives t back.
func (t *Taps) Return() { taps.Put(t) }

// span is a range of offsets, lo inclusive, hi exclusive.
type span struct{ lo, hi int }

func spanOf(n int) span { return span{0, n} }

// over returns the span of count copies of s, step apart.
func (s span) over(count, step int) span {
	last := (count - 1) * step
	return span{s.lo + min(0, last), s.hi + max(0, last)}
}

func (s span) check(what string, at, length int) {
	if at+s.lo < 0 || at+s.hi > length {
		panic(fmt.Sprintf("simd: taps in numbers %d to %d of %s, which has %d", at+s.lo, at+s.hi, what, length))
	}
}

// check panics unless all taps of a, starting at number atA, and all results are within the slices.
func (t *Taps) check(dst, a []float32, atA, n int) {
	if min(t.Places, t.Rows, t.Cols, n) < 1 {
		panic(fmt.Sprintf("simd: taps %+v of %d channels", *t, n))
	}
	spanOf(n).over(t.Places, t.PlaceDst).check("the results", 0, len(dst))
	spanOf(n).over(t.Cols, t.ColA).over(t.Rows, t.RowA).over(t.Places, t.PlaceA).check("a", atA, len(a))
}

// filteredTaps are the vector kernels of SumOfProducts for a b that is the same for all places, indexed by the rows and columns of windows
// minus one.
type filteredTaps [3][3]func(dst, a, b *float32, n int, t *int, accumulate int)

// SumOfProducts sets n numbers of dst for each place to the sums of the products of a's taps, starting at number atA, and b's, starting at
// number atB. It adds to dst if accumulate is set.
func (t *Taps) SumOfProducts(dst, a, b []float32, atA, atB, n int, accumulate bool) {
	t.check(dst, a, atA, n)
	spanOf(n).over(t.Cols, t.ColB).over(t.Rows, t.RowB).over(t.Places, t.PlaceB).check("b", atB, len(b))
	if active.sumOfProducts == nil {
		SumOfTapProducts(t, dst, a, b, atA, atB, n, accumulate)
		return
	}
	if t.PlaceB != 0 || t.Places == 1 || active.filteredTaps == nil {
		active.sumOfProducts(&dst[0], &a[atA], &b[atB], n, &t.Places, asInt(accumulate))
		return
	}
	const most = len(active.filteredTaps)
	for r := 0; r < t.Rows; r += most {
		for c := 0; c < t.Cols; c += most {
			kernel := active.filteredTaps[min(most, t.Rows-r)-1][min(most, t.Cols-c)-1]
			kernel(&dst[0], &a[atA+r*t.RowA+c*t.ColA], &b[atB+r*t.RowB+c*t.ColB], n, &t.Places, asInt(accumulate || r+c > 0))
		}
	}
}

// Sum sets n numbers of dst for each place to the sums of a's taps, starting at number at.
func (t *Taps) Sum(dst, a []float32, at, n int) {
	t.check(dst, a, at, n)
	if active.sumOfTaps == nil {
		EachTap(t, dst, at, n, 0, func(dst []float32, from int) { add(dst, dst, a[from:][:len(dst)]) })
		return
	}
	active.sumOfTaps(&dst[0], &a[at], n, &t.Places, 0)
}

// Mean is Sum divided by divisor.
func (t *Taps) Mean(dst, a []float32, at, n int, divisor float32) {
	t.check(dst, a, at, n)
	if active.meanOfTaps != nil {
		active.meanOfTaps(&dst[0], &a[at], n, &t.Places, 0, divisor)
		return
	}
	t.Sum(dst, a, at, n)
	for p := range t.Places {
		to := dst[p*t.PlaceDst:][:n]
		divScalar(to, to, divisor)
	}
}

// tapProducts are the vector kernels of AddProducts, indexed by the rows and columns of windows minus one.
type tapProducts [3][3]func(dst, a, b *float32, n int, t *int)

// AddProducts adds the products of a's taps, starting at number atA, with n numbers of b for each place, starting at number atB. The
// products of each tap are added to n numbers of dst: those of the first tap to the first ones, those of the others RowB and ColB further.
// No two taps share numbers of dst.
func (t *Taps) AddProducts(dst, a, b []float32, atA, atB, n int) {
	spanOf(n).over(t.Cols, t.ColB).over(t.Rows, t.RowB).check("the sums", 0, len(dst))
	spanOf(n).over(t.Places, t.PlaceB).check("b", atB, len(b))
	over := *t
	over.PlaceDst = 0
	over.check(dst, a, atA, n)
	if active.tapProducts == nil {
		AddTapProducts(t, dst, a, b, atA, atB, n)
		return
	}
	const most = len(active.tapProducts)
	for r := 0; r < t.Rows; r += most {
		for c := 0; c < t.Cols; c += most {
			kernel := active.tapProducts[min(most, t.Rows-r)-1][min(most, t.Cols-c)-1]
			kernel(&dst[r*t.RowB+c*t.ColB], &a[atA+r*t.RowA+c*t.ColA], &b[atB], n, &t.Places)
		}
	}
}

// mostRowLen is the longest row that SumRows should process: for longer ones, processing row by row is faster than processing blocks of
// columns.
const mostRowLen = 512

// ShortRows reports whether SumRows should be used for rows of n numbers.
func ShortRows(n int) bool { return n <= mostRowLen }

// SumRows sets dst to the sum of the rows of src, each len(dst) long.
func SumRows(dst, src []float32) {
	n := len(dst)
	if n == 0 || len(src) == 0 || len(src)%n != 0 {
		panic(fmt.Sprintf("simd: rows of %d in %d numbers", n, len(src)))
	}
	copy(dst, src)
	src = src[n:]
	t := BorrowTaps()
	defer t.Return()
	for len(src) > 0 {
		*t = Taps{Places: 1, Rows: min(max(1, block/n), len(src)/n), RowA: n, Cols: 1}
		if active.sumOfTaps != nil {
			active.sumOfTaps(&dst[0], &src[0], n, &t.Places, 1)
		} else {
			for r := range t.Rows {
				add(dst, dst, src[r*n:][:n])
			}
		}
		src = src[t.Rows*n:]
	}
}

// Max sets n numbers of dst for each place to the maximum of a's taps, starting at number at, as a sequence of calls of Max would.
func (t *Taps) Max(dst, a []float32, at, n int) {
	t.check(dst, a, at, n)
	if active.maxOfTaps == nil {
		EachTap(t, dst, at, n, negativeInfinity, func(dst []float32, from int) { maximum(dst, dst, a[from:][:len(dst)]) })
		return
	}
	active.maxOfTaps(&dst[0], &a[at], n, &t.Places, 0)
}

// Add adds a's taps, starting at number at, to n numbers of dst for each place.
func (t *Taps) Add(dst, a []float32, at, n int) {
	t.check(dst, a, at, n)
	if active.sumOfTaps == nil {
		for p := range t.Places {
			to := dst[p*t.PlaceDst:][:n]
			for r := range t.Rows {
				for c := range t.Cols {
					add(to, to, a[at+p*t.PlaceA+r*t.RowA+c*t.ColA:][:n])
				}
			}
		}
		return
	}
	active.sumOfTaps(&dst[0], &a[at], n, &t.Places, 1)
}

// MaxGrad adds n numbers of grad for each place to dst, at the position of the first of the greatest of the place's taps in a. The numbers
// for each place are PlaceDst apart in grad; taps start at number at in a and dst. A NaN counts as greatest only if it is the first tap.
func (t *Taps) MaxGrad(dst, a, grad []float32, at, n int) {
	t.check(grad, a, at, n)
	over := *t
	over.PlaceDst = 0
	over.check(dst[:n], dst, at, n)
	if active.maxGradOfTaps == nil {
		MaxGradOfTaps(t, dst, a, grad, at, n)
		return
	}
	active.maxGradOfTaps(&dst[at], &a[at], &grad[0], n, &t.Places)
}
