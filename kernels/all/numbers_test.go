package all_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// Limits of a kernel for the numbers of one call: Go cannot recover from a stack overflow, and a kernel that computes cannot be stopped.
const (
	numbersStack = 1 << 20
	numbersTime  = 20 * time.Second
	numbersTook  = 300 // minimum number of ops that accept some of the numbers
)

// numberTypes are the types whose edge values every kernel must handle.
var numberTypes = []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Complex128, tensor.Complex64}

// TestNumbersEndNoKernel runs each op with a kernel for floating-point numbers on numbers at the edges of their range, on constants that
// the sources compare with, and on random ones. A kernel may fail, but must neither recurse to a depth given by the numbers nor compute
// endlessly.
func TestNumbersEndNoKernel(t *testing.T) {
	rounds, pairs := 16, 1500
	switch {
	case extent.RaceDetector:
		rounds, pairs = 1, 100
	case extent.Full():
		rounds, pairs = 400, 100_000
	case extent.Check():
		rounds, pairs = 40, 8000
	}
	defer debug.SetMaxStack(debug.SetMaxStack(numbersStack))
	points := append(edgeNumbers(), comparedNumbers(t)...)
	if len(points) < 300 {
		t.Fatalf("only %d numbers: the test does not see what the sources compare with", len(points))
	}
	ran, took := 0, map[string]bool{}
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil || quiet(name) || strings.HasPrefix(name, "_") {
			continue
		}
		for _, dtype := range numberTypes {
			n := numbers{anything: anything{t, rand.New(rand.NewPCG(11, uint64(len(name)))), def}, dtype: dtype, points: points}
			if !n.takes() {
				continue
			}
			ran++
			if n.elementwise(pairs) {
				took[name] = true
				continue
			}
			for range rounds {
				took[name] = n.one() || took[name]
			}
		}
	}
	for op := range took {
		if !took[op] {
			delete(took, op)
		}
	}
	if len(took) < numbersTook && !extent.RaceDetector {
		t.Errorf("only %d ops took any of the numbers", len(took))
	}
	if ran < 1000 {
		t.Errorf("only %d kernels were run", ran)
	}
}

// edgeNumbers returns numbers at the ends of the floating-point types' ranges.
func edgeNumbers() []float64 {
	list := []float64{0, math.Copysign(0, -1), math.NaN(), inf, -inf}
	for _, v := range []float64{5e-324, 1e-320, 0x1p-1022, 1e-308, 1e-300, 1e-160, 1e-45, 1e-38, 6e-8, 1e-5, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 10, 65504, 1e7, 0x1p24, 0x1p31, 0x1p53, 0x1p63,
		3e38, math.MaxFloat32, 1e154, 1e300, 1e308, math.MaxFloat64} {
		list = append(list, beside(v)...)
	}
	return list
}

// beside returns a number, its neighbours, and all of them with the opposite sign.
func beside(v float64) []float64 {
	list := []float64{v, math.Nextafter(v, inf), math.Nextafter(v, -inf), float64(math.Nextafter32(float32(v), inf32)), float64(math.Nextafter32(float32(v), -inf32))}
	for _, v := range list[:5:5] {
		list = append(list, -v)
	}
	return list
}

