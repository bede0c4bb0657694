package op

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Function is a function of the graph's library that was built by a Go function. It may use tensors of the surrounding graph. These become
// additional arguments, after those passed to the Go function, and every call passes them.
type Function struct {
	name     string
	args     []Output // arguments in the body, without those for captures
	results  []Output
	captures []Output
	body     *building
	stateful bool
}

// Param is what is known about a function's argument.
type Param struct {
	DType tensor.DType
	Shape shape.Shape
	// Handles describe the tensors behind a handle.
	Handles []shape.Handle
}

// ParamsOf returns the types and shapes of tensors.
func ParamsOf(tensors ...Output) []Param {
	return each(tensors, func(t Output) Param { return Param{t.DType(), t.Shape(), t.Handles()} })
}

// NewFunction adds a function to the graph's library. The Go function is called once, with a scope of the function's body and its
// arguments, and returns the function's results. The name in the library is name, or name_1 and so on if name is taken. NewFunction
// returns nil if the graph has an error.
func NewFunction(s *Scope, name string, params []Param, draw func(s *Scope, args []Output) []Output) *Function {
	f := s.draw(name, params, draw)
	if f == nil {
		return nil
	}
	f.finish(s, f.body.body.outer)
	if s.graph.err != nil {
		return nil
	}
	return f
}

// Name returns the name in the graph's library.
func (f *Function) Name() string { return f.name }

// Func returns the function as an attribute's value, for ops that take functions. Such an op must be passed the Captures.
func (f *Function) Func() Func { return Func(f.name) }

// Args returns the arguments in the body, without those for captures.
func (f *Function) Args() []Output { return slices.Clone(f.args) }

// Results returns the tensors of the body that are the function's results.
func (f *Function) Results() []Output { return slices.Clone(f.results) }

// Captures returns the tensors of the surrounding graph that the body uses. They are the function's last arguments.
func (f *Function) Captures() []Output { return slices.Clone(f.captures) }

// CaptureArgs returns the arguments in the body that stand for the Captures.
func (f *Function) CaptureArgs() []Output { return each(f.captures, f.body.take) }

// Operations returns the operations of the body, in the order in which they were added.
func (f *Function) Operations() []*Operation { return slices.Clone(f.body.ops) }

// Stateful reports whether the body has an effect, or reads state that others may change.
func (f *Function) Stateful() bool { return f.stateful }

// Call calls the function.
func (f *Function) Call(s *Scope, args ...Output) []Output {
	if f == nil || s.graph.err != nil {
		return nil
	}
	if len(args) != len(f.args) {
		s.fail(status.InvalidArgumentf("Function %s takes %d arguments, not %d", f.name, len(f.args), len(args)))
		return make([]Output, len(f.results))
	}
	for i, a := range args {
		want := f.args[i]
		if a.DType() != want.DType() {
			s.fail(status.InvalidArgumentf("Argument %d of function %s is of type %v, not %v", i, f.name, want.DType(), a.DType()))
		} else if _, err := want.Shape().Merge(a.Shape()); err != nil {
			s.fail(status.InvalidArgumentf("Argument %d of function %s has the shape %v, not %v", i, f.name, want.Shape(), a.Shape()))
		}
	}
	op := "PartitionedCall"
	if f.stateful {
		op = "StatefulPartitionedCall"
	}
	s = s.after(f)
	call := s.Add(Spec{Op: op, Inputs: []Input{List(slices.Concat(args, f.captures))}, Attrs: map[string]any{
		"Tout": each(f.results, Output.DType), "f": f.Func()}})
	return call.yields(ParamsOf(f.results...))
}

// yields records what is known about the operation's outputs, and returns these.
func (o *Operation) yields(known []Param) []Output {
	if o == nil {
		return make([]Output, len(known))
	}
	for i, k := range known {
		if merged, err := o.shapes[i].Merge(k.Shape); err == nil {
			o.shapes[i] = merged
		}
		if k.Handles != nil && o.handles[i] == nil {
			if o.handles == nil {
				o.handles = map[int][]shape.Handle{}
			}
			o.handles[i] = k.Handles
		}
	}
	return o.OutputList(0)
}

