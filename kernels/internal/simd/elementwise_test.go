package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/internal/extent"
)

// special are the numbers a kernel is most likely to get wrong.
var special = func() []float32 {
	v := []float32{
		0, 1, 2, 0.5, 0.625, 0.62499994, 3, 5, 10, 17, 87, 88, 88.72283, 88.72284, 89, 90, 103.9, 103.97, 104, 104.1, 1000,
		math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-126, 0x1.fffffcp-127, 1e-40, 1e-10,
		float32(math.Inf(1)), 0.70710677, 0.7071068, 1.4142135, 0.99999994, 1.0000001,
	}
	for _, x := range v {
		v = append(v, -x)
	}
	return append(v, float32(math.NaN()))
}()

// randomFloats fills s: some special values, some of any bit pattern, most ordinary.
func randomFloats(r *rand.Rand, s []float32) []float32 {
	for i := range s {
		switch r.IntN(8) {
		case 0:
			s[i] = special[r.IntN(len(special))]
		case 1:
			s[i] = math.Float32frombits(r.Uint32())
		default:
			s[i] = float32(r.NormFloat64() * 10)
		}
	}
	return s
}

// same reports whether two floats have the same bits or are both NaN.
func same(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

// ulps returns the distance of got from want in units in the last place of want.
func ulps(got float32, want float64) float64 {
	rounded := float32(want)
	if same(got, rounded) {
		return 0
	}
	if got != got || want != want || math.IsInf(float64(got), 0) && !math.IsInf(float64(rounded), 0) {
		return math.Inf(1)
	}
	if math.IsInf(float64(rounded), 0) {
		// As far from the greatest number as infinity is.
		want = math.Copysign(0x1p128, want)
		rounded = math.Float32frombits(math.Float32bits(rounded) - 1)
	}
	size := math.Abs(float64(rounded))
	unit := float64(math.Nextafter32(float32(size), 0))
	return math.Abs(float64(got)-want) / math.Max(size-unit, math.SmallestNonzeroFloat32)
}

// maxLength covers an unrolled turn, single vectors and every tail.
const maxLength = 130

// eachLength calls f at all levels, for all lengths and a few alignments, with count random slices at guard pages.
func eachLength(t *testing.T, count int, f func(t *testing.T, s [][]float32)) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		mem := &arena{r: r}
		for n := range maxLength + 1 {
			for range 3 {
				s := make([][]float32, count)
				for i := range s {
					offset := r.IntN(4)
					s[i] = randomFloats(r, mem.floats(n + offset)[offset:])
				}
				f(t, s)
				mem.release()
			}
		}
	})
}

func clone(s []float32) []float32 { return append([]float32(nil), s...) }

func expectExact(t *testing.T, what string, got, want []float32, inputs ...[]float32) {
	t.Helper()
	for i := range want {
		if !same(got[i], want[i]) {
			at := ""
			for _, in := range inputs {
				at += fmt.Sprintf(" %v", in[i])
			}
			t.Fatalf("%s of%s = %v, want %v (element %d of %d)", what, at, got[i], want[i], i, len(want))
		}
	}
}

func TestBinary(t *testing.T) {
	for _, op := range []struct {
		name         string
		f, reference func(dst, a, b []float32)
	}{
		{"Add", Add, add}, {"Sub", Sub, sub}, {"Mul", Mul, mul}, {"Div", Div, div},
		{"Max", Max, maximum}, {"Min", Min, minimum}, {"ReluGrad", ReluGrad, reluGrad},
	} {
		t.Run(op.name, func(t *testing.T) {
			eachLength(t, 3, func(t *testing.T, s [][]float32) {
				a, b := clone(s[1]), clone(s[2])
				want := make([]float32, len(a))
				op.reference(want, a, b)
				op.f(s[0], s[1], s[2])
				expectExact(t, op.name, s[0], want, a, b)
				expectExact(t, op.name+" kept a", s[1], a)
				op.f(s[1], s[1], s[2])
				expectExact(t, op.name+" onto a", s[1], want, a, b)
				copy(s[1], a)
				op.f(s[2], s[1], s[2])
				expectExact(t, op.name+" onto b", s[2], want, a, b)
			})
		})
	}
}

