package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// randomTaps returns windows, the lengths that they need, and the offsets of the first tap in a and b.
func randomTaps(r *rand.Rand, n int) (t Taps, lenDst, lenA, lenB, atA, atB int) {
	step := func() int { return r.IntN(2*n+5) - n - 2 }
	t = Taps{
		Places: 1 + r.IntN(4), PlaceDst: n + r.IntN(3), PlaceA: step(), PlaceB: step(),
		Rows: 1 + r.IntN(4), RowA: step(), RowB: step(), Cols: 1 + r.IntN(5), ColA: step(), ColB: step(),
	}
	if r.IntN(2) == 0 {
		t.PlaceB = 0
	}
	a := spanOf(n).over(t.Cols, t.ColA).over(t.Rows, t.RowA).over(t.Places, t.PlaceA)
	b := spanOf(n).over(t.Cols, t.ColB).over(t.Rows, t.RowB).over(t.Places, t.PlaceB)
	return t, (t.Places-1)*t.PlaceDst + n, a.hi - a.lo, b.hi - b.lo, -a.lo, -b.lo
}

// TestTaps compares with the portable functions, in memory that ends at guard pages.
func TestTaps(t *testing.T) {
	special := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1))}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for round := range 400 {
			mem := &arena{r: r}
			n := 1 + r.IntN(150)
			taps, lenDst, lenA, lenB, atA, atB := randomTaps(r, n)
			a, b := fill(r, mem.floats(lenA)), fill(r, mem.floats(lenB))
			if round%4 == 0 {
				for range 3 {
					a[r.IntN(len(a))] = special[r.IntN(len(special))]
				}
			}
			dst := fill(r, mem.floats(lenDst))
			want, wide := clone(dst), make([]float64, lenDst)

			EachTap(&taps, want, atA, n, negativeInfinity, func(to []float32, from int) { maximum(to, to, a[from:][:n]) })
			taps.Max(dst, a, atA, n)
			for i := range dst {
				if math.Float32bits(dst[i]) != math.Float32bits(want[i]) && (dst[i] == dst[i] || want[i] == want[i]) {
					t.Fatalf("max of %+v: number %d is %v, want %v", taps, i, dst[i], want[i])
				}
			}

			mean := clone(dst)
			taps.Sum(dst, a, atA, n)
			taps.Mean(mean, a, atA, n, 3)
			for p := range taps.Places {
				to := dst[p*taps.PlaceDst:][:n]
				divScalar(to, to, 3)
				expectExact(t, "mean", mean[p*taps.PlaceDst:][:n], to)
			}

			accumulate := r.IntN(2) == 0
			for _, products := range []bool{false, true} {
				for i := range dst {
					dst[i] = 1
				}
				for p := range taps.Places {
					for i := range n {
						sum := 0.0
						if products && accumulate {
							sum = 1
						}
						for row := range taps.Rows {
							for col := range taps.Cols {
								v := float64(a[atA+p*taps.PlaceA+row*taps.RowA+col*taps.ColA+i])
								if products {
									v *= float64(b[atB+p*taps.PlaceB+row*taps.RowB+col*taps.ColB+i])
								}
								sum += v
							}
						}
						wide[p*taps.PlaceDst+i] = sum
					}
				}
				if products {
					taps.SumOfProducts(dst, a, b, atA, atB, n, accumulate)
				} else {
					taps.Sum(dst, a, atA, n)
				}
				for p := range taps.Places {
					for i := range taps.PlaceDst {
						at := p*taps.PlaceDst + i
						switch {
						case at >= lenDst:
						case i >= n:
							if dst[at] != 1 {
								t.Fatalf("sum of %+v: number %d between the results was written", taps, at)
							}
						case math.Abs(float64(dst[at])-wide[at]) > 1e-4 || (dst[at] == dst[at]) != (wide[at] == wide[at]):
							t.Fatalf("sum of %+v, products %v: number %d is %v, want %v", taps, products, at, dst[at], wide[at])
						}
					}
				}
			}
			mem.release()
		}
	})
}

