package fourier

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// slowly computes the transform by its definition.
func slowly(x []complex128, inverse bool) []complex128 {
	n, sign := len(x), -1.0
	if inverse {
		sign = 1
	}
	y := make([]complex128, n)
	for k := range y {
		for i, v := range x {
			y[k] += v * cmplx.Exp(complex(0, sign*2*math.Pi*float64(i*k%n)/float64(n)))
		}
		if inverse {
			y[k] /= complex(float64(n), 0)
		}
	}
	return y
}

func expectNear(t *testing.T, what string, got, want []complex128, tolerance float64) {
	t.Helper()
	for i := range want {
		if !(cmplx.Abs(got[i]-want[i]) <= tolerance*math.Sqrt(float64(len(want)))) {
			t.Fatalf("%s gives %v at %d of %d, want %v", what, got[i], i, len(want), want[i])
		}
	}
}

func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 5, 8, 12, 64, 77, 128} {
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		p, got := NewPlan(n, nil), append([]complex128{}, x...)
		p.Forward(got)
		expectNear(t, "Forward", got, slowly(x, false), 1e-12)
		p.Inverse(got)
		expectNear(t, "Inverse", got, x, 1e-12)
	}
}

// TestLanes transforms rows of complex and of real numbers, forward and back, by rows and by columns.
func TestLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 4, 8, 16, 32, 128, 1024} {
		if n > 128 && !extent.Check() {
			continue // the naive transform takes seconds
		}
		for _, count := range []int{1, 3, Rows} {
			t.Run(fmt.Sprint(n, " ", count), func(t *testing.T) {
				f := NewTable(n).Lanes()
				x := make([]float32, count*2*n)
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
				numbers := func(row []float32) []complex128 {
					c := make([]complex128, len(row)/2)
					for i := range c {
						c[i] = complex(float64(row[2*i]), float64(row[2*i+1]))
					}
					return c
				}
				for _, inverse := range []bool{false, true} {
					f.Load(x, count, 2*n, 2*n)
					f.Transform(inverse)
					y := make([]float32, len(x))
					f.Store(y, count, 2*n, 2*n)
					for row := range count {
						expectNear(t, "Transform", numbers(y[row*2*n:][:2*n]), slowly(numbers(x[row*2*n:][:2*n]), inverse), 2e-6)
					}
				}

				// Rows that end early.
				f.Load(x, count, n, 2*n)
				f.Transform(false)
				y := make([]float32, len(x))
				f.Store(y, count, 2*n, 2*n)
				for row := range count {
					padded := make([]float32, 2*n)
					copy(padded, x[row*2*n:][:n])
					expectNear(t, "Transform of a short row", numbers(y[row*2*n:][:2*n]), slowly(numbers(padded), false), 2e-6)
				}

				// Real numbers, twice as many.
				f.Load(x, count, 2*n, 2*n)
				f.FromReal()
				half := make([]float32, count*(2*n+2))
				f.Store(half, count, 2*n+2, 2*n+2)
				for row := range count {
					real := make([]complex128, 2*n)
					for i, v := range x[row*2*n:][:2*n] {
						real[i] = complex(float64(v), 0)
					}
					expectNear(t, "FromReal", numbers(half[row*(2*n+2):][:2*n+2]), slowly(real, false)[:n+1], 2e-6)
				}
				half[1], half[2*n+1] = 7, 8 // these are ignored
				f.Load(half, count, 2*n+2, 2*n+2)
				f.ToReal()
				back := make([]float32, len(x))
				f.Store(back, count, 2*n, 2*n)
				for row := range count {
					expectNear(t, "ToReal", numbers(back[row*2*n:][:2*n]), numbers(x[row*2*n:][:2*n]), 2e-6)
				}

				// The same numbers as columns.
				columns := make([]float32, len(x))
				for row := range count {
					for i := range n {
						copy(columns[2*(i*count+row):][:2], x[2*(row*n+i):])
					}
				}
				f.LoadColumns(columns, count, 2*count)
				f.Transform(false)
				f.StoreColumns(columns, count, 2*count)
				for row := range count {
					got := make([]complex128, n)
					for i := range got {
						got[i] = numbers(columns[2*(i*count+row):][:2])[0]
					}
					expectNear(t, "Transform of columns", got, slowly(numbers(x[row*2*n:][:2*n]), false), 2e-6)
				}
			})
		}
	}
}

// TestRow transforms one row of complex and of real numbers, forward and back.
func TestRow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	numbers := func(row []float32) []complex128 {
		c := make([]complex128, len(row)/2)
		for i := range c {
			c[i] = complex(float64(row[2*i]), float64(row[2*i+1]))
		}
		return c
	}
	for n := LeastRow; n <= 4096; n *= 2 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := NewTable(n).Row()
			x, y := make([]float32, 2*n), make([]float32, 2*n)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			for _, inverse := range []bool{false, true, false} {
				f.Transform(y, x, inverse)
				want := numbers(x)
				if p := NewPlan(n, nil); inverse {
					p.Inverse(want)
				} else {
					p.Forward(want)
				}
				expectNear(t, "Transform", numbers(y), want, 2e-6)
			}
			want := make([]complex128, 2*n)
			for i, v := range x {
				want[i] = complex(float64(v), 0)
			}
			NewPlan(2*n, nil).Forward(want)
			half := make([]float32, 2*n+2)
			f.FromReal(half, x)
			expectNear(t, "FromReal", numbers(half), want[:n+1], 2e-6)
			half[1], half[2*n+1] = 7, 8 // these are ignored
			f.ToReal(y, half)
			expectNear(t, "ToReal", numbers(y), numbers(x), 2e-6)
		})
	}
}
