package all_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// What one kernel may take for values that are small, but are nested, or contain numbers at the ends of their range.
const (
	edgeMemory = 64 << 20 // of its step
	edgeHeap   = 1 << 30  // that it allocates, one after the other
	edgeTime   = 200 * time.Millisecond
)

// tryAtEdge runs an op in a step with little memory and little time. It fails the test if the op panics, goes on long after the step's end, or
// allocates memory that nobody counts.
func (a anything) tryAtEdge(what string, attrs kt.Attrs, inputs []any) error {
	what = fmt.Sprintf("%s of %s, attributes %v", a.def.Name, what, attrs)
	defer func() {
		if r := recover(); r != nil {
			a.t.Errorf("%s panics: %v\n%s", what, r, debug.Stack())
		}
	}()
	watch := time.AfterFunc(numbersTime, func() { panic(what + " takes too long") })
	defer watch.Stop()
	d, step := kt.NewDevice(a.t), kt.NewStep()
	d.Limit(tensor.NewQuota(edgeMemory, "step", "a test"))
	end := time.AfterFunc(edgeTime, func() { step.Cancellation.Cancel(status.New(status.DeadlineExceeded, "enough")) })
	defer end.Stop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := attempt(d, kt.Op{Type: a.def.Name, Attrs: attrs, Step: step, Functions: echo}, inputs)
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > edgeHeap {
		a.t.Errorf("%s allocates %d MiB, in a step that may have %d MiB: %v", what, (after.TotalAlloc-before.TotalAlloc)>>20, edgeMemory>>20, err)
	}
	return err
}

// holders make a variant that holds two tensors, which they take over.
var holders = map[string]func(a, b *tensor.Tensor) any{
	"list": func(a, b *tensor.Tensor) any {
		l, err := variant.NewTensorList(a.DType(), shapes.PartialShape{}, 0)
		for _, x := range []*tensor.Tensor{a, b} {
			if err == nil {
				err = l.Admit(x)
			}
			if err == nil {
				err = l.Append(x)
			}
		}
		if err != nil {
			panic(err)
		}
		return l
	},
	"optional": func(a, b *tensor.Tensor) any { return variant.NewOptional(true, []*tensor.Tensor{a, b}) },
	"map": func(a, b *tensor.Tensor) any {
		m := variant.NewTensorMap()
		m.Depth = variant.Nesting(a)
		for i, x := range []*tensor.Tensor{a, b} {
			key := kt.I64(nil, int64(i))
			name, err := variant.MapKey(key)
			if err != nil {
				panic(err)
			}
			m.Put(name, key, x)
		}
		return m
	},
	"composite": func(a, b *tensor.Tensor) any {
		c := &variant.Composite{Components: []*tensor.Tensor{a, b}, Depth: variant.Nesting(a)}
		c.Refs.Store(1)
		return c
	},
	"boxed tensor": func(a, b *tensor.Tensor) any { return variant.NewBoxed(pair(a, b)) },
	"ragged tensor": func(a, b *tensor.Tensor) any {
		return variant.NewRagged([]*tensor.Tensor{kt.I64(kt.S(3), 0, 1, 2)}, pair(a, b))
	},
}

// pair is a vector of two variants, or the first tensor if it has none.
func pair(a, b *tensor.Tensor) *tensor.Tensor {
	if a.DType() != tensor.Variant {
		b.Release()
		return a
	}
	p, err := tensor.Zeros(tensor.Host, tensor.Variant, kt.S(2))
	if err != nil {
		panic(err)
	}
	copy(p.Variants(), []any{a.Variants()[0], b.Variants()[0]})
	tensor.RetainVariants(p.Variants())
	a.Release()
	b.Release()
	return p
}

// nested returns a scalar of variants that are nested to a depth. Each holds the next one twice, so that there are more ways to the innermost ones
// than any memory has room for.
func nested(holder string, depth int) *tensor.Tensor {
	x := kt.F32(nil, 1)
	if holder == "ragged tensor" {
		x = kt.F32(kt.S(2), 1, 2)
	}
	for range depth {
		next, err := tensor.Zeros(tensor.Host, tensor.Variant, nil)
		if err != nil {
			panic(err)
		}
		next.Variants()[0] = holders[holder](x, x.Retain())
		x = next
	}
	return x
}