// TestTapProducts compares with the portable function, in memory that ends at guard pages.
func TestTapProducts(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for range 400 {
			mem := &arena{r: r}
			n := 1 + r.IntN(70)
			taps, _, _, _, _, _ := randomTaps(r, n)
			taps.Rows, taps.Cols = 1+r.IntN(5), 1+r.IntN(5)
			taps.ColB = n + r.IntN(3)
			taps.RowB = taps.Cols*taps.ColB + r.IntN(3)
			span := spanOf(n).over(taps.Cols, taps.ColA).over(taps.Rows, taps.RowA).over(taps.Places, taps.PlaceA)
			lenA, atA := span.hi-span.lo, -span.lo
			ofB := spanOf(n).over(taps.Places, taps.PlaceB)
			a, b := fill(r, mem.floats(lenA)), fill(r, mem.floats(ofB.hi-ofB.lo))
			dst := fill(r, mem.floats((taps.Rows-1)*taps.RowB+(taps.Cols-1)*taps.ColB+n))
			want := make([]float64, len(dst))
			for i, v := range dst {
				want[i] = float64(v)
			}
			AddTapProducts(&taps, want, asDoubles(a), asDoubles(b), atA, -ofB.lo, n)
			taps.AddProducts(dst, a, b, atA, -ofB.lo, n)
			for i, v := range want {
				if math.Abs(float64(dst[i])-v) > 1e-4 {
					t.Fatalf("products of %+v: number %d is %v, want %v", taps, i, dst[i], v)
				}
			}
			mem.release()
		}
	})
}

func asDoubles(s []float32) []float64 {
	d := make([]float64, len(s))
	convert(d, s)
	return d
}

func TestRows(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		for range 100 {
			mem := &arena{r: r}
			n, rows := 1+r.IntN(200), 1+r.IntN(9)
			if r.IntN(10) == 0 {
				rows += block / n
			}
			src, dst, want := fill(r, mem.floats(n*rows)), mem.floats(n), make([]float64, n)
			if r.IntN(3) == 0 {
				src[r.IntN(len(src))] = float32(math.NaN())
			}
			for i, v := range src {
				want[i%n] += float64(v)
			}
			SumRows(dst, src)
			for i, v := range want {
				if math.Abs(float64(dst[i])-v) > 1e-3 || (dst[i] == dst[i]) != (v == v) {
					t.Fatalf("sum of %d rows of %d: number %d is %v, want %v", rows, n, i, dst[i], v)
				}
			}
			mem.release()
		}
	})
}

func TestTapsRefuseShortSlices(t *testing.T) {
	taps := Taps{Places: 2, PlaceDst: 3, PlaceA: 3, Rows: 1, Cols: 2, ColA: -3, ColB: 3}
	for name, f := range map[string]func(){
		"result":    func() { taps.Sum(make([]float32, 5), make([]float32, 12), 3, 3) },
		"before a":  func() { taps.Sum(make([]float32, 6), make([]float32, 12), 2, 3) },
		"after a":   func() { taps.Max(make([]float32, 6), make([]float32, 8), 3, 3) },
		"after b":   func() { taps.SumOfProducts(make([]float32, 6), make([]float32, 9), make([]float32, 5), 3, 0, 3, false) },
		"no number": func() { taps.Sum(make([]float32, 6), make([]float32, 12), 3, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("did not panic")
				}
			}()
			f()
		})
	}
}

// TestTapGradients compares Add and MaxGrad with the portable functions, in memory that ends at guard pages.
func TestTapGradients(t *testing.T) {
	nan := float32(math.NaN())
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(17, 18))
		for round := range 400 {
			mem := &arena{r: r}
			n := 1 + r.IntN(70)
			taps, lenDst, lenA, _, at, _ := randomTaps(r, n)
			a, grad := fill(r, mem.floats(lenA)), fill(r, mem.floats(lenDst))
			dst := fill(r, mem.floats(lenA))
			for _, v := range [][]float32{a, grad, dst} { // integers: some are equal, and sums are exact
				for i := range v {
					v[i] = float32(math.Round(float64(v[i])))
				}
			}
			if round%4 == 0 {
				a[r.IntN(len(a))] = nan
			}
			want := clone(dst)
			MaxGradOfTaps(&taps, want, a, grad, at, n)
			taps.MaxGrad(dst, a, grad, at, n)
			expectExact(t, "gradient of max", dst, want)

			sums := clone(grad)
			for p := range taps.Places {
				for row := range taps.Rows {
					for col := range taps.Cols {
						to := sums[p*taps.PlaceDst:][:n]
						add(to, to, a[at+p*taps.PlaceA+row*taps.RowA+col*taps.ColA:][:n])
					}
				}
			}
			taps.Add(grad, a, at, n)
			expectExact(t, "sum", grad, sums)
			mem.release()
		}
	})
}
