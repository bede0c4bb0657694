package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// ordinary replaces NaN and numbers near the ends of float32's range, where relative errors are meaningless.
func ordinary(s []float32) []float32 {
	for i, x := range s {
		if size := math.Abs(float64(x)); !(size < 1e6 && size > 1e-6) {
			s[i] = float32(i)
		}
	}
	return s
}

// near reports whether got is want, except for rounding of terms that add up to size.
func near(got float32, want, size float64) bool {
	return math.Abs(float64(got)-want) <= size*1e-6+1e-30
}

func TestSum(t *testing.T) {
	eachLength(t, 2, func(t *testing.T, s [][]float32) {
		var want, size, product, productSize float64
		a, b := ordinary(s[0]), ordinary(s[1])
		for i := range a {
			want += float64(a[i])
			size += math.Abs(float64(a[i]))
			product += float64(a[i]) * float64(b[i])
			productSize += math.Abs(float64(a[i]) * float64(b[i]))
		}
		if got := Sum(a); !near(got, want, size) {
			t.Fatalf("Sum of %d = %v, want %v", len(a), got, want)
		}
		if got := dotProduct(a, b); !near(got, product, productSize) {
			t.Fatalf("dot product of %d = %v, want %v", len(a), got, product)
		}
	})
}

func TestLongSumStaysExact(t *testing.T) {
	a := make([]float32, 1<<20+12345)
	for i := range a {
		a[i] = 0.1
	}
	want := float64(len(a)) * float64(float32(0.1))
	eachLevel(t, func(t *testing.T) {
		if got := Sum(a); !near(got, want, 2*want) {
			t.Errorf("Sum = %v, want %v", got, want)
		}
		if got := dotProduct(a, a); !near(got, want*0.1, 0.2*want) {
			t.Errorf("dot product = %v, want %v", got, want*0.1)
		}
	})
}

func TestMaxOf(t *testing.T) {
	nan := float32(math.NaN())
	r := rand.New(rand.NewPCG(11, 12))
	eachLength(t, 1, func(t *testing.T, s [][]float32) {
		a := s[0]
		for i, x := range a {
			if x != x {
				a[i] = -3
			}
		}
		want := float32(math.Inf(-1))
		for _, x := range a {
			want = max(want, x)
		}
		if got := MaxOf(a); got != want {
			t.Fatalf("MaxOf %d = %v, want %v", len(a), got, want)
		}
		for i := range a {
			a[i] = -float32(i) - 1
		}
		if len(a) > 0 {
			if got := MaxOf(a); got != -1 {
				t.Fatalf("MaxOf %d negative numbers = %v", len(a), got)
			}
			a[r.IntN(len(a))] = nan
			if got := MaxOf(a); got == got {
				t.Fatalf("MaxOf %d with a NaN = %v", len(a), got)
			}
		}
	})
}

func TestMaxOfLong(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		a := make([]float32, 2*block+5)
		a[block+7] = 9
		if got := MaxOf(a); got != 9 {
			t.Errorf("MaxOf = %v, want 9", got)
		}
		a[3] = float32(math.NaN())
		if got := MaxOf(a); got == got {
			t.Errorf("MaxOf with a NaN = %v", got)
		}
	})
}

func TestAxpy(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	eachLength(t, 2, func(t *testing.T, s [][]float32) {
		y, x := ordinary(s[0]), ordinary(s[1])
		alpha, before := float32(r.NormFloat64()), clone(y)
		Axpy(y, alpha, x)
		for i := range y {
			product := float64(alpha) * float64(x[i])
			if want := float64(before[i]) + product; !near(y[i], want, math.Abs(float64(before[i]))+math.Abs(product)) {
				t.Fatalf("%v + %v * %v = %v, want %v", before[i], alpha, x[i], y[i], want)
			}
		}
	})
}

func TestApplyAdam(t *testing.T) {
	const rate, beta1, beta2, eps = 0.01, 0.9, 0.999, 1e-7
	for _, nesterov := range []bool{false, true} {
		eachLength(t, 4, func(t *testing.T, s [][]float32) {
			for i := range s {
				for j := range s[i] {
					s[i][j] = float32(math.Mod(float64(ordinary(s[i])[j]), 10))
				}
			}
			for i, x := range s[2] {
				s[2][i] = float32(math.Abs(float64(x)))
			}
			v, m, vv, grad := clone(s[0]), clone(s[1]), clone(s[2]), s[3]
			ApplyAdam(s[0], s[1], s[2], s[3], rate, beta1, beta2, eps, nesterov)
			for i := range v {
				d := float64(grad[i])
				m1 := float64(m[i]) + (d-float64(m[i]))*(1-beta1)
				vv1 := float64(vv[i]) + (d*d-float64(vv[i]))*(1-beta2)
				step := m1
				if nesterov {
					step = d*(1-beta1) + beta1*m1
				}
				step *= rate / (math.Sqrt(vv1) + eps)
				size := math.Abs(float64(m[i])) + math.Abs(d)
				// 1-beta2 in float32 has a relative error of up to 6e-5, as in TensorFlow.
				if !near(s[1][i], m1, 2*size) || math.Abs(float64(s[2][i])-vv1) > 1e-4*math.Abs(d*d)+1e-6*vv1+1e-30 ||
					math.Abs(float64(s[0][i])-(float64(v[i])-step)) > 1e-4*(math.Abs(step)+size*rate/(math.Sqrt(vv1)+eps))+1e-6*math.Abs(float64(v[i])) {
					t.Fatalf("nesterov=%v v=%v m=%v vv=%v grad=%v: got %v %v %v, want %v %v %v", nesterov,
						v[i], m[i], vv[i], grad[i], s[0][i], s[1][i], s[2][i], float64(v[i])-step, m1, vv1)
				}
			}
		})
	}
}

func TestEachRow(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for name, f := range map[string]struct {
			each func(dst, src []float32)
			row  func(a []float32) float32
		}{"sum": {SumEach, Sum}, "max": {MaxOfEach, MaxOf}} {
			r := rand.New(rand.NewPCG(21, 22))
			mem := &arena{r: r}
			for round := range 400 {
				rows, width := 1+r.IntN(9), r.IntN(200)
				if round%50 == 0 {
					width = sumBlock - 1 + r.IntN(3)
				}
				src, dst := mem.floats(rows*width), mem.floats(rows)
				randomFloats(r, src)
				f.each(dst, src)
				for i, got := range dst {
					if want := f.row(src[i*width:][:width]); math.Float32bits(got) != math.Float32bits(want) && got == got {
						t.Fatalf("%s of row %d of %dx%d is %v, want %v", name, i, rows, width, got, want)
					}
				}
				mem.release()
			}
		}
	})
}