// TestNestedVariantsEndNoKernel runs each op that takes variants on nested ones.
func TestNestedVariantsEndNoKernel(t *testing.T) {
	rounds, some := 1, 2
	switch {
	case extent.Full():
		rounds, some = 8, 100
	case extent.Check():
		rounds, some = 3, 100
	}
	defer debug.SetMaxStack(debug.SetMaxStack(numbersStack))
	type value struct {
		holder string
		depth  int
	}
	var values []value
	for holder := range holders {
		for _, depth := range []int{45, variant.MaxNesting - 1} {
			values = append(values, value{holder, depth})
		}
	}
	slices.SortFunc(values, func(a, b value) int { return cmp.Or(cmp.Compare(a.holder, b.holder), a.depth-b.depth) })
	eachOfVariants(t, 23, "nested ones", func(a anything) (took bool) {
		for _, at := range a.rng.Perm(len(values))[:min(some, len(values))] {
			v := values[at]
			for range rounds {
				x := nested(v.holder, v.depth)
				took = a.ofVariants(fmt.Sprintf("a %s nested %d deep", v.holder, v.depth), x) == nil || took
				x.Release()
			}
		}
		return took
	})
}

// eachOfVariants calls f for each op that takes variants, with a generator of the seed. f reports whether the op took what it was run on, of which many
// must be able to.
func eachOfVariants(t *testing.T, seed uint64, what string, f func(a anything) (took bool)) {
	t.Helper()
	ran, took := 0, 0
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil || quiet(name) {
			continue
		}
		a := anything{t, rand.New(rand.NewPCG(seed, uint64(len(name)))), def}
		if !a.takesVariants() {
			continue
		}
		ran++
		if f(a) {
			took++
		}
	}
	if ran < 150 || took < 40 {
		t.Errorf("only %d ops take variants, and %d took %s", ran, took, what)
	}
}

// TestDatasetsOfThemselvesEndNoKernel runs each op that takes variants on a dataset that is concatenated with itself again and again. No op may walk to the
// innermost dataset along each of its 2^45 paths, which no step's end would stop.
func TestDatasetsOfThemselvesEndNoKernel(t *testing.T) {
	rounds := 2
	if extent.Check() && !extent.RaceDetector {
		rounds = 10
	}
	d := kt.NewDevice(t)
	types := kt.Attrs{"output_types": []tensor.DType{tensor.Int64}, "output_shapes": []tensor.Shape{{}}}
	x := d.Run(t, kt.Op{Type: "RangeDataset", Attrs: types}, kt.I64(nil, 0), kt.I64(nil, 2), kt.I64(nil, 1))[0].Tensor
	for range 45 {
		x = d.Run(t, kt.Op{Type: "ConcatenateDataset", Attrs: types}, x, x.Retain())[0].Tensor
	}
	defer x.Release()
	eachOfVariants(t, 37, "a dataset of itself", func(a anything) (took bool) {
		for range rounds {
			took = a.ofVariants("a dataset of itself", x) == nil || took
		}
		return took
	})
}

// takesVariants reports whether a kernel of the op may take variants.
func (a anything) takesVariants() bool {
	for _, arg := range a.def.InputArg {
		if tensor.FromProto(arg.Type) == tensor.Variant {
			return true
		}
	}
	return slices.ContainsFunc(a.def.Attr, a.allowsVariants)
}

// allowsVariants reports whether an attribute is a type of inputs, and may be that of variants.
func (a anything) allowsVariants(d *oppb.OpDef_AttrDef) bool {
	if !slices.ContainsFunc(a.def.InputArg, func(arg *oppb.OpDef_ArgDef) bool { return arg.TypeAttr == d.Name || arg.TypeListAttr == d.Name }) {
		return false
	}
	for _, row := range kernels.Rows(a.def.Name, "CPU") {
		if types, ok := row.Types[d.Name]; !ok || slices.Contains(types, tensor.Variant) {
			allowed := d.GetAllowedValues().GetList().GetType()
			return len(allowed) == 0 || slices.Contains(allowed, tensor.Variant.Proto())
		}
	}
	return false
}

