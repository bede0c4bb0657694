package e2e

import (
	"fmt"
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph"
)

// conditional takes one of two ways by a comparison.
func (g *randomGraph) conditional(s *scope) {
	p := g.op(s, "Less", float, g.scalar(s), g.scalar(s))
	var ends [2]string
	handles := g.handles(s)
	sw := g.op(s, "Switch", boolT, append([]string{p, p}, lasts(handles)...)...)
	data := []string{g.op(s, "Switch", float, g.pick(s.matrices), p), g.op(s, "Switch", float, g.pick(s.matrices), p)}
	routed := make([]string, len(handles))
	for i, v := range handles {
		inputs := []string{v.handle, p}
		if v.last != "" {
			inputs = append(inputs, "^"+v.last)
		}
		routed[i] = g.add(s, v.place, "Switch", map[string]*attrpb.AttrValue{"T": dtypeAttr(resourceT)}, inputs...)
	}
	for way := range 2 {
		suffix := fmt.Sprintf(":%d", way)
		inner := &scope{depth: s.depth + 1}
		inner.pivot = g.op(s, "Identity", boolT, sw+suffix)
		for _, d := range data {
			inner.matrices = append(inner.matrices, d+suffix)
		}
		for i, v := range handles {
			inner.resources = append(inner.resources, &resource{kind: v.kind, handle: routed[i] + suffix, place: v.place})
		}
		ends[way] = g.body(inner)
	}
	m := g.add(s, g.somewhere(), "Merge", map[string]*attrpb.AttrValue{"T": dtypeAttr(float), "N": number(2)}, ends[:]...)
	s.matrices = append(s.matrices, m)
	for _, v := range handles {
		v.last = m
	}
}

// body fills a scope, and gives a matrix of it that comes when all that it does is done.
func (g *randomGraph) body(s *scope) string {
	for range 1 + g.r.IntN(4) {
		g.statement(s)
	}
	inputs := append([]string{s.matrices[len(s.matrices)-1]}, lasts(s.resources)...)
	if s.pivot != "" {
		inputs = append(inputs, "^"+s.pivot)
	}
	return g.op(s, "Identity", float, inputs...)
}

