// Package gradients checks the gradients of package grad: each agrees with central differences, and those of
// whole models agree with TensorFlow's.
package gradients

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"go.uber.org/goleak"
)

// input is an argument of a case: values for which gradients are computed, or constants.
type input struct {
	dtype    tensor.DType
	shape    tensor.Shape
	lo, hi   float64
	values   []float64 // given, instead of random ones
	constant bool
	distinct bool // no two are close to each other
}

// in returns a float64 argument of that shape with values between −1 and 1, none close to 0.
func in(sizes ...int64) input {
	return input{dtype: tensor.Float64, shape: sizes, lo: -1, hi: 1}
}

func (i input) between(lo, hi float64) input { i.lo, i.hi = lo, hi; return i }
func (i input) of(t tensor.DType) input      { i.dtype = t; return i }
func (i input) fixed() input                 { i.constant = true; return i }
func (i input) free() input                  { i.constant = false; return i }
func (i input) apart() input                 { i.distinct = true; return i }
func (i input) with(v ...float64) input      { i.values = v; return i }

func number(v float64) input { return in().with(v) }

// ints returns a constant vector of int32, longs one of int64, scalar a constant int32.
func ints(v ...float64) input  { return in(int64(len(v))).of(tensor.Int32).with(v...).fixed() }
func longs(v ...float64) input { return in(int64(len(v))).of(tensor.Int64).with(v...).fixed() }
func scalar(v float64) input   { return in().of(tensor.Int32).with(v).fixed() }

// sample draws the values: real and imaginary parts in turn for complex types.
func (i input) sample(r *rand.Rand) []float64 {
	if i.values != nil {
		return slices.Clone(i.values)
	}
	n := i.shape.Elements()
	if i.dtype.IsComplex() {
		n *= 2
	}
	out := make([]float64, n)
	for k := range out {
		for {
			out[k] = i.lo + (i.hi-i.lo)*r.Float64()
			if math.Abs(out[k]) > 0.03 {
				break
			}
		}
	}
	if i.distinct {
		for k, place := range r.Perm(n) {
			out[k] = i.lo + (i.hi-i.lo)*(float64(place)+0.5)/float64(n)
		}
	}
	return out
}

