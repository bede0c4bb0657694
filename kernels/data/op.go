package data

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// settings reads the attributes of a node.
type settings struct {
	*kernels.Construction
	graph.AttrReader
}

func settingsOf(c *kernels.Construction) *settings { return &settings{c, c.Attrs().Reader()} }

// spec reads the declaration of the elements.
func (s *settings) spec() Spec {
	types := "output_types"
	if !s.Has(types) {
		types = "Toutput_types"
	}
	spec := Spec{Types: s.TypeList(types), Shapes: s.shapes("output_shapes")}
	if s.Err() == nil && len(spec.Types) != len(spec.Shapes) {
		s.Failf("output_types and output_shapes must be same length, got %d and %d", len(spec.Types), len(spec.Shapes))
	}
	return spec
}

func (s *settings) shapes(name string) []shapes.PartialShape {
	var list []shapes.PartialShape
	for _, p := range s.List(name).GetShape() {
		dims, known := tensor.ShapeFromProto(p)
		list = append(list, shapes.PartialShape{Dims: dims, Known: known})
	}
	return list
}

// function reads an attribute that names a function.
func (s *settings) function(name string) *functionAttr {
	return s.functionRef(s.Func(name))
}

// functionRef returns the function for a reference.
func (s *settings) functionRef(ref *graph.FunctionRef) *functionAttr {
	if s.Err() != nil {
		return nil
	}
	if s.Functions == nil {
		s.Fail(status.Internalf("No function library"))
		return nil
	}
	// A missing function is an error of the node that names it.
	if _, err := s.Functions.Instantiate(ref); err != nil {
		s.Fail(err)
		return nil
	}
	return &functionAttr{ref: ref, library: s.Functions.Library()}
}

// datasets counts the datasets created in the process.
var datasets atomic.Int64

// maker creates a dataset from the inputs of one execution.
type maker func(in *inputs) kind

// inputs reads the inputs of one execution, and records what a dataset keeps of them. The first error is kept; values read after it are
// zero.
type inputs struct {
	ctx     *kernels.Context
	place   place
	err     error
	spec    Spec
	inputs  []*Dataset
	tensors []*tensor.Tensor
}

func (in *inputs) fail(err error) {
	if in.err == nil {
		in.err = err
	}
}

func (in *inputs) failf(format string, args ...any) {
	if in.err != nil {
		return // the first one counts, and there may be millions
	}
	in.fail(status.InvalidArgumentf(format, args...))
}

// dataset returns the dataset at input i, which the new one retains.
func (in *inputs) dataset(i int) *Dataset {
	d, err := datasetIn(in.place, in.ctx.Input(i))
	if err != nil {
		in.fail(err)
		return &Dataset{kind: nothing{}}
	}
	in.inputs = append(in.inputs, d)
	return d
}

// datasets returns the datasets at n inputs, starting at i.
func (in *inputs) datasets(i, n int) []*Dataset {
	list := make([]*Dataset, n)
	for j := range list {
		list[j] = in.dataset(i + j)
	}
	return list
}

// tensor returns the tensor at input i, which the new dataset retains.
func (in *inputs) tensor(i int) *tensor.Tensor {
	t := in.ctx.Input(i).Retain()
	in.tensors = append(in.tensors, t)
	return t
}

// rest returns the tensors at the inputs from (inclusive) to to (exclusive), which the new dataset retains.
func (in *inputs) rest(from, to int) Element {
	list := make(Element, 0, max(to-from, 0))
	for i := from; i < to; i++ {
		list = append(list, in.tensor(i))
	}
	return list
}

// scalar reads a scalar at input i; what is the argument's name.
func scalar[T any](in *inputs, i int, what string, dtype tensor.DType, get func(*tensor.Tensor) T) T {
	t := in.ctx.Input(i)
	if t.DType() == dtype && t.Rank() == 0 {
		return get(t)
	}
	in.failf("%s must be a scalar", what)
	var zero T
	return zero
}

