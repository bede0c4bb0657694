package op

import (
	"slices"
	"strconv"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Operation is a node of the graph. A nil Operation is one that could not be added; its outputs are zero Outputs.
type Operation struct {
	graph    *building
	name, op string
	device   string
	spec     place.Spec // device, parsed
	decl     *graph.OpDef
	attrs    graph.Attrs
	inputs   []Output
	counts   []int // how many inputs each argument stands for
	controls []*Operation
	types    []tensor.DType
	shapes   []shape.Shape
	handles  map[int][]shape.Handle
	sizes    map[int]shape.Shape // what is known about outputs that are sizes
	args     [][2]int            // the range of outputs that each output argument stands for
	value    *tensor.Tensor
}

// Name returns the operation's full name.
func (o *Operation) Name() string { return o.name }

// Type returns the op, such as MatMul.
func (o *Operation) Type() string { return o.op }

// Device returns the device that the operation requests, possibly partial or empty.
func (o *Operation) Device() string { return o.device }

// Attrs returns all attributes. They must not be changed.
func (o *Operation) Attrs() Attrs { return o.attrs }

// Inputs returns the data inputs in order. They must not be changed.
func (o *Operation) Inputs() []Output { return o.inputs }

// Input returns the tensors of the op's i-th input argument, which may stand for several.
func (o *Operation) Input(i int) []Output {
	from := 0
	for _, n := range o.counts[:i] {
		from += n
	}
	return o.inputs[from : from+o.counts[i]]
}

// Controls returns the operations that run before this one, besides those of its inputs.
func (o *Operation) Controls() []*Operation { return o.controls }

// NumOutputs returns the number of output tensors.
func (o *Operation) NumOutputs() int {
	if o == nil {
		return 0
	}
	return len(o.types)
}

// Output returns the i-th output tensor.
func (o *Operation) Output(i int) Output {
	if o == nil {
		return Output{}
	}
	return Output{o, i}
}

// OutputList returns the tensors of the op's i-th output argument, which may stand for several.
func (o *Operation) OutputList(i int) []Output {
	if o == nil {
		return nil
	}
	out := make([]Output, 0, o.args[i][1]-o.args[i][0])
	for k := o.args[i][0]; k < o.args[i][1]; k++ {
		out = append(out, Output{o, k})
	}
	return out
}

// Output is one output of an operation, the tensor that TensorFlow writes as "name:index". The zero Output belongs to an operation that
// could not be added.
type Output struct {
	Op    *Operation
	Index int
}

// Name returns "name:index", the name of the tensor in feeds and fetches.
func (o Output) Name() string {
	if o.Op == nil {
		return ""
	}
	return o.Op.name + ":" + strconv.Itoa(o.Index)
}

// Attrs are an operation's attributes by name. The getters (Type, Int, Str, TypeList and others) return INVALID_ARGUMENT if the attribute
// is missing or has another type.
type Attrs = graph.Attrs

// Runnable is what a step can be asked for: an Output, whose value the step returns, or an *Operation, which the step only runs.
type Runnable interface {
	Name() string
	runnable()
}

func (o Output) runnable() {}

func (o *Operation) runnable() {}

// reference returns the tensor as a graph's nodes name it.
func (o Output) reference() string {
	if o.Index == 0 {
		return o.Op.name
	}
	return o.Name()
}

// DType returns the element type, which is a reference type if the op yields a reference to a variable.
func (o Output) DType() tensor.DType {
	if o.Op == nil {
		return tensor.Invalid
	}
	return o.Op.types[o.Index]
}

// Shape returns what is known about the shape.
func (o Output) Shape() shape.Shape {
	if o.Op == nil {
		return shape.Unknown()
	}
	return o.Op.shapes[o.Index]
}

// Handles returns what is known about the tensors behind a handle, or nil for other tensors.
func (o Output) Handles() []shape.Handle {
	if o.Op == nil {
		return nil
	}
	return o.Op.handles[o.Index]
}

func (o Output) outputs() []Output { return []Output{o} }

// List is the value of an input argument that stands for several tensors.
type List []Output

func (l List) outputs() []Output { return l }

// Input is the value of an input argument: an Output, or a List for one that stands for several tensors.
type Input interface{ outputs() []Output }

// Spec describes an operation to add.
type Spec struct {
	// Op is the op's type. Inputs has a value for each of its input arguments.
	Op     string
	Inputs []Input
	// Attrs are the attributes that cannot be inferred from the inputs and have no default, or that override the default. For the values,
	// see Attr.
	Attrs map[string]any
}

// Add adds an operation. The functions of this package, one for each op, call it; programs call it for ops that they know only by name. If
// the op does not accept the inputs, the attributes or their shapes, Add returns nil and sets the graph's error. If the graph already has
// an error, Add returns nil.
func (s *Scope) Add(spec Spec) *Operation {
	if s.graph.err != nil {
		return nil
	}
	o, err := s.make(spec)
	if err != nil {
		s.fail(err)
		return nil
	}
	s.graph.ops = append(s.graph.ops, o)
	s.graph.byName[o.name] = o
	return o
}

func (s *Scope) make(spec Spec) (*Operation, error) {
	o := &Operation{graph: s.graph, op: spec.Op, device: s.device.String(), spec: s.device, controls: s.graph.inside(s.controls)}
	args := make([][]tensor.DType, len(spec.Inputs))
	for i, in := range spec.Inputs {
		list := in.outputs()
		for _, t := range list {
			if t.Op == nil {
				return nil, status.InvalidArgumentf("%s: input %d is not a tensor: the operation that yields it was never added", spec.Op, len(o.inputs))
			}
			t, err := s.graph.enter(t)
			if err != nil {
				return nil, err
			}
			args[i] = append(args[i], t.DType())
			o.inputs = append(o.inputs, t)
		}
		o.counts = append(o.counts, len(list))
	}
	attrs := make(graph.Attrs, len(spec.Attrs)+2)
	for name, v := range spec.Attrs {
		value, err := Attr(v)
		if err != nil {
			return nil, status.InvalidArgumentf("%s: attribute '%s': %v", spec.Op, name, err)
		}
		attrs[name] = value
	}
	call, err := s.graph.library.Call(spec.Op, args, attrs)
	if err != nil {
		return nil, err
	}
	o.decl, o.attrs = call.Def, call.Attrs
	for _, types := range call.Outputs {
		o.args = append(o.args, [2]int{len(o.types), len(o.types) + len(types)})
		o.types = append(o.types, types...)
	}
	s.scoped(o)
	if err := o.infer(); err != nil {
		return nil, err
	}
	o.name = s.named(spec.Op).opName
	return o, nil
}

// scoped sets the attributes of o that come from the scope.
func (s *Scope) scoped(o *Operation) {
	if s.container != "" {
		if have, ok := o.attrs["container"]; ok && len(have.GetS()) == 0 {
			o.attrs["container"] = mustAttr(s.container)
		}
	}
	if len(s.colocate) > 0 {
		o.attrs["_class"] = mustAttr(slices.Compact(slices.Sorted(slices.Values(s.colocate))))
	}
}

// infer infers the shapes of the outputs.
func (o *Operation) infer() error {
	n := &shape.Node{Op: o.op, Attrs: o.attrs, In: make([]shape.Shape, len(o.inputs)), Out: o.types,
		Value:   func(i int) *tensor.Tensor { return o.inputs[i].value() },
		Partial: func(i int) shape.Shape { return o.inputs[i].Op.sizes[o.inputs[i].Index] },
		Handles: func(i int) []shape.Handle { return o.inputs[i].Handles() }}
	for i, in := range o.inputs {
		n.In[i] = in.Shape()
	}
	r, err := shape.Infer(n)
	if err != nil {
		return status.InvalidArgumentf("%s: %v", o.op, err)
	}
	o.shapes, o.handles, o.sizes = r.Out, r.Handles, r.Values
	return nil
}

// value returns the tensor's value if it is known while the graph is built, that is, for a constant.
func (o Output) value() *tensor.Tensor {
	if o.Op == nil || o.Op.op != "Const" {
		return nil
	}
	if o.Op.value == nil {
		v, err := tensor.FromTensorProto(o.Op.attrs["value"].GetTensor(), tensor.Host)
		if err != nil {
			return nil // the session that receives the graph reports it
		}
		o.Op.value = v
	}
	return o.Op.value
}