func TestWithScalar(t *testing.T) {
	for _, op := range []struct {
		name         string
		f, reference func(dst, a []float32, s float32)
	}{
		{"AddScalar", AddScalar, addScalar}, {"SubScalar", SubScalar, subScalar}, {"RSubScalar", RSubScalar, rsubScalar},
		{"MulScalar", MulScalar, mulScalar}, {"DivScalar", DivScalar, divScalar}, {"RDivScalar", RDivScalar, rdivScalar},
	} {
		t.Run(op.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 8))
			eachLength(t, 2, func(t *testing.T, s [][]float32) {
				a, x := clone(s[1]), randomFloats(r, make([]float32, 1))[0]
				want := make([]float32, len(a))
				op.reference(want, a, x)
				op.f(s[0], s[1], x)
				expectExact(t, fmt.Sprint(op.name, " ", x), s[0], want, a)
				op.f(s[1], s[1], x)
				expectExact(t, fmt.Sprint(op.name, " onto a ", x), s[1], want, a)
			})
		})
	}
}

func TestExactUnary(t *testing.T) {
	for _, op := range []struct {
		name         string
		f, reference func(dst, a []float32)
	}{
		{"Neg", Neg, neg}, {"Abs", Abs, abs}, {"Square", Square, square}, {"Sqrt", Sqrt, sqrt},
		{"Rsqrt", Rsqrt, rsqrt}, {"Relu", Relu, relu},
	} {
		t.Run(op.name, func(t *testing.T) {
			eachLength(t, 2, func(t *testing.T, s [][]float32) {
				a := clone(s[1])
				want := make([]float32, len(a))
				op.reference(want, a)
				op.f(s[0], s[1])
				expectExact(t, op.name, s[0], want, a)
				op.f(s[1], s[1])
				expectExact(t, op.name+" onto a", s[1], want, a)
			})
		})
	}
}