func (in *inputs) int(i int, what string) int64 {
	return scalar(in, i, what, tensor.Int64, func(t *tensor.Tensor) int64 { return tensor.Of[int64](t)[0] })
}

func (in *inputs) bool(i int, what string) bool {
	return scalar(in, i, what, tensor.Bool, func(t *tensor.Tensor) bool { return tensor.Of[bool](t)[0] })
}

func (in *inputs) str(i int, what string) string {
	return scalar(in, i, what, tensor.String, func(t *tensor.Tensor) string { return t.Strings()[0] })
}

// names reads the first input: one string or several.
func (in *inputs) names(what string) []string {
	t := in.ctx.Input(0)
	if t.DType() != tensor.String || t.Rank() > 1 {
		in.failf("`%s` must be a scalar or a vector.", what)
		return nil
	}
	return append([]string(nil), t.Strings()...)
}

// ints reads a vector of int64.
func (in *inputs) ints(i int, what string) []int64 {
	t := in.ctx.Input(i)
	if t.DType() != tensor.Int64 || t.Rank() > 1 {
		in.failf("%s must be a vector", what)
		return nil
	}
	return append([]int64(nil), tensor.Of[int64](t)...)
}

// positive rejects a number that is not greater than zero.
func (in *inputs) positive(v int64, what string) int64 {
	if v <= 0 {
		in.failf("%s must be greater than zero.", what)
	}
	return v
}

// output sets output 0 to the dataset, unless something failed.
func (in *inputs) output(k kind) error {
	d := &Dataset{kind: k, Op: in.ctx.Node.Op, number: datasets.Add(1), Spec: in.spec, inputs: in.inputs, tensors: in.tensors}
	d.refs.Store(1)
	d.node = in.ctx.Node
	for i := range in.ctx.Inputs {
		d.origin.inputs = append(d.origin.inputs, in.ctx.Input(i).Retain())
		d.holds(in.ctx.Input(i))
	}
	if d.held > variant.MaxNesting {
		in.fail(variant.TooDeep())
	}
	for _, i := range d.inputs {
		if d.nested = max(d.nested, i.nested+1); d.nested > maxNesting {
			in.fail(status.Errorf(status.ResourceExhausted, "Datasets are made of one another more than %d deep", maxNesting))
		}
	}
	if in.err != nil {
		d.Release()
		return in.err
	}
	pool := in.ctx.Device.Pool()
	if err := pool.Reserve(datasetBytes); err != nil {
		d.Release()
		return err
	}
	d.pool = pool
	t, err := in.ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		d.Release()
		return err
	}
	t.Variants()[0] = d
	return nil
}

// dataset returns the constructor of a dataset op whose attributes declare its elements.
func dataset(attrs func(s *settings) maker) func(*kernels.Construction) (any, error) {
	return datasetOf(func(s *settings) (Spec, maker) { return s.spec(), attrs(s) })
}

// datasetOf is dataset for ops whose element spec is returned by attrs.
func datasetOf(attrs func(s *settings) (Spec, maker)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		s := settingsOf(c)
		spec, make := attrs(s)
		if s.Err() != nil {
			return nil, s.Err()
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			in := &inputs{ctx: ctx, place: placeOf(ctx, c), spec: spec}
			return in.output(make(in))
		}), nil
	}
}

// stringSpec returns the spec of sources of strings.
func stringSpec() Spec {
	return Spec{Types: []tensor.DType{tensor.String}, Shapes: []shapes.PartialShape{{Known: true}}}
}

// times multiplies a cardinality by a count, which may be infinite too.
func times(n, count int64) int64 {
	switch {
	case n == 0 || count == 0:
		return 0
	case n < 0:
		return n
	case count < 0:
		return infinite
	}
	if p, ok := shapes.MulSize(n, count); ok {
		return p
	}
	return math.MaxInt64
}

// nothing is the kind of a dataset that could not be read.
type nothing struct{}

func (nothing) cardinality(*query) int64 { return 0 }

func (nothing) open(*Env) (Iterator, error) {
	return nil, fmt.Errorf("a dataset without a kind was opened")
}
