package data

import (
	"fmt"
	"math"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// settings reads the attributes of a node. The first error stays, and what is read after it is zero.
type settings struct {
	*kernels.Construction
	err error
}

func (s *settings) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// read reads one attribute with a method of graph.Attrs.
func read[T any](s *settings, name string, get func(graph.Attrs, string) (T, error)) T {
	v, err := get(s.Attrs(), name)
	if err != nil {
		s.fail(err)
	}
	return v
}

func (s *settings) int(name string) int64  { return read(s, name, graph.Attrs.Int) }
func (s *settings) bool(name string) bool  { return read(s, name, graph.Attrs.Bool) }
func (s *settings) str(name string) string { return read(s, name, graph.Attrs.Str) }

func (s *settings) has(name string) bool {
	_, ok := s.Attrs()[name]
	return ok
}

func (s *settings) types(name string) []tensor.DType { return read(s, name, graph.Attrs.TypeList) }

// spec reads what is declared of the elements.
func (s *settings) spec() Spec {
	types := "output_types"
	if !s.has(types) {
		types = "Toutput_types"
	}
	spec := Spec{Types: s.types(types), Shapes: s.shapes("output_shapes")}
	if s.err == nil && len(spec.Types) != len(spec.Shapes) {
		s.fail(status.InvalidArgumentf("output_types and output_shapes must be same length, got %d and %d", len(spec.Types), len(spec.Shapes)))
	}
	return spec
}

func (s *settings) shapes(name string) []shapes.PartialShape {
	var list []shapes.PartialShape
	for _, p := range read(s, name, graph.Attrs.List).GetShape() {
		dims, known := tensor.ShapeFromProto(p)
		list = append(list, shapes.PartialShape{Dims: dims, Known: known})
	}
	return list
}

// function reads an attribute that names a function.
func (s *settings) function(name string) *functionAttr {
	return s.functionRef(read(s, name, graph.Attrs.Func))
}

// functionRef is the function of that name and those attributes.
func (s *settings) functionRef(ref *graph.FunctionRef) *functionAttr {
	if s.err != nil {
		return nil
	}
	if s.Functions == nil {
		s.fail(status.Internalf("No function library"))
		return nil
	}
	// A function that is not there is an error of the node that names it.
	if _, err := s.Functions.Instantiate(ref); err != nil {
		s.fail(err)
		return nil
	}
	return &functionAttr{ref: ref, library: s.Functions.Library()}
}

// maker makes a dataset of the inputs of one execution.
type maker func(in *inputs) kind

// inputs reads the inputs of one execution, and notes what a dataset keeps of them. The first error stays, and what is
// read after it is zero.
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
	in.fail(status.InvalidArgumentf(format, args...))
}

// dataset is the dataset at input i, which the new one holds on to.
func (in *inputs) dataset(i int) *Dataset {
	d, err := datasetIn(in.place, in.ctx.Input(i))
	if err != nil {
		in.fail(err)
		return &Dataset{kind: nothing{}}
	}
	in.inputs = append(in.inputs, d)
	return d
}

// datasets are those at n inputs from i on.
func (in *inputs) datasets(i, n int) []*Dataset {
	list := make([]*Dataset, n)
	for j := range list {
		list[j] = in.dataset(i + j)
	}
	return list
}

// tensor is the tensor at input i, which the new dataset holds on to.
func (in *inputs) tensor(i int) *tensor.Tensor {
	t := in.ctx.Input(i).Retain()
	in.tensors = append(in.tensors, t)
	return t
}

// rest are the tensors at the inputs from (inclusive) to to (exclusive), which the new dataset holds on to.
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

// names reads the first input, a string or several.
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

// positive refuses a number that is not greater than zero.
func (in *inputs) positive(v int64, what string) int64 {
	if v <= 0 {
		in.failf("%s must be greater than zero.", what)
	}
	return v
}

// output makes output 0 the dataset, unless something failed.
func (in *inputs) output(k kind) error {
	d := &Dataset{kind: k, Op: in.ctx.Node.Op, Spec: in.spec, inputs: in.inputs, tensors: in.tensors}
	d.refs.Store(1)
	d.node = in.ctx.Node
	for i := range in.ctx.Inputs {
		d.origin.inputs = append(d.origin.inputs, in.ctx.Input(i).Retain())
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
	t, err := in.ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		d.Release()
		return err
	}
	t.Variants()[0] = d
	return nil
}

// dataset makes the constructor of a dataset op whose attributes declare its elements.
func dataset(attrs func(s *settings) maker) func(*kernels.Construction) (any, error) {
	return datasetOf(func(s *settings) (Spec, maker) { return s.spec(), attrs(s) })
}

// datasetOf is dataset where the op's elements are what attrs says.
func datasetOf(attrs func(s *settings) (Spec, maker)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		s := &settings{Construction: c}
		spec, make := attrs(s)
		if s.err != nil {
			return nil, s.err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			in := &inputs{ctx: ctx, place: placeOf(ctx, c), spec: spec}
			return in.output(make(in))
		}), nil
	}
}

// strings is the elements of sources of strings.
func stringSpec() Spec {
	return Spec{Types: []tensor.DType{tensor.String}, Shapes: []shapes.PartialShape{{Known: true}}}
}

// times multiplies a cardinality with a count, which may be infinite, too.
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

func (nothing) cardinality() int64 { return 0 }

func (nothing) open(*Env) (Iterator, error) {
	return nil, fmt.Errorf("a dataset without a kind was opened")
}