// comparedNumbers returns the constants that the kernels' sources compare numbers with, and their neighbours.
func comparedNumbers(t *testing.T) []float64 {
	t.Helper()
	found := map[float64]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			if !ok || b.Op != token.LSS && b.Op != token.LEQ && b.Op != token.GTR && b.Op != token.GEQ {
				return true
			}
			for _, side := range []ast.Expr{b.X, b.Y} {
				if l, ok := side.(*ast.BasicLit); ok {
					if v, err := strconv.ParseFloat(l.Value, 64); err == nil && (l.Kind == token.FLOAT || v <= 1000) {
						found[v] = true
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []float64
	for v := range found {
		list = append(list, beside(v)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// numbers runs an op on numbers of one type.
type numbers struct {
	anything
	dtype  tensor.DType
	points []float64
}

// takes reports whether the op has a kernel that takes numbers of the type.
func (n numbers) takes() bool {
	for _, arg := range n.def.InputArg {
		if arg.Type == n.dtype.Proto() {
			return true
		}
		for _, a := range n.def.Attr {
			if a.Name == arg.TypeAttr && a.Type == "type" && n.allows(a) {
				return true
			}
		}
	}
	return false
}

func (n numbers) allows(a *oppb.OpDef_AttrDef) bool {
	allowed := a.GetAllowedValues().GetList().GetType()
	return len(allowed) == 0 || slices.Contains(allowed, n.dtype.Proto())
}

// elementwise runs an op whose inputs all have one type, and which needs no other attributes, on pairs and triples of numbers: all
// combinations if there are few, and random ones. It reports whether the op accepted them.
func (n numbers) elementwise(most int) bool {
	if n.elements() == "" {
		return false
	}
	rows := most
	if len(n.def.InputArg) == 1 {
		rows = max(most, len(n.points))
	}
	values := make([][]float64, len(n.def.InputArg))
	for r := range rows {
		row := n.row(r, len(values))
		for i := range values {
			values[i] = append(values[i], row[i])
		}
	}
	var inputs []any
	for _, v := range values {
		inputs = append(inputs, numbersOf(n.dtype, tensor.Shape{int64(len(v))}, v))
	}
	return n.try(kt.Attrs{}, inputs)
}

// elements returns the attribute with the type of all inputs, if the op has one and needs no other attributes.
func (n numbers) elements() string {
	attr := ""
	for _, arg := range n.def.InputArg {
		if arg.NumberAttr != "" || arg.TypeListAttr != "" || arg.IsRef || arg.TypeAttr == "" || attr != "" && arg.TypeAttr != attr {
			return ""
		}
		attr = arg.TypeAttr
	}
	for _, a := range n.def.Attr {
		if a.Name != attr && a.DefaultValue == nil {
			return ""
		}
	}
	if len(n.def.InputArg) > 3 {
		return ""
	}
	return attr
}

// row returns one element for each input. Some are close to each other, or have a special sum or quotient, since these are the places where
// functions of several numbers switch algorithms.
func (n numbers) row(r, count int) []float64 {
	if count == 1 {
		v := n.points[r%len(n.points)]
		if r >= len(n.points) { // beside it
			v *= 1 + n.rng.NormFloat64()*math.Ldexp(1, -n.rng.IntN(53))
		}
		return []float64{v}
	}
	row := make([]float64, count)
	for i := range row {
		row[i] = n.points[n.rng.IntN(len(n.points))]
	}
	ulps := func(v float64) float64 { return v * (1 + float64(n.rng.IntN(9)-4)*0x1p-52) }
	wide := func() float64 { return math.Exp(n.rng.NormFloat64() * 6) }
	switch n.rng.IntN(5) {
	case 0:
		row[0], row[1] = wide(), wide()
	case 1:
		row[0] = wide()
		row[1] = ulps(row[0])
	case 2:
		row[0] = wide()
		row[1] = math.Abs(row[0] + math.Sqrt(row[0])*n.rng.NormFloat64()*2)
	}
	if count == 3 && n.rng.IntN(2) == 0 {
		a, b := wide(), wide()
		row[0], row[1], row[2] = a, b, []float64{ulps((a + 1) / (a + b + 2)), ulps(a / (a + b)), n.rng.Float64()}[n.rng.IntN(3)]
	}
	return row
}

// one runs the op once, with random attributes, and numbers where it takes them. It reports whether the op accepted its inputs.
func (n numbers) one() bool {
	attrs := n.attrs()
	for _, a := range n.def.Attr {
		for _, arg := range n.def.InputArg {
			if a.Type == "type" && n.allows(a) && arg.TypeAttr == a.Name {
				attrs[a.Name] = n.dtype
			}
		}
		if a.DefaultValue != nil && slices.Contains([]string{"bool", "float", "string", "list(int)", "shape"}, a.Type) && n.rng.IntN(2) == 0 {
			delete(attrs, a.Name)
		}
	}
	shape := []tensor.Shape{nil, {1}, {5}, {3, 3}, {2, 3, 3}, {1, 4, 4, 1}, {2, 5}}[n.rng.IntN(7)]
	inputs := n.inputs(attrs)
	names := n.names(len(inputs))
	for i, in := range inputs {
		x, ok := in.(*tensor.Tensor)
		if !ok {
			continue
		}
		if x.DType() == n.dtype {
			like := shape
			if n.rng.IntN(6) == 0 {
				like = x.Shape()
			}
			inputs[i] = numbersOf(n.dtype, slices.Clone(like), n.some(like.Elements()))
			x.Release()
		} else if v := n.whole(names[i], x.DType(), shape); v != nil && n.rng.IntN(6) > 0 {
			inputs[i] = v
			x.Release()
		}
	}
	return n.try(attrs, inputs)
}

// some returns numbers of which about a third are ordinary, either all or individually.
func (n numbers) some(count int) []float64 {
	values := make([]float64, count)
	kind := n.rng.IntN(3)
	for k := range values {
		if kind == 0 || n.rng.IntN(3) == 0 {
			values[k] = n.rng.NormFloat64() * 3
		} else {
			values[k] = n.points[n.rng.IntN(len(n.points))]
		}
		if kind == 1 {
			values[k] = math.Abs(values[k])
		}
	}
	return values
}

// names returns the names of the inputs' arguments.
func (n numbers) names(count int) []string {
	var names []string
	for _, arg := range n.def.InputArg {
		names = append(names, arg.Name)
	}
	for len(names) < count {
		names = append(names, "")
	}
	return names
}

// whole returns an input of integers that ops accept, by the name of the argument, or nil for other arguments. shape is the shape of the
// numbers.
func (n numbers) whole(name string, dtype tensor.DType, shape tensor.Shape) *tensor.Tensor {
	var v []int64
	scalar := false
	switch name {
	case "shape", "output_shape", "resource_shape":
		v = append([]int64{4}, shape...)
	case "seed":
		v = []int64{3, int64(n.rng.IntN(1000))}
	case "key":
		v = []int64{5}
	case "counter":
		v = []int64{1, int64(n.rng.IntN(1000))}
	case "alg", "algorithm", "num", "k", "n", "depth", "num_samples", "upper":
		v, scalar = []int64{1}, true
	case "axis", "dim", "reduction_indices", "dimension", "split_dim", "concat_dim", "lower":
		v, scalar = []int64{0}, true
	case "num_segments", "nbins", "num_bins":
		v, scalar = []int64{4}, true
	case "segment_ids", "indices", "labels", "ids":
		v = make([]int64, max(1, append(shape, 1)[0]))
		for i := range v {
			v[i] = int64(i / 2)
		}
	case "num_lower", "num_upper":
		v, scalar = []int64{1}, true
	case "size":
		v = []int64{3, 2}
	default:
		return nil
	}
	to := tensor.Shape{int64(len(v))}
	if scalar {
		to = nil
	}
	x, err := tensor.Zeros(tensor.Host, dtype, to)
	if err != nil {
		panic(err)
	}
	for i, e := range v {
		switch dtype {
		case tensor.Int32:
			tensor.Of[int32](x)[i] = int32(e)
		case tensor.Int64:
			tensor.Of[int64](x)[i] = e
		case tensor.Uint64:
			tensor.Of[uint64](x)[i] = uint64(e)
		default:
			x.Release()
			return nil
		}
	}
	return x
}

// numbersOf returns a tensor; complex numbers take their parts from two of the values.
func numbersOf(dtype tensor.DType, shape tensor.Shape, v []float64) *tensor.Tensor {
	x, err := tensor.Zeros(tensor.Host, dtype, shape)
	if err != nil {
		panic(err)
	}
	for i, v0 := range v {
		v1 := v[len(v)-1-i]
		switch dtype {
		case tensor.Float64:
			tensor.Of[float64](x)[i] = v0
		case tensor.Float32:
			tensor.Of[float32](x)[i] = float32(v0)
		case tensor.Float16:
			tensor.Of[element.Float16](x)[i] = element.ToFloat16(float32(v0))
		case tensor.BFloat16:
			tensor.Of[element.BFloat16](x)[i] = element.ToBFloat16(float32(v0))
		case tensor.Complex128:
			tensor.Of[complex128](x)[i] = complex(v0, v1)
		case tensor.Complex64:
			tensor.Of[complex64](x)[i] = complex(float32(v0), float32(v1))
		}
	}
	return x
}

// try runs the kernel once. A kernel that takes too long ends the test, with the stacks of all goroutines.
func (n numbers) try(attrs kt.Attrs, inputs []any) (took bool) {
	var shown []string
	for _, in := range inputs {
		if in, ok := in.(*tensor.Tensor); ok && in.Len() < 100 {
			shown = append(shown, describeInputs([]any{in}))
		}
	}
	what := fmt.Sprintf("%s of %v, attributes %v, inputs %s", n.def.Name, n.dtype, attrs, strings.Join(shown, ", "))
	defer func() {
		if r := recover(); r != nil {
			n.t.Errorf("%s panics: %v\n%s", what, r, debug.Stack())
		}
	}()
	watch := time.AfterFunc(numbersTime, func() { panic(what + " takes too long") })
	defer watch.Stop()
	return attempt(kt.NewDevice(n.t), kt.Op{Type: n.def.Name, Attrs: attrs, Step: kt.NewStep(), Functions: echo}, inputs) == nil
}

// TestNumbersEndNoGoldenKernel runs the golden cases, whose inputs the ops accept, with other numbers in the same positions.
func TestNumbersEndNoGoldenKernel(t *testing.T) {
	rounds, every := 1, 3
	switch {
	case extent.RaceDetector:
		every = 40
	case extent.Full():
		rounds, every = 12, 1
	case extent.Check():
		rounds, every = 2, 1
	}
	defer debug.SetMaxStack(debug.SetMaxStack(numbersStack))
	points := append(edgeNumbers(), comparedNumbers(t)...)
	for i, g := range goldens(t) {
		if i%every != 0 || g.code != status.OK {
			continue
		}
		n := numbers{anything: anything{t: t, rng: rand.New(rand.NewPCG(13, uint64(i)))}, points: points}
		for range rounds {
			other, changed := g, false
			other.inputs = slices.Clone(g.inputs)
			for i, in := range g.inputs {
				if slices.Contains(numberTypes, in.DType()) && (i == 0 || n.rng.IntN(2) == 0) {
					other.inputs[i], changed = n.mutated(in), true
				}
			}
			if !changed {
				continue
			}
			watch := time.AfterFunc(numbersTime, func() { panic(fmt.Sprint(other.node, contents(other.inputs), " takes too long")) })
			why := other.survive(t)
			watch.Stop()
			if why != "" {
				t.Errorf("%s\nnode: %v\ninputs: %s", why, g.node, contents(other.inputs))
			}
		}
	}
}

// mutated returns a tensor of the same shape with one, some or all numbers replaced.
func (n numbers) mutated(x *tensor.Tensor) *tensor.Tensor {
	out := numbersOf(x.DType(), x.Shape(), n.some(x.Len()))
	if x.Len() == 0 || n.rng.IntN(3) == 0 {
		return out
	}
	size, keep := x.DType().Size(), []int{x.Len() / 2, x.Len() - 1}[n.rng.IntN(2)]
	for _, i := range n.rng.Perm(x.Len())[:keep] {
		copy(out.Data()[i*size:(i+1)*size], x.Data()[i*size:])
	}
	return out
}