// lasts are control inputs from what touched resources last.
func lasts(resources []*resource) []string {
	var out []string
	for _, v := range resources {
		if c := "^" + v.last; v.last != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// frame is a loop that is being made: its first variable counts, the second one is a matrix.
type frame struct {
	*randomGraph
	outer *scope
	name  string
	vars  []loopVar
	exits []string
}

type loopVar struct {
	start string
	dtype typespb.DataType
}

func (g *randomGraph) newFrame(s *scope) *frame {
	return &frame{randomGraph: g, outer: s, name: fmt.Sprintf("frame%d", len(g.nodes)),
		vars: []loopVar{{g.scalarInt(s, 0), int32T}, {g.pick(s.matrices), float}}}
}

func (f *frame) enter(input string, t typespb.DataType, place int, constant bool, controls ...string) string {
	return f.add(f.outer, place, "Enter", map[string]*attrpb.AttrValue{"T": dtypeAttr(t), "frame_name": text(f.name),
		"is_constant": flag(constant), "parallel_iterations": number(int64(1 + len(f.name)%10))}, append([]string{input}, controls...)...)
}

// run makes the loop. body gives what the variables from the second on become.
func (f *frame) run(iterations int32, body func(inner *scope, vars []string) []string) {
	g := f.randomGraph
	handles := g.handles(f.outer)
	merges := make([]*nodepb.NodeDef, len(f.vars))
	for i, v := range f.vars {
		// The loop does not end before what it would touch is ready, also where it touches nothing.
		start := f.enter(v.start, v.dtype, g.somewhere(), false, lasts(handles)...)
		g.add(f.outer, g.somewhere(), "Merge", map[string]*attrpb.AttrValue{"T": dtypeAttr(v.dtype), "N": number(2)}, start, "")
		merges[i] = g.nodes[len(g.nodes)-1]
	}
	limit := f.enter(g.scalarInt(f.outer, iterations), int32T, g.somewhere(), true)
	still := f.enter(g.pick(f.outer.matrices), float, g.somewhere(), true)
	factor := f.enter(g.scalar(f.outer), float, g.somewhere(), true)
	inner := &scope{depth: f.outer.depth + 1}
	for _, v := range handles {
		var controls []string
		if v.last != "" {
			controls = append(controls, "^"+v.last)
		} else if f.outer.pivot != "" {
			controls = append(controls, "^"+f.outer.pivot)
		}
		inner.resources = append(inner.resources, &resource{kind: v.kind, place: v.place, handle: f.enter(v.handle, resourceT, v.place, true, controls...)})
	}
	goesOn := g.add(f.outer, g.somewhere(), "LoopCond", nil, g.op(f.outer, "Less", int32T, merges[0].Name, limit))
	switches, vars := make([]string, len(f.vars)), make([]string, len(f.vars))
	for i, v := range f.vars {
		switches[i] = g.op(f.outer, "Switch", v.dtype, merges[i].Name, goesOn)
		vars[i] = switches[i] + ":1"
	}
	// All of the body needs the pivot, so that nothing of it is there after the last iteration.
	inner.pivot = g.op(f.outer, "Identity", int32T, vars[0])
	inner.matrices = []string{vars[1], g.op(inner, "Identity", float, still, "^"+inner.pivot)}
	inner.scalars = []string{g.op(inner, "Identity", float, factor, "^"+inner.pivot)}
	next := append([]string{g.op(inner, "AddV2", int32T, inner.pivot, g.scalarInt(inner, 1))}, body(inner, vars)...)
	for i, v := range f.vars {
		done := g.op(inner, "Identity", v.dtype, append([]string{next[i]}, lasts(inner.resources)...)...)
		merges[i].Input[1] = g.op(inner, "NextIteration", v.dtype, done)
		f.exits = append(f.exits, g.op(f.outer, "Exit", v.dtype, switches[i]))
	}
	for _, v := range handles {
		v.last = f.exits[0]
	}
}

// loop computes a matrix in a few iterations, with values and resources from outside.
func (g *randomGraph) loop(s *scope) {
	f := g.newFrame(s)
	f.run(int32(g.r.IntN(4)), func(inner *scope, _ []string) []string { return []string{g.squashed(inner, g.body(inner))} })
	s.matrices = append(s.matrices, f.exits[1])
}

// randomFunction is a function: a graph whose arguments are nodes called _Arg.
type randomFunction struct {
	name  string
	graph *randomGraph
	types []typespb.DataType
	rets  []string
	last  []string // what must run
}

// function makes a function of arguments of some types, whose body is filled by fill; it gives the results.
func (g *randomGraph) function(types []typespb.DataType, fill func(g *randomGraph, args []string) (rets []string, last []string)) *attrpb.AttrValue {
	inner := &randomGraph{r: g.r, functions: g.functions, top: &scope{}}
	args := make([]string, len(types))
	for i := range types {
		args[i] = fmt.Sprintf("arg%d", i)
	}
	f := &randomFunction{graph: inner, types: types}
	f.rets, f.last = fill(inner, args)
	f.name = fmt.Sprintf("f%d", len(inner.functions))
	g.functions = append(inner.functions, f)
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Func{Func: &attrpb.NameAttrList{Name: f.name}}}
}

func newLibrary() *functionpb.FunctionDefLibrary { return &functionpb.FunctionDefLibrary{} }

// def is the function as a message. Its nodes name their inputs by the arguments of their ops.
func (f *randomFunction) def(job string, tasks int) *functionpb.FunctionDef {
	out := &functionpb.FunctionDef{Signature: &oppb.OpDef{Name: f.name, IsStateful: true}, Ret: map[string]string{}, ControlRet: map[string]string{}}
	byName := map[string]*nodepb.NodeDef{}
	for i, t := range f.types {
		out.Signature.InputArg = append(out.Signature.InputArg, &oppb.OpDef_ArgDef{Name: fmt.Sprintf("arg%d", i), Type: t})
	}
	for _, n := range f.graph.nodes {
		byName[n.Name] = n
	}
	for _, n := range f.graph.placed(job, tasks) {
		inputs := n.Input
		n.Input = nil
		for _, in := range inputs {
			n.Input = append(n.Input, argumentName(byName, in))
		}
		out.NodeDef = append(out.NodeDef, n)
	}
	for i, r := range f.rets {
		t := float
		if i < len(f.types) && len(f.rets) == len(f.types) {
			t = f.types[i] // a loop's body
		} else if len(f.rets) == 1 && byName[r] != nil && byName[r].Op == "Less" {
			t = boolT
		}
		name := fmt.Sprintf("ret%d", i)
		out.Signature.OutputArg = append(out.Signature.OutputArg, &oppb.OpDef_ArgDef{Name: name, Type: t})
		out.Ret[name] = argumentName(byName, r)
	}
	for i, n := range f.last {
		name := fmt.Sprintf("done%d", i)
		out.Signature.ControlOutput = append(out.Signature.ControlOutput, name)
		out.ControlRet[name] = n
	}
	return out
}

// argumentName writes the input of a graph's node as a function's node has it.
func argumentName(nodes map[string]*nodepb.NodeDef, input string) string {
	if input[0] == '^' {
		return input
	}
	name, index, err := graph.ParseTensorName(input)
	if err != nil {
		panic(err)
	}
	n := nodes[name]
	if n == nil {
		return name // an argument
	}
	def, err := graph.LookupOp(n.Op)
	if err != nil {
		panic(err)
	}
	for _, a := range def.GetOutputArg() {
		count := 1
		if a.NumberAttr != "" {
			count = int(n.Attr[a.NumberAttr].GetI())
		} else if a.TypeListAttr != "" {
			count = len(n.Attr[a.TypeListAttr].GetList().GetType())
		}
		if index < count {
			return fmt.Sprintf("%s:%s:%d", name, a.Name, index)
		}
		index -= count
	}
	panic("no output " + input)
}

// passed are the arguments of a function that a scope calls: matrices, a scalar, and resources.
type passed struct {
	inputs  []string
	types   []typespb.DataType
	handles []*resource
}

func (g *randomGraph) pass(s *scope) passed {
	p := passed{inputs: []string{g.pick(s.matrices), g.pick(s.matrices), g.scalar(s)}, types: []typespb.DataType{float, float, float}, handles: g.handles(s)}
	for _, v := range p.handles {
		p.inputs = append(p.inputs, v.handle)
		p.types = append(p.types, resourceT)
	}
	return p
}

// callee is a function of passed arguments that gives one matrix.
func (g *randomGraph) callee(p passed, depth int) *attrpb.AttrValue {
	return g.function(p.types, func(g *randomGraph, args []string) ([]string, []string) {
		s := p.scope(args, depth)
		return []string{g.squashed(s, g.body(s))}, s.done()
	})
}

// scope is what a function's body begins with.
func (p passed) scope(args []string, depth int) *scope {
	s := &scope{matrices: []string{args[0], args[1]}, scalars: []string{args[2]}, depth: depth}
	for i, v := range p.handles {
		s.resources = append(s.resources, &resource{kind: v.kind, handle: args[3+i], place: v.place})
	}
	return s
}

// done are the nodes that touched the resources last.
func (s *scope) done() []string {
	var out []string
	for _, v := range s.resources {
		if v.last != "" {
			out = append(out, v.last)
		}
	}
	return out
}

// calls adds a node that calls functions.
func (g *randomGraph) calls(s *scope, op string, attrs map[string]*attrpb.AttrValue, p passed, inputs ...string) string {
	inputs = append(inputs, p.inputs...)
	inputs = append(inputs, lasts(p.handles)...)
	if s.pivot != "" {
		inputs = append(inputs, "^"+s.pivot)
	}
	attrs["Tin"], attrs["Tout"] = typesAttr(p.types...), typesAttr(float)
	n := g.add(s, g.somewhere(), op, attrs, inputs...)
	for _, v := range p.handles {
		v.last = n
	}
	return n
}

func (g *randomGraph) call(s *scope) {
	p := g.pass(s)
	f := g.callee(p, s.depth+1)
	s.matrices = append(s.matrices, g.calls(s, "StatefulPartitionedCall", map[string]*attrpb.AttrValue{"f": f}, p))
}

// choice is an If or a Case.
func (g *randomGraph) choice(s *scope) {
	p := g.pass(s)
	lower := flag(g.r.IntN(2) == 0)
	if g.r.IntN(2) == 0 {
		cond := g.op(s, "Less", float, g.scalar(s), g.scalar(s))
		attrs := map[string]*attrpb.AttrValue{"Tcond": dtypeAttr(boolT), "then_branch": g.callee(p, s.depth+1), "else_branch": g.callee(p, s.depth+1),
			"_lower_using_switch_merge": lower}
		s.matrices = append(s.matrices, g.calls(s, "If", attrs, p, cond))
		return
	}
	branches := &attrpb.AttrValue_ListValue{}
	for range 1 + g.r.IntN(3) {
		branches.Func = append(branches.Func, g.callee(p, s.depth+1).GetFunc())
	}
	scaled := g.op(s, "Mul", float, g.scalar(s), g.constant(s, float, floats(nil, 3)))
	index := g.add(s, g.somewhere(), "Cast", map[string]*attrpb.AttrValue{"SrcT": dtypeAttr(float), "DstT": dtypeAttr(int32T)}, scaled)
	attrs := map[string]*attrpb.AttrValue{"branches": {Value: &attrpb.AttrValue_List{List: branches}}, "_lower_using_switch_merge": lower}
	s.matrices = append(s.matrices, g.calls(s, "Case", attrs, p, index))
}

// while is a While: a counter, two matrices of which the body changes the first, a scalar, and resources.
func (g *randomGraph) while(s *scope) {
	p := g.pass(s)
	iterations := int32(g.r.IntN(4))
	types := append([]typespb.DataType{int32T}, p.types...)
	cond := g.function(types, func(g *randomGraph, args []string) ([]string, []string) {
		top := &scope{}
		return []string{g.op(top, "Less", int32T, args[0], g.scalarInt(top, iterations))}, nil
	})
	body := g.function(types, func(g *randomGraph, args []string) ([]string, []string) {
		inner := p.scope(args[1:], s.depth+1)
		m := g.squashed(inner, g.body(inner))
		rets := append([]string{g.op(inner, "AddV2", int32T, args[0], g.scalarInt(inner, 1)), m}, args[2:]...)
		return rets, inner.done()
	})
	attrs := map[string]*attrpb.AttrValue{"cond": cond, "body": body, "T": typesAttr(types...), "_lower_using_switch_merge": flag(g.r.IntN(2) == 0),
		"parallel_iterations": number(int64(1 + g.r.IntN(10)))}
	n := g.calls(s, "While", attrs, p, g.scalarInt(s, 0))
	delete(attrs, "Tin")
	delete(attrs, "Tout")
	s.matrices = append(s.matrices, n+":1")
}