var elementary = []struct {
	name  string
	f     func(dst, a []float32)
	exact func(x float64) float64
	ulps  float64
}{
	{"Exp", Exp, math.Exp, 2},
	{"Log", Log, math.Log, 2},
	{"Tanh", Tanh, math.Tanh, 2},
	{"Erf", Erf, math.Erf, 2},
	{"Sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 3},
}

func TestElementary(t *testing.T) {
	for _, op := range elementary {
		t.Run(op.name, func(t *testing.T) {
			eachLength(t, 2, func(t *testing.T, s [][]float32) {
				a := clone(s[1])
				op.f(s[0], s[1])
				op.f(s[1], s[1])
				expectExact(t, op.name+" onto a", s[1], s[0])
				for i, x := range a {
					if d := ulps(s[0][i], op.exact(float64(x))); d > op.ulps {
						t.Fatalf("%s(%v) = %v, want %v: %v ulp", op.name, x, s[0][i], op.exact(float64(x)), d)
					}
				}
			})
		})
	}
}

// TestExpSum compares with the exponentials and their sum.
func TestExpSum(t *testing.T) {
	eachLength(t, 2, func(t *testing.T, s [][]float32) {
		r := rand.New(rand.NewPCG(15, 16))
		for i := range s[1] {
			s[1][i] = float32(r.NormFloat64())
		}
		want, sum := make([]float32, len(s[1])), 0.0
		SubScalar(want, s[1], 1.5)
		Exp(want, want)
		for _, v := range want {
			sum += float64(v)
		}
		if got := ExpSum(s[0], s[1], 1.5); math.Abs(float64(got)-sum) > 1e-5*(1+sum) {
			t.Fatalf("sum of %d exponentials is %v, want %v", len(want), got, sum)
		}
		expectExact(t, "ExpSum", s[0], want, s[1])
	})
}

// TestElementaryOverTheRange steps through all of float32's bit patterns.
func TestElementaryOverTheRange(t *testing.T) {
	step := uint64(4099) // prime, so that mantissas vary
	if extent.RaceDetector {
		step = 65537
	}
	var x []float32
	for u := uint64(0); u < 1<<32; u += step {
		x = append(x, math.Float32frombits(uint32(u)))
	}
	y := make([]float32, len(x))
	for _, op := range elementary {
		t.Run(op.name, func(t *testing.T) {
			want := make([]float64, len(x))
			for i, v := range x {
				want[i] = op.exact(float64(v))
			}
			eachLevel(t, func(t *testing.T) {
				op.f(y, x)
				worst, at := 0.0, 0
				for i := range y {
					if d := ulps(y[i], want[i]); d > worst {
						worst, at = d, i
					}
				}
				t.Logf("at most %.2f ulp, at %v", worst, x[at])
				if worst > op.ulps {
					t.Errorf("%s(%v) = %v, want %v: %v ulp", op.name, x[at], y[at], want[at], worst)
				}
			})
		})
	}
}

// TestSpecialValues checks special values against TensorFlow's results on a CPU.
func TestSpecialValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	minusZero := float32(math.Copysign(0, -1))
	unary := func(f func(dst, a []float32), in, want []float32) func(t *testing.T) {
		return func(t *testing.T) {
			got := make([]float32, len(in))
			f(got, in)
			expectExact(t, t.Name(), got, want, in)
		}
	}
	binary := func(f func(dst, a, b []float32), a, b, want []float32) func(t *testing.T) {
		return func(t *testing.T) {
			got := make([]float32, len(a))
			f(got, a, b)
			expectExact(t, t.Name(), got, want, a, b)
		}
	}
	eachLevel(t, func(t *testing.T) {
		t.Run("Exp", unary(Exp, []float32{nan, inf, -inf, 89, -104, 0, minusZero}, []float32{nan, inf, 0, inf, 0, 1, 1}))
		t.Run("Log", unary(Log, []float32{nan, inf, -inf, -1, 0, minusZero, 1}, []float32{nan, inf, nan, nan, -inf, -inf, 0}))
		t.Run("Tanh", unary(Tanh, []float32{nan, inf, -inf, minusZero, 100}, []float32{nan, 1, -1, minusZero, 1}))
		t.Run("Erf", unary(Erf, []float32{nan, inf, -inf, minusZero, 100, -5}, []float32{nan, 1, -1, minusZero, 1, -1}))
		t.Run("Sigmoid", unary(Sigmoid, []float32{nan, inf, -inf, 0}, []float32{nan, 1, 0, 0.5}))
		t.Run("Rsqrt", unary(Rsqrt, []float32{nan, inf, -1, 0, minusZero, 4}, []float32{nan, 0, nan, inf, -inf, 0.5}))
		t.Run("Relu", unary(Relu, []float32{nan, inf, -inf, minusZero, -1, 2}, []float32{nan, inf, 0, 0, 0, 2}))
		t.Run("Max", binary(Max, []float32{nan, 1, minusZero, 0, -inf}, []float32{1, nan, 0, minusZero, 1}, []float32{nan, nan, 0, minusZero, 1}))
		t.Run("Min", binary(Min, []float32{nan, 1, minusZero, 0, -inf}, []float32{1, nan, 0, minusZero, 1}, []float32{nan, nan, 0, minusZero, -inf}))
		t.Run("ReluGrad", binary(ReluGrad, []float32{nan, 1, 5, inf, -1, 3}, []float32{1, nan, -1, -1, 0, 2}, []float32{nan, 0, 0, nan, minusZero, 3}))
	})
}

