package dataset

import (
	"fmt"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// Settings reads the attributes of a node.
type Settings struct {
	*kernels.Construction
	graph.AttrReader
}

// SettingsOf returns the settings of a node.
func SettingsOf(c *kernels.Construction) *Settings { return &Settings{c, c.Attrs().Reader()} }

// Spec reads the declaration of the elements.
func (s *Settings) Spec() Spec {
	types := "output_types"
	if !s.Has(types) {
		types = "Toutput_types"
	}
	spec := Spec{Types: s.TypeList(types), Shapes: s.Shapes("output_shapes")}
	if s.Err() == nil && len(spec.Types) != len(spec.Shapes) {
		s.Failf("output_types and output_shapes must be same length, got %d and %d", len(spec.Types), len(spec.Shapes))
	}
	return spec
}

// Shapes reads a list of shapes.
func (s *Settings) Shapes(name string) []shapes.PartialShape {
	var list []shapes.PartialShape
	for _, p := range s.List(name).GetShape() {
		dims, known := tensor.ShapeFromProto(p)
		list = append(list, shapes.PartialShape{Dims: dims, Known: known})
	}
	return list
}

// Function reads an attribute that names a function.
func (s *Settings) Function(name string) *FunctionAttr {
	return s.FunctionRef(s.Func(name))
}

// FunctionRef returns the function for a reference.
func (s *Settings) FunctionRef(ref *graph.FunctionRef) *FunctionAttr {
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
	return &FunctionAttr{Ref: ref, Library: s.Functions.Library()}
}

// created counts the datasets created in the process.
var created atomic.Int64

// Maker creates a dataset from the inputs of one execution.
type Maker func(in *Inputs) Kind

// Inputs reads the inputs of one execution, and records what a dataset keeps of them. The first error is kept; values read after it are
// zero.
type Inputs struct {
	Context *kernels.Context
	Place   Place
	Err     error
	Spec    Spec
	inputs  []*Dataset
	tensors []*tensor.Tensor
}

// Fail records an error.
func (in *Inputs) Fail(err error) {
	if in.Err == nil {
		in.Err = err
	}
}

// Failf records an INVALID_ARGUMENT error.
func (in *Inputs) Failf(format string, args ...any) {
	if in.Err != nil {
		return // the first one counts, and there may be millions
	}
	in.Fail(status.InvalidArgumentf(format, args...))
}

// Dataset returns the dataset at input i, which the new one retains.
func (in *Inputs) Dataset(i int) *Dataset {
	d, err := FromTensor(in.Place, in.Context.Input(i))
	if err != nil {
		in.Fail(err)
		return &Dataset{Kind: nothing{}}
	}
	in.inputs = append(in.inputs, d)
	return d
}

// Datasets returns the datasets at n inputs, starting at i.
func (in *Inputs) Datasets(i, n int) []*Dataset {
	list := make([]*Dataset, n)
	for j := range list {
		list[j] = in.Dataset(i + j)
	}
	return list
}

// Tensor returns the tensor at input i, which the new dataset retains.
func (in *Inputs) Tensor(i int) *tensor.Tensor {
	t := in.Context.Input(i).Retain()
	in.tensors = append(in.tensors, t)
	return t
}

// Rest returns the tensors at the inputs from (inclusive) to to (exclusive), which the new dataset retains.
func (in *Inputs) Rest(from, to int) Element {
	list := make(Element, 0, max(to-from, 0))
	for i := from; i < to; i++ {
		list = append(list, in.Tensor(i))
	}
	return list
}

// Keep records a dataset that the new one holds besides those that were read. It takes over the reference.
func (in *Inputs) Keep(d *Dataset) { in.inputs = append(in.inputs, d) }

// Release releases the tensors that were read.
func (in *Inputs) Release() { kernels.ReleaseTensors(in.tensors) }

// Scalar reads a scalar at input i; what is the argument's name.
func Scalar[T any](in *Inputs, i int, what string, dtype tensor.DType, get func(*tensor.Tensor) T) T {
	t := in.Context.Input(i)
	if t.DType() == dtype && t.Rank() == 0 {
		return get(t)
	}
	in.Failf("%s must be a scalar", what)
	var zero T
	return zero
}

// Int reads a scalar int64.
func (in *Inputs) Int(i int, what string) int64 {
	return Scalar(in, i, what, tensor.Int64, func(t *tensor.Tensor) int64 { return tensor.Of[int64](t)[0] })
}

// Bool reads a scalar boolean.
func (in *Inputs) Bool(i int, what string) bool {
	return Scalar(in, i, what, tensor.Bool, func(t *tensor.Tensor) bool { return tensor.Of[bool](t)[0] })
}

// Str reads a scalar string.
func (in *Inputs) Str(i int, what string) string {
	return Scalar(in, i, what, tensor.String, func(t *tensor.Tensor) string { return t.Strings()[0] })
}

// Names reads the first input: one string or several.
func (in *Inputs) Names(what string) []string {
	t := in.Context.Input(0)
	if t.DType() != tensor.String || t.Rank() > 1 {
		in.Failf("`%s` must be a scalar or a vector.", what)
		return nil
	}
	return append([]string(nil), t.Strings()...)
}

// Ints reads a vector of int64.
func (in *Inputs) Ints(i int, what string) []int64 {
	t := in.Context.Input(i)
	if t.DType() != tensor.Int64 || t.Rank() > 1 {
		in.Failf("%s must be a vector", what)
		return nil
	}
	return append([]int64(nil), tensor.Of[int64](t)...)
}

// Strings reads a vector of strings.
func (in *Inputs) Strings(i int, what string) []string {
	t := in.Context.Input(i)
	if t.DType() != tensor.String || t.Rank() != 1 {
		in.Failf("%s must be a vector", what)
		return nil
	}
	return append([]string(nil), t.Strings()...)
}

// Positive rejects a number that is not greater than zero.
func (in *Inputs) Positive(v int64, what string) int64 {
	if v <= 0 {
		in.Failf("%s must be greater than zero.", what)
	}
	return v
}

// Within creates a dataset that is part of the new one, and moves the inputs read so far into it.
func (in *Inputs) Within(k Kind, op string) *Dataset {
	d := NewPart(k, op, in.Spec, in.inputs...)
	d.tensors = in.tensors
	in.inputs, in.tensors = []*Dataset{d}, nil
	return d
}

// output sets output 0 to the dataset, unless something failed.
func (in *Inputs) output(k Kind) error {
	d := &Dataset{Kind: k, Op: in.Context.Node.Op, number: created.Add(1), Spec: in.Spec, Inputs: in.inputs, tensors: in.tensors}
	d.refs.Store(1)
	d.Node = in.Context.Node
	for i := range in.Context.Inputs {
		d.Origin.Inputs = append(d.Origin.Inputs, in.Context.Input(i).Retain())
		d.holds(in.Context.Input(i))
	}
	if d.held > variant.MaxNesting {
		in.Fail(variant.TooDeep())
	}
	for _, i := range d.Inputs {
		if d.nested = max(d.nested, i.nested+1); d.nested > MaxNesting {
			in.Fail(status.Errorf(status.ResourceExhausted, "Datasets are made of one another more than %d deep", MaxNesting))
		}
	}
	if in.Err != nil {
		d.Release()
		return in.Err
	}
	pool := in.Context.Device.Pool()
	if err := pool.Reserve(datasetBytes); err != nil {
		d.Release()
		return err
	}
	d.pool = pool
	t, err := in.Context.Allocate(0, tensor.Variant, nil)
	if err != nil {
		d.Release()
		return err
	}
	t.Variants()[0] = d
	return nil
}

// New returns the constructor of a dataset op whose attributes declare its elements.
func New(attrs func(s *Settings) Maker) func(*kernels.Construction) (any, error) {
	return NewWithSpec(func(s *Settings) (Spec, Maker) { return s.Spec(), attrs(s) })
}

// NewWithSpec is New for ops whose element spec is returned by attrs.
func NewWithSpec(attrs func(s *Settings) (Spec, Maker)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		s := SettingsOf(c)
		spec, make := attrs(s)
		if s.Err() != nil {
			return nil, s.Err()
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			in := &Inputs{Context: ctx, Place: PlaceOf(ctx, c), Spec: spec}
			return in.output(make(in))
		}), nil
	}
}

// nothing is the kind of a dataset that could not be read.
type nothing struct{}

func (nothing) Cardinality(*Query) int64 { return 0 }

func (nothing) Open(*Env) (Iterator, error) {
	return nil, fmt.Errorf("a dataset without a kind was opened")
}

// Autotune leaves a size or the parallelism to the server.
const Autotune = -1