// ofVariants runs the op with x as each of its variants.
func (a anything) ofVariants(what string, x *tensor.Tensor) error {
	attrs := a.attrs()
	for _, d := range a.def.Attr {
		switch {
		case d.Name == "element_dtype" || d.Type == "type" && a.allowsVariants(d):
			attrs[d.Name] = tensor.Variant
		case d.Type == "list(type)" && a.allowsVariants(d):
			attrs[d.Name] = []tensor.DType{tensor.Variant}
		}
	}
	inputs := a.inputs(attrs)
	for i, in := range inputs {
		switch in := in.(type) {
		case *tensor.Tensor:
			switch {
			case in.DType() == tensor.Variant:
				inputs[i] = x.Retain()
			case in.DType() == tensor.Int32 && a.rng.IntN(2) == 0:
				inputs[i] = kt.I32(nil, int32(a.rng.IntN(2)))
			case in.DType() == tensor.Int32 && a.rng.IntN(2) == 0:
				inputs[i] = kt.I32(kt.S(0))
			default:
				continue
			}
			in.Release()
		case interface{ Close() }: // Assign may leave the value in it
			defer in.Close()
		}
	}
	return a.tryAtEdge(what, attrs, inputs)
}

// edgeIntegers are numbers at the ends of ranges.
var edgeIntegers = []int64{0, -1, 1, 2, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64, math.MaxInt32 + 1, 1 << 20, 1 << 40, math.MaxInt64 / 8}

// TestIntegersEndNoKernel runs each op with integers at the ends of their range as attributes and as inputs.
func TestIntegersEndNoKernel(t *testing.T) {
	rounds := 8
	switch {
	case extent.RaceDetector:
		rounds = 2
	case extent.Full():
		rounds = 400
	case extent.Check():
		rounds = 60
	}
	defer debug.SetMaxStack(debug.SetMaxStack(numbersStack))
	ran := 0
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil || quiet(name) {
			continue
		}
		a := anything{t, rand.New(rand.NewPCG(29, uint64(len(name)))), def}
		for range rounds {
			if !a.ofIntegers() {
				break
			}
			ran++
		}
	}
	if ran < 500*rounds {
		t.Errorf("only %d runs had integers", ran)
	}
}

// ofIntegers runs the op with some of its integers at the ends of their range. It reports whether the op has any.
func (a anything) ofIntegers() (has bool) {
	attrs := a.attrs()
	edge := func() int64 { return edgeIntegers[a.rng.IntN(len(edgeIntegers))] }
	for _, d := range a.def.Attr {
		switch d.Type {
		case "int":
			has = true
			if a.rng.IntN(2) == 0 {
				v := edge()
				if d.HasMinimum { // a graph with less is refused
					v = max(v, d.Minimum)
				}
				if !a.counts(d.Name) { // they would have to be there
					attrs[d.Name] = v
				}
			}
		case "list(int)":
			has = true
			if list, ok := attrs[d.Name].([]int64); ok {
				for i := range list {
					if a.rng.IntN(3) == 0 {
						list[i] = edge()
					}
				}
			}
		}
	}
	inputs := a.inputs(attrs)
	what := ""
	for _, in := range inputs {
		x, ok := in.(*tensor.Tensor)
		if !ok || !x.DType().IsInteger() {
			continue
		}
		has = true
		for i := range x.Len() {
			if a.rng.IntN(3) == 0 {
				setInteger(x, i, edge())
			}
		}
		what += describeInputs([]any{x})
	}
	if !has {
		for _, v := range kt.Values(inputs...) {
			v.Release()
		}
		return false
	}
	_ = a.tryAtEdge("integers "+what, attrs, inputs) // an op may refuse them
	return true
}

// counts reports whether an attribute is a number of inputs or outputs.
func (a anything) counts(attr string) bool {
	return slices.ContainsFunc(slices.Concat(a.def.InputArg, a.def.OutputArg), func(arg *oppb.OpDef_ArgDef) bool { return arg.NumberAttr == attr })
}

// setInteger sets an element to the nearest number of the type.
func setInteger(x *tensor.Tensor, i int, v int64) {
	switch x.DType().Size() {
	case 1:
		x.Data()[i] = byte(v)
	case 2:
		tensor.Of[uint16](x)[i] = uint16(v)
	case 4:
		if x.DType() == tensor.Int32 {
			v = min(max(v, math.MinInt32), math.MaxInt32)
		}
		tensor.Of[uint32](x)[i] = uint32(v)
	case 8:
		tensor.Of[uint64](x)[i] = uint64(v)
	}
}