func TestLengthsMustAgree(t *testing.T) {
	short, long := make([]float32, 3), make([]float32, 4)
	for name, f := range map[string]func(){
		"Add":       func() { Add(short, short, long) },
		"AddScalar": func() { AddScalar(short, long, 1) },
		"Neg":       func() { Neg(long, short) },
		"Axpy":      func() { Axpy(long, 1, short) },
		"ApplyAdam": func() { ApplyAdam(long, long, long, short, 1, 1, 1, 1, false) },
		"Momentum":  func() { ApplyMomentum(long, long, short, 1, 1, false) },
		"RMSProp":   func() { ApplyRMSProp(long, long, long, short, 1, 1, 1, 1) },
		"Centered":  func() { ApplyCenteredRMSProp(long, short, long, long, long, 1, 1, 1, 1) },
		"Adagrad":   func() { ApplyAdagrad(long, short, long, 1, 1) },
		"Ftrl":      func() { ApplyFtrl(long, long, short, long, 1, 1, 1, 1, false) },
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

// TestLong crosses the block boundary: a long slice must yield the same as its parts.
func TestLong(t *testing.T) {
	const n, part = 2*block + 77, 1000
	r := rand.New(rand.NewPCG(9, 10))
	a, b := randomFloats(r, make([]float32, n)), randomFloats(r, make([]float32, n))
	c, d := randomFloats(r, make([]float32, n)), randomFloats(r, make([]float32, n))
	for name, f := range map[string]func(w, x, y, z []float32){
		"Add":       func(w, x, y, _ []float32) { Add(w, x, y) },
		"AddScalar": func(w, x, _, _ []float32) { AddScalar(w, x, 3) },
		"Neg":       func(w, x, _, _ []float32) { Neg(w, x) },
		"Axpy":      func(w, x, _, _ []float32) { Axpy(w, 0.1, x) },
		"ApplyAdam": func(w, x, y, z []float32) { ApplyAdam(w, x, y, z, 0.1, 0.9, 0.99, 1e-7, false) },
		"Nesterov":  func(w, x, y, z []float32) { ApplyAdam(w, x, y, z, 0.1, 0.9, 0.99, 1e-7, true) },
		"Momentum":  func(w, x, y, _ []float32) { ApplyMomentum(w, x, y, 0.1, 0.9, false) },
		"RMSProp":   func(w, x, y, z []float32) { ApplyRMSProp(w, x, y, z, 0.1, 0.9, 0.5, 1e-3) },
		"Centered":  func(w, x, y, z []float32) { ApplyCenteredRMSProp(w, x, y, z, z, 0.1, 0.9, 0.5, 1e-3) },
		"Adagrad":   func(w, x, y, _ []float32) { ApplyAdagrad(w, x, y, 0.1, 1e-3) },
		"Ftrl":      func(w, x, y, z []float32) { ApplyFtrl(w, x, y, z, 0.1, 0.9, 0.5, 0.1, false) },
	} {
		t.Run(name, func(t *testing.T) {
			eachLevel(t, func(t *testing.T) {
				whole := [][]float32{clone(a), clone(b), clone(c), clone(d)}
				f(whole[0], whole[1], whole[2], whole[3])
				parts := [][]float32{clone(a), clone(b), clone(c), clone(d)}
				for lo := 0; lo < n; lo += part {
					hi := min(lo+part, n)
					f(parts[0][lo:hi], parts[1][lo:hi], parts[2][lo:hi], parts[3][lo:hi])
				}
				for i := range whole {
					expectExact(t, name, whole[i], parts[i])
				}
			})
		})
	}
}

func BenchmarkElementwise(b *testing.B) {
	const n = 1_000_000
	r := rand.New(rand.NewPCG(1, 1))
	x, y, z, w := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
	}
	for _, op := range []struct {
		name string
		f    func()
	}{
		{"Add", func() { Add(z, x, y) }},
		{"Mul", func() { Mul(z, x, y) }},
		{"Max", func() { Max(z, x, y) }},
		{"Relu", func() { Relu(z, x) }},
		{"Exp", func() { Exp(z, x) }},
		{"Log", func() { Log(z, x) }},
		{"Tanh", func() { Tanh(z, x) }},
		{"Sigmoid", func() { Sigmoid(z, x) }},
		{"Sum", func() { Sum(x) }},
		{"MaxOf", func() { MaxOf(x) }},
		{"Axpy", func() { Axpy(z, 1e-3, x) }},
		{"Adam", func() { ApplyAdam(z, w, y, x, 1e-3, 0.9, 0.999, 1e-7, false) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			for b.Loop() {
				op.f()
			}
		})
	}
}