// after returns s with the control dependencies that operations of the bodies requested.
func (s *Scope) after(functions ...*Function) *Scope {
	d := *s
	d.controls = slices.Clip(d.controls)
	for _, f := range functions {
		for _, c := range f.body.body.controls {
			if !slices.Contains(d.controls, c) {
				d.controls = append(d.controls, c)
			}
		}
	}
	return &d
}

// body is what a function's body knows about the surrounding graph.
type body struct {
	parent   *building
	inner    map[Output]Output // maps a tensor of the parent to the one that stands for it
	outer    []Output          // the keys of inner that are arguments, in order of use
	arg      map[Output]string // the name of each argument
	controls []*Operation      // what the body's operations must run after
}

// maxCopied is the size in bytes up to which a constant of the surrounding graph is copied into a function, so that its value is known
// there.
const maxCopied = 1024

// draw builds the body of a function that is not yet in the library. It returns nil if the graph has an error.
func (s *Scope) draw(name string, params []Param, draw func(s *Scope, args []Output) []Output) *Function {
	if s.graph.err != nil {
		return nil
	}
	f := &Function{name: s.graph.functionName(name)}
	f.body = newBuilding(s.graph.shared, &body{parent: s.graph, inner: map[Output]Output{}, arg: map[Output]string{}})
	for i, p := range params {
		f.args = append(f.args, f.body.argument("arg"+strconv.Itoa(i), p))
	}
	f.results = slices.Clone(draw(&Scope{graph: f.body, device: s.device, container: s.container}, slices.Clone(f.args)))
	if s.graph.err != nil {
		return nil
	}
	for i, r := range f.results {
		if r.Op == nil {
			s.fail(status.InvalidArgumentf("Result %d of function %s is not a tensor", i, f.name))
			return nil
		}
		inside, err := f.body.enter(r)
		if err != nil {
			s.fail(err)
			return nil
		}
		if inside.DType().IsRef() {
			s.fail(status.InvalidArgumentf("Result %d of function %s is a reference to a variable, which functions cannot pass", i, f.name))
			return nil
		}
		f.results[i] = inside
	}
	f.stateful = slices.ContainsFunc(f.body.ops, (*Operation).stateful)
	return f
}

// functionName reserves an unused name in the library.
func (b *building) functionName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
	try := name
	for i := 1; ; i++ {
		_, here := b.functions[try]
		_, known := b.library.Functions[try]
		if _, err := graph.LookupOp(try); err != nil && !here && !known {
			b.functions[try] = nil
			return try
		}
		try = name + "_" + strconv.Itoa(i)
	}
}

// argument adds an argument to a function's body.
func (b *building) argument(name string, p Param) Output {
	name = (&Scope{graph: b}).unique(name)
	o := &Operation{graph: b, name: name, op: argOp, spec: place.Open(), attrs: graph.Attrs{"T": mustAttr(p.DType)},
		types: []tensor.DType{p.DType}, shapes: []shape.Shape{p.Shape}, args: [][2]int{{0, 1}}}
	if p.Handles != nil {
		o.handles = map[int][]shape.Handle{0: p.Handles}
	}
	t := Output{o, 0}
	b.body.arg[t] = name
	return t
}

// argOp is the op of a function's arguments in its body.
const argOp = "_Arg"

// enter returns the tensor that stands for t in the graph: t itself, or an argument of a function if t belongs to a surrounding graph.
func (b *building) enter(t Output) (Output, error) {
	if t.Op.graph == b {
		return t, nil
	}
	if b.body == nil {
		return Output{}, errForeign
	}
	outer, err := b.body.parent.enter(t)
	if err != nil {
		return Output{}, err
	}
	if in, ok := b.body.inner[outer]; ok {
		return in, nil
	}
	if outer.DType().IsRef() {
		return Output{}, status.InvalidArgumentf("%s is a reference to a variable, which functions cannot pass", outer.Name())
	}
	in := b.copied(outer)
	if in.Op == nil {
		b.body.outer = append(b.body.outer, outer)
		return b.take(outer), nil
	}
	b.body.inner[outer] = in
	return in, nil
}