// tensorOf makes a tensor of float64 values.
func tensorOf(t testing.TB, dtype tensor.DType, s tensor.Shape, v []float64) *tensor.Tensor {
	t.Helper()
	var out *tensor.Tensor
	var err error
	switch dtype {
	case tensor.Float64:
		out, err = tensor.FromSlice(dtype, s, v)
	case tensor.Float32:
		out, err = tensor.FromSlice(dtype, s, each(v, func(e float64) float32 { return float32(e) }))
	case tensor.Int32:
		out, err = tensor.FromSlice(dtype, s, each(v, func(e float64) int32 { return int32(e) }))
	case tensor.Int64:
		out, err = tensor.FromSlice(dtype, s, each(v, func(e float64) int64 { return int64(e) }))
	case tensor.Bool:
		out, err = tensor.FromSlice(dtype, s, each(v, func(e float64) bool { return e != 0 }))
	case tensor.Complex128:
		z := make([]complex128, len(v)/2)
		for i := range z {
			z[i] = complex(v[2*i], v[2*i+1])
		}
		out, err = tensor.FromSlice(dtype, s, z)
	default:
		t.Fatalf("no values of %v", dtype)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func valuesOf(t testing.TB, v *tensor.Tensor) []float64 {
	t.Helper()
	switch v.DType() {
	case tensor.Float64:
		return slices.Clone(tensor.Of[float64](v))
	case tensor.Float32:
		return each(tensor.Of[float32](v), func(e float32) float64 { return float64(e) })
	case tensor.Complex128:
		var out []float64
		for _, z := range tensor.Of[complex128](v) {
			out = append(out, real(z), imag(z))
		}
		return out
	}
	t.Fatalf("a gradient of type %v", v.DType())
	return nil
}

func each[S, T any](in []S, f func(S) T) []T {
	out := make([]T, len(in))
	for i, e := range in {
		out[i] = f(e)
	}
	return out
}

// gradCase is a function whose gradient is compared with differences.
type gradCase struct {
	name string
	in   []input
	f    func(s *op.Scope, x []op.Output) []op.Output
	// known gives the placeholders shapes even when the case is tried without, for gradients that need them.
	known bool
	// handles is set by f to variables that hold the inputs; gradients are computed for them instead.
	handles *[]op.Output
	// sparse reports whether the gradients are rows.
	sparse bool
	// tolerance is relative to the larger of 1 and the value; 0 means the default for float64.
	tolerance float64
}

var server = sync.OnceValues(func() (*troupe.Server, error) {
	return troupe.NewLocalServer(context.Background(), troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
})

// TestMain fails when a goroutine outlives the tests and their server.
func TestMain(m *testing.M) {
	code := m.Run()
	s, err := server()
	if err == nil {
		err = s.Stop(context.Background())
	}
	if err == nil && code == 0 {
		err = goleak.Find(goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// session opens a session over the graph of s.
func session(t testing.TB, s *op.Scope) *troupe.Session {
	t.Helper()
	srv, err := server()
	if err != nil {
		t.Fatal(err)
	}
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	sess, err := srv.NewSession(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sess.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sess
}

// run fetches tensors as numbers.
func run(t testing.TB, sess *troupe.Session, feeds map[string]*tensor.Tensor, fetches ...op.Output) (out [][]float64, shapes []tensor.Shape) {
	t.Helper()
	got, err := sess.Run(t.Context(), feeds, each(fetches, op.Output.Name), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		out = append(out, valuesOf(t, v))
		shapes = append(shapes, v.Shape().Clone())
		v.Release()
	}
	return out, shapes
}

// check compares the gradients of a case with central differences. known reports whether shapes are known when the graph is built.
func (c *gradCase) check(t *testing.T, known bool) {
	r := rand.New(rand.NewPCG(1, uint64(len(c.name))))
	s := op.NewScope()
	var x, wanted []op.Output
	var at []int
	feeds := map[string]*tensor.Tensor{}
	samples := make([][]float64, len(c.in))
	for i, a := range c.in {
		samples[i] = a.sample(r)
		v := tensorOf(t, a.dtype, a.shape, samples[i])
		defer v.Release()
		if a.constant {
			x = append(x, s.Add(op.Spec{Op: "Const", Attrs: map[string]any{"dtype": a.dtype, "value": v}}).Output(0))
			continue
		}
		attrs := map[string]any{"dtype": a.dtype}
		if known || c.known {
			attrs["shape"] = shape.Of(a.shape...)
		}
		x = append(x, s.Add(op.Spec{Op: "Placeholder", Attrs: attrs}).Output(0))
		feeds[x[i].Name()] = v
		wanted = append(wanted, x[i])
		at = append(at, i)
	}
	ys := c.f(s, x)
	if c.handles != nil {
		wanted = *c.handles
	}
	cover(s)
	var dys []op.Output
	for _, y := range ys {
		dys = append(dys, s.Add(op.Spec{Op: "Placeholder", Attrs: map[string]any{"dtype": y.DType()}}).Output(0))
	}
	gradients := grad.Gradients(s, ys, wanted, grad.From(dys...))
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	var fetches []op.Output
	for i, d := range gradients {
		if !d.Connected() { // the differences must be 0
			d.Values = node(s, "ZerosLike", nil, x[at[i]]).Output(0)
		}
		if c.sparse != d.Sparse() {
			t.Errorf("the gradient of input %d is sparse: %v", at[i], d.Sparse())
		}
		fetches = append(fetches, node(s, "Identity", nil, d.Dense(s)).Output(0)) // a fed tensor cannot be fetched
	}
	sess := session(t, s)
	values, shapes := run(t, sess, feeds, ys...)
	weights := make([][]float64, len(ys))
	for i, v := range values {
		weights[i] = make([]float64, len(v))
		for k := range weights[i] {
			weights[i][k] = 2*r.Float64() - 1
		}
		w := tensorOf(t, ys[i].DType(), shapes[i], weights[i])
		defer w.Release()
		feeds[dys[i].Name()] = w
	}
	got, gotShapes := run(t, sess, feeds, fetches...)
	loss := func() (sum float64) {
		values, _ := run(t, sess, feeds, ys...)
		for i, v := range values {
			for k, e := range v {
				sum += e * weights[i][k]
			}
		}
		return sum
	}
	for i, k := range at {
		a := c.in[k]
		if !gotShapes[i].Equal(a.shape) {
			t.Errorf("the gradient of input %d has the shape %v, not %v", k, gotShapes[i], a.shape)
			continue
		}
		step, tolerance := 1e-6, 2e-7
		if a.dtype == tensor.Float32 {
			step, tolerance = 1e-2, 3e-3
		}
		if c.tolerance != 0 {
			tolerance = c.tolerance
		}
		original := feeds[x[k].Name()]
		for e := range samples[k] {
			moved := func(by float64) float64 {
				v := slices.Clone(samples[k])
				v[e] += by
				feeds[x[k].Name()] = tensorOf(t, a.dtype, a.shape, v)
				defer feeds[x[k].Name()].Release()
				return loss()
			}
			want := (moved(step) - moved(-step)) / (2 * step)
			if math.Abs(got[i][e]-want) > tolerance*max(1, math.Abs(want)) || math.IsNaN(got[i][e]) {
				t.Errorf("input %d, element %d: the gradient is %v, the difference %v", k, e, got[i][e], want)
			}
		}
		feeds[x[k].Name()] = original
	}
}

// covered are the ops of all cases.
var covered sync.Map

func cover(s *op.Scope) {
	for _, o := range s.Operations() {
		covered.Store(o.Type(), true)
	}
}

// TestCentralDifferences compares each op's gradient with differences, and checks that no gradient is left out.
func TestCentralDifferences(t *testing.T) {
	if !extent.Check() {
		t.Skip("it runs some ten thousand steps")
	}
	t.Run("cases", func(t *testing.T) {
		names := map[string]int{}
		for _, c := range slices.Concat(mathCases, arrayCases, nnCases, linalgCases, csrCases, listCases, stateCases, flowCases) {
			name := c.name
			if names[c.name]++; names[c.name] > 1 {
				name = fmt.Sprintf("%s#%d", c.name, names[c.name])
			}
			for _, known := range []bool{false, true} {
				t.Run(name+map[bool]string{false: "/unknown", true: "/known"}[known], func(t *testing.T) { c.check(t, known) })
			}
		}
	})
	t.Run("gamma", gammaSamples)
	t.Run("truncated normal", truncatedSamples)
	t.Run("rounded", roundedGradients)
	t.Run("none", withoutGradients)
	var missing []string
	for _, name := range grad.Ops() {
		if _, ok := covered.Load(name); !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 && !t.Failed() {
		t.Errorf("no case for %s", strings.Join(missing, " "))
	}
}

// attrs are an operation's attributes.
type attrs = map[string]any

// call makes a case of an op whose arguments are single tensors. All differentiable outputs are used.
func call(name string, a attrs, in ...input) gradCase {
	return gradCase{name: name, in: in, f: func(s *op.Scope, x []op.Output) []op.Output {
		inputs := each(x, func(o op.Output) op.Input { return o })
		return floats(s.Add(op.Spec{Op: name, Inputs: inputs, Attrs: a}))
	}}
}

// calls makes cases of ops of one argument.
func calls(a input, names ...string) (out []gradCase) {
	for _, name := range names {
		out = append(out, call(name, nil, a))
	}
	return out
}

// pairs makes cases of ops of two arguments, with shapes that broadcast in different ways.
func pairs(x, y input, names ...string) (out []gradCase) {
	for _, name := range names {
		for _, sizes := range [][2]tensor.Shape{{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{}, {2, 2}}, {{2, 1, 3}, {4, 1}}} {
			a, b := x, y
			a.shape, b.shape = sizes[0], sizes[1]
			out = append(out, call(name, nil, a, b))
		}
	}
	return out
}

// floats returns the differentiable outputs of an operation.
func floats(o *op.Operation) (out []op.Output) {
	for i := range o.NumOutputs() {
		if t := o.Output(i).DType(); t == tensor.Float64 || t == tensor.Float32 || t == tensor.Complex128 {
			out = append(out, o.Output(i))
		}
	}
	return out
}

// node adds an operation.
func node(s *op.Scope, name string, a attrs, in ...op.Input) *op.Operation {
	return s.Add(op.Spec{Op: name, Inputs: in, Attrs: a})
}

// tolerant sets the tolerance of a case that computes less exactly.
func tolerant(c gradCase, tolerance float64) gradCase { c.tolerance = tolerance; return c }

// shaped marks a case whose gradient needs known shapes.
func shaped(c gradCase) gradCase { c.known = true; return c }
