package simd

import (
	"cmp"
	"math"
)

var negativeInfinity = float32(math.Inf(-1))

// EachTap sets the n results of each place to initial, then calls tap for each of the place's taps, with the offset in a where the tap
// begins; offsets start at at.
func EachTap[T any](t *Taps, dst []T, at, n int, initial T, tap func(dst []T, from int)) {
	for p := range t.Places {
		to := dst[p*t.PlaceDst:][:n]
		for i := range to {
			to[i] = initial
		}
		for r := range t.Rows {
			for c := range t.Cols {
				tap(to, at+p*t.PlaceA+r*t.RowA+c*t.ColA)
			}
		}
	}
}

// SumOfTapProducts is Taps.SumOfProducts for any float type.
func SumOfTapProducts[T ~float32 | ~float64](t *Taps, dst, a, b []T, atA, atB, n int, accumulate bool) {
	for p := range t.Places {
		to := dst[p*t.PlaceDst:][:n]
		if !accumulate {
			clear(to)
		}
		for r := range t.Rows {
			for c := range t.Cols {
				x, w := a[atA+p*t.PlaceA+r*t.RowA+c*t.ColA:][:n], b[atB+p*t.PlaceB+r*t.RowB+c*t.ColB:][:n]
				for i, v := range x {
					to[i] += v * w[i]
				}
			}
		}
	}
}

// AddTapProducts is Taps.AddProducts for any float type.
func AddTapProducts[T ~float32 | ~float64](t *Taps, dst, a, b []T, atA, atB, n int) {
	for p := range t.Places {
		w := b[atB+p*t.PlaceB:][:n]
		for r := range t.Rows {
			for c := range t.Cols {
				x, to := a[atA+p*t.PlaceA+r*t.RowA+c*t.ColA:][:n], dst[r*t.RowB+c*t.ColB:][:n]
				for i, v := range w {
					to[i] += v * x[i]
				}
			}
		}
	}
}

// MaxGradOfTaps is Taps.MaxGrad for any ordered type.
func MaxGradOfTaps[T cmp.Ordered](t *Taps, dst, a, grad []T, at, n int) {
	for p := range t.Places {
		first := at + p*t.PlaceA
		for i, g := range grad[p*t.PlaceDst:][:n] {
			best := first + i
			for r := range t.Rows {
				for c := range t.Cols {
					if x := first + r*t.RowA + c*t.ColA + i; a[x] > a[best] {
						best = x
					}
				}
			}
			dst[best] += g
		}
	}
}