// copied returns a copy of a small constant in the body, or the zero Output for other tensors.
func (b *building) copied(t Output) Output {
	v := t.value()
	if v == nil || v.ByteSize() > maxCopied {
		return Output{}
	}
	c := *t.Op
	c.graph, c.controls = b, nil
	c.attrs = maps.Clone(c.attrs)
	delete(c.attrs, "_class")
	c.name = (&Scope{graph: b}).unique(c.name)
	b.ops = append(b.ops, &c)
	b.byName[c.name] = &c
	return Output{&c, 0}
}

// take returns the argument for a tensor that the body uses, or another function of the same operation.
func (b *building) take(outer Output) Output {
	in, ok := b.body.inner[outer]
	if !ok {
		in = b.argument("captured"+strconv.Itoa(len(b.body.inner)), ParamsOf(outer)[0])
		b.body.inner[outer] = in
	}
	return in
}

// inside returns the control dependencies that are in this graph. A function's body leaves the others to its calls.
func (b *building) inside(controls []*Operation) []*Operation {
	if b.body == nil || !slices.ContainsFunc(controls, func(o *Operation) bool { return o.graph != b }) {
		return controls
	}
	var in []*Operation
	for _, o := range controls {
		switch {
		case o.graph != b:
			if !slices.Contains(b.body.controls, o) {
				b.body.controls = append(b.body.controls, o)
			}
		case o.op != argOp:
			in = append(in, o)
		}
	}
	return in
}

// stateful reports whether the op is declared to have an effect.
func (o *Operation) stateful() bool { return o.decl.GetIsStateful() }

// finish adds the function to the graph's library, with arguments for all of captures, which include all of the function's own.
func (f *Function) finish(s *Scope, captures []Output) {
	sig := &oppb.OpDef{Name: f.name, IsStateful: f.stateful}
	def := &functionpb.FunctionDef{Signature: sig, Ret: map[string]string{}, ControlRet: map[string]string{}}
	arg := func(t Output) {
		sig.InputArg = append(sig.InputArg, &oppb.OpDef_ArgDef{Name: f.body.body.arg[t], Type: t.DType().Proto()})
	}
	for _, a := range f.args {
		arg(a)
	}
	for _, c := range captures {
		arg(f.body.take(c))
	}
	f.captures = captures
	for i, r := range f.results {
		name := "result" + strconv.Itoa(i)
		sig.OutputArg = append(sig.OutputArg, &oppb.OpDef_ArgDef{Name: name, Type: r.DType().Proto()})
		def.Ret[name] = f.body.reference(r)
	}
	for _, o := range f.body.ops {
		n := o.node(f.body.reference)
		n.Attr = maps.Clone(n.Attr)
		def.NodeDef = append(def.NodeDef, n)
		if o.stateful() {
			sig.ControlOutput = append(sig.ControlOutput, o.name)
			def.ControlRet[o.name] = o.name
		}
	}
	library, err := s.graph.library.Merge(&functionpb.FunctionDefLibrary{Function: []*functionpb.FunctionDef{def}})
	if err != nil {
		s.fail(err)
		return
	}
	s.graph.library = library
	s.graph.functions[f.name] = f
}

// reference returns a tensor's name in a function's body: an argument, or an output argument of a node and the index within it.
func (b *building) reference(t Output) string {
	if name, ok := b.body.arg[t]; ok {
		return name
	}
	for i, r := range t.Op.args {
		if t.Index < r[1] {
			return t.Op.name + ":" + t.Op.decl.OutputArg[i].Name + ":" + strconv.Itoa(t.Index-r[0])
		}
	}
	return "" // no such output
}

// node returns the operation as a message; refer formats its inputs.
func (o *Operation) node(refer func(Output) string) *nodepb.NodeDef {
	n := &nodepb.NodeDef{Name: o.name, Op: o.op, Device: o.device, Attr: map[string]*attrpb.AttrValue(o.attrs)}
	for _, in := range o.inputs {
		n.Input = append(n.Input, refer(in))
	}
	for _, c := range o.controls {
		n.Input = append(n.Input, "^"+c.name)
	}
	return n
}

// Function returns the function with the given name that was built in the graph, or nil.
func (s *Scope) Function(name string) *Function { return s.graph.functions[name] }
