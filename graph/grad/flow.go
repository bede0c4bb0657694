package grad

import (
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// The gradient of a function is a function that repeats the computation and then backpropagates through it. Only the arguments need to be
// kept, and, for a loop, its variables of each iteration. A body must therefore compute the same results twice: one that draws random
// numbers (except with the stateless ops) or has an effect has no gradient.

func init() {
	register(map[string]rule{
		"PartitionedCall": callRule, "StatefulPartitionedCall": callRule,
		"If": condRule, "StatelessIf": condRule, "Case": caseRule, "StatelessCase": caseRule,
		"While": whileRule, "StatelessWhile": whileRule,
	}, func(r rule) rule { return r })
}

func callRule(g *call) ([]Gradient, error) {
	f, err := g.function(g.Attrs()["f"].GetFunc().GetName())
	if err != nil {
		return nil, err
	}
	dys := g.outputGradients()
	d := op.NewFunction(g.s, f.Name()+"_grad", op.ParamsOf(slices.Concat(g.Inputs(), dys)...), func(s *op.Scope, args []op.Output) []op.Output {
		return g.through(s, f, args[:len(g.Inputs())], args[len(g.Inputs()):])
	})
	return g.inputGradients(0, d.Call(g.s, slices.Concat(g.Inputs(), dys)...)), nil
}

func condRule(g *call) ([]Gradient, error) {
	branches, err := g.branches(g.Attrs()["then_branch"].GetFunc().GetName(), g.Attrs()["else_branch"].GetFunc().GetName())
	if err != nil {
		return nil, err
	}
	return g.inputGradients(1, op.Cond(g.s, g.x(0), branches[0], branches[1])), nil
}

func caseRule(g *call) ([]Gradient, error) {
	var names []string
	for _, f := range g.Attrs()["branches"].GetList().GetFunc() {
		names = append(names, f.GetName())
	}
	branches, err := g.branches(names...)
	if err != nil {
		return nil, err
	}
	return g.inputGradients(1, op.Case(g.s, g.x(0), branches)), nil
}

// branches returns functions that build the gradients of functions of all inputs but the first.
func (g *call) branches(names ...string) (draw []func(s *op.Scope) []op.Output, err error) {
	dys := g.outputGradients()
	for _, name := range names {
		f, err := g.function(name)
		if err != nil {
			return nil, err
		}
		draw = append(draw, func(s *op.Scope) []op.Output { return g.through(s, f, g.Inputs()[1:], dys) })
	}
	return draw, nil
}

// outputGradients returns the gradients of the differentiable outputs, zeros for those that nothing depends on.
func (g *call) outputGradients() (dys []op.Output) {
	for i := range g.NumOutputs() {
		if differentiable(g.Output(i)) {
			dys = append(dys, g.d(i))
		}
	}
	return dys
}

func differentiable(t op.Output) bool { return trainable(t.DType()) && t.DType() != tensor.Resource }

// inputGradients assigns the given gradients, in order, to the inputs from first on that want one.
func (g *call) inputGradients(first int, given []op.Output) []Gradient {
	out := make([]Gradient, len(g.Inputs()))
	for i := first; i < len(out); i++ {
		if g.wanted[i] && len(given) > 0 {
			out[i].Values, given = given[0], given[1:]
		}
	}
	return out
}

// through builds, in the body of a function, the gradients of f with respect to those of its arguments that want one. The arguments are
// the operation's last inputs.
func (g *call) through(s *op.Scope, f *op.Function, args, dys []op.Output) []op.Output {
	inside := make([]op.Output, len(args))
	var xs, ys, outer []op.Output
	first := len(g.wanted) - len(args)
	for i, a := range args {
		inside[i] = op.Identity(s, a)
		if g.wanted[first+i] {
			xs, outer = append(xs, inside[i]), append(outer, g.x(first+i))
		}
	}
	for _, r := range replay(s, f, inside) {
		if differentiable(r) {
			ys = append(ys, r)
		}
	}
	out := make([]op.Output, len(xs))
	for i, d := range Gradients(s, ys, xs, From(dys...)) {
		if out[i] = d.Dense(s); !d.Connected() {
			out[i] = zerosFor(s, xs[i], outer[i])
		}
	}
	return out
}

// zerosFor returns a gradient of zeros for x. For a handle, it has the shape of the variable behind it; outer, the tensor that x stands
// for, may have more information on that.
func zerosFor(s *op.Scope, x, outer op.Output) op.Output {
	if x.DType() != tensor.Resource {
		return op.ZerosLike(s, x)
	}
	var t tensor.DType
	if behind := outer.Handles(); len(behind) == 1 {
		t = behind[0].DType
	} else if outer.Op.Type() == "VarHandleOp" {
		t = tensor.FromProto(outer.Op.Attrs()["dtype"].GetType())
	} else {
		s.Fail(status.Unimplementedf("The type of the tensor behind the handle %s, whose gradient is requested, is not known", outer.Name()))
		return op.Output{}
	}
	return op.Fill(s, op.VariableShape(s, x), op.Cast(s, op.Const(s, float32(0)), t))
}

// whileRule runs the loop again and records its variables before each iteration. It then goes back from the last iteration to the first.
func whileRule(g *call) ([]Gradient, error) {
	cond, err := g.function(g.Attrs()["cond"].GetFunc().GetName())
	if err != nil {
		return nil, err
	}
	body, err := g.function(g.Attrs()["body"].GetFunc().GetName())
	if err != nil {
		return nil, err
	}
	inputs := g.Inputs()
	arguments, results := slices.Concat(body.Args(), body.CaptureArgs()), body.Results()
	if len(arguments) != len(inputs) || len(results) != len(inputs) {
		return nil, status.Internalf("A loop of %d variables has a body of %d arguments and %d results", len(inputs), len(arguments), len(results))
	}
	l := &loop{call: g, body: body, arguments: arguments, of: map[int]int{}}
	for i := range inputs {
		if results[i] == arguments[i] {
			continue
		}
		if inputs[i].DType() == tensor.Resource {
			return nil, status.Unimplementedf("Variable %d of the loop is a handle that changes from one iteration to the next", i)
		}
		l.of[i] = len(l.changing)
		l.changing = append(l.changing, i)
	}
	for i := range inputs {
		if _, changes := l.of[i]; trainable(inputs[i].DType()) && (changes || g.wanted[i]) {
			l.backward = append(l.backward, i)
		}
	}
	rounds, kept := l.record(cond)
	d := l.back(rounds, kept)
	out := make([]Gradient, len(inputs))
	for k, i := range l.backward {
		if g.wanted[i] && len(d) == len(l.backward) {
			out[i].Values = d[k]
		}
	}
	return out, nil
}

// loop is a loop being differentiated.
type loop struct {
	*call
	body      *op.Function
	arguments []op.Output // of the body
	changing  []int       // the variables that an iteration changes
	of        map[int]int // their indices in changing
	backward  []int       // the variables that gradients flow back through
}

// record runs the loop, and returns the number of iterations and lists of the changing variables before each iteration.
func (l *loop) record(cond *op.Function) (rounds op.Output, kept []op.Output) {
	inputs := l.Inputs()
	n := len(l.changing)
	start := []op.Output{l.int(0)}
	for _, i := range l.changing {
		start = append(start, inputs[i])
	}
	for _, i := range l.changing {
		start = append(start, l.make("EmptyTensorList", map[string]any{"element_dtype": inputs[i].DType().Base()}, l.int(-1), l.int(-1)))
	}
	all := func(v []op.Output) []op.Output { // all variables; unchanging ones come from outside
		out := slices.Clone(inputs)
		for k, i := range l.changing {
			out[i] = v[1+k]
		}
		return out
	}
	end := op.While(l.s, start, func(s *op.Scope, v []op.Output) op.Output {
		if r := replay(s, cond, all(v)); len(r) == 1 {
			return r[0]
		}
		return op.Output{}
	}, func(s *op.Scope, v []op.Output) []op.Output {
		b := builder{s}
		next := []op.Output{b.add(v[0], b.int(1))}
		results := replay(s, l.body, all(v))
		for _, i := range l.changing {
			if len(results) == len(inputs) {
				next = append(next, results[i])
			}
		}
		for k := range l.changing {
			next = append(next, b.op("TensorListPushBack", v[1+n+k], v[1+k]))
		}
		return next
	})
	return end[0], end[1+n:]
}

// back goes back from the last iteration to the first.
func (l *loop) back(rounds op.Output, kept []op.Output) []op.Output {
	n := len(kept)
	start := append([]op.Output{rounds}, kept...)
	for _, i := range l.backward {
		if differentiable(l.Output(i)) {
			start = append(start, l.d(i))
		} else {
			start = append(start, zerosFor(l.s, l.x(i), l.x(i)))
		}
	}
	end := op.While(l.s, start, func(s *op.Scope, v []op.Output) op.Output {
		b := builder{s}
		return b.op("Greater", v[0], b.int(0))
	}, func(s *op.Scope, v []op.Output) []op.Output {
		b := builder{s}
		next := []op.Output{b.sub(v[0], b.int(1))}
		inside := make([]op.Output, len(l.Inputs()))
		for k, i := range l.changing {
			before := b.node("TensorListPopBack", map[string]any{"element_dtype": l.x(i).DType().Base()}, v[1+k], b.int(-1))
			next = append(next, before.Output(0))
			inside[i] = before.Output(1)
			if known := l.arguments[i].Shape(); known.HasRank() && l.x(i).DType() != tensor.Variant {
				inside[i] = b.make("EnsureShape", map[string]any{"shape": known}, inside[i])
			}
		}
		for i, x := range l.Inputs() {
			if _, changes := l.of[i]; !changes {
				inside[i] = op.Identity(s, x)
			}
		}
		return append(next, l.round(s, inside, v[1+n:])...)
	})
	return end[1+n:]
}

// round goes back through one iteration, from the gradients of its results to those of its arguments.
func (l *loop) round(s *op.Scope, inside, d []op.Output) []op.Output {
	results := replay(s, l.body, inside)
	if len(results) != len(inside) {
		return d // the graph has an error
	}
	var ys, dys, xs []op.Output
	for k, i := range l.backward {
		xs = append(xs, inside[i])
		if differentiable(results[i]) {
			ys, dys = append(ys, results[i]), append(dys, d[k])
		}
	}
	next := slices.Clone(d)
	for k, g := range Gradients(s, ys, xs, From(dys...)) {
		switch {
		case xs[k].DType() == tensor.Resource && g.Connected():
			next[k] = op.AddV2(s, d[k], g.Dense(s))
		case xs[k].DType() == tensor.Resource:
		case g.Connected():
			next[k] = g.Dense(s)
		default:
			next[k] = op.ZerosLike(s, xs[k])
		}
	}
	return next
}

// function returns a function that was built in the graph, and checks that it computes the same results twice.
func (g *call) function(name string) (*op.Function, error) {
	f := g.s.Function(name)
	if f == nil {
		return nil, status.Unimplementedf("Function %s was not built in this graph; only functions that were have gradients", name)
	}
	return f, g.repeatable(f)
}

// reads lists ops that are declared to have an effect, but return the same results when they run twice in a step.
var reads = []string{"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp", "Assert", "Print", "PrintV2"}

func (g *call) repeatable(f *op.Function) error {
	for _, o := range f.Operations() {
		def, err := graph.LookupOp(o.Type())
		if err != nil {
			return err
		}
		if !def.GetIsStateful() || slices.Contains(reads, o.Type()) {
			continue
		}
		called := false
		for _, v := range o.Attrs() {
			for _, named := range append(v.GetList().GetFunc(), v.GetFunc()) {
				if named.GetName() == "" {
					continue
				}
				called = true
				if _, err := g.function(named.GetName()); err != nil {
					return err
				}
			}
		}
		if !called {
			return status.Unimplementedf("Function %s has no gradient: its operation %s (%s) would run a second time", f.Name(), o.Name(), o.Type())
		}
	}
	return nil
}

// replay adds the operations of a function's body again, for other arguments, and returns its results, or nil if the graph has an error.
func replay(s *op.Scope, f *op.Function, args []op.Output) []op.Output {
	tensors := map[op.Output]op.Output{}
	for i, a := range slices.Concat(f.Args(), f.CaptureArgs()) {
		tensors[a] = args[i]
	}
	ops := map[*op.Operation]*op.Operation{}
	for _, o := range f.Operations() {
		def, err := graph.LookupOp(o.Type())
		if err != nil {
			s.Fail(err)
			return nil
		}
		spec := op.Spec{Op: o.Type(), Attrs: map[string]any{}}
		for i := range def.GetInputArg() {
			var list op.List
			for _, in := range o.Input(i) {
				list = append(list, tensors[in])
			}
			spec.Inputs = append(spec.Inputs, list)
		}
		for name, v := range o.Attrs() {
			if name != "_class" { // _class refers to operations of the body
				spec.Attrs[name] = v
			}
		}
		var controls []*op.Operation
		for _, c := range o.Controls() {
			controls = append(controls, ops[c])
		}
		copied := s.WithControlDependencies(controls...).Add(spec)
		if copied == nil {
			return nil
		}
		ops[o] = copied
		for i := range o.NumOutputs() {
			tensors[o.Output(i)] = copied.Output(i)
		}
	}
	out := make([]op.Output, 0, len(f.Results()))
	for _, r := range f.Results() {
		out = append(out, tensors[r])
	}
	return out
}
