package metamorphic

import (
	"fmt"
	"maps"
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph"
)

// lowerFlag in Num requests that a functional conditional or loop is lowered, and statelessFlag that a call of a function that changes
// nothing is declared stateless.
const (
	lowerFlag     = 16
	statelessFlag = 32
)

// functional draws a construct with functions: a call, conditional or loop. In TensorFlow, nodes that wait for a lowered one wait only for
// its effects, so the result also waits for the arguments that were read from references.
func (d *drawing) functional() string {
	var read []string
	for _, id := range slices.Concat(d.s.Args, d.captured()) {
		if d.reads(id) {
			read = append(read, "^"+d.settled(id, d.f.types[id]))
		}
	}
	out := d.functionCall()
	if len(read) > 0 {
		out = d.op("Identity", Matrix, append([]string{out}, read...)...)
	}
	return out
}

func (d *drawing) functionCall() string {
	s := d.s
	captured := d.captured()
	var inputs, leading []string
	var types []Type
	a := attrs{}
	switch s.Op {
	case "if":
		leading = []string{d.op("Less", Scalar, d.settled(s.Args[0], Scalar), d.settled(s.Args[1], Scalar))}
	case "case":
		leading = []string{d.settled(s.Args[0], Int)}
	case "while":
		types = []Type{Matrix, Int}
		inputs = []string{d.settled(s.Args[0], Matrix), d.constant(intOf(0))}
	}
	for _, id := range captured {
		t := d.f.types[id]
		types = append(types, t)
		if t.resource() {
			// A pinned call would pin an unpinned resource, but only in sessions whose graph has the call.
			d.unpinned = d.unpinned || d.f.stmts[id].Place < 0
			inputs = append(inputs, d.get(id))
		} else {
			inputs = append(inputs, d.settled(id, t))
		}
	}
	inputs = append(append(leading, inputs...), d.controls...)
	if s.Op == "while" {
		a["cond"], a["body"] = function(d.condition(types)), function(d.function(s.Blocks[0], 0, captured, types))
		a["T"], a["parallel_iterations"] = typeList(types...), number(int64(1+s.ID%10))
		a["_lower_using_switch_merge"] = d.lowered()
		return d.node("While", a, inputs...)
	}
	names := make([]string, len(s.Blocks))
	for i, b := range s.Blocks {
		names[i] = d.function(b, i, captured, types)
	}
	if s.Op == "invoke" {
		return d.node(names[0], nil, inputs...)
	}
	a["Tin"], a["Tout"] = typeList(types...), typeList(Matrix)
	changes := d.f.touch[s.ID].writes()
	switch s.Op {
	case "call":
		a["f"] = function(names[0])
		if !changes && s.Num&statelessFlag != 0 {
			return d.node("PartitionedCall", a, inputs...)
		}
		return d.node("StatefulPartitionedCall", a, inputs...)
	case "if":
		a["Tcond"] = typeAttr(typespb.DataType_DT_BOOL)
		a["then_branch"], a["else_branch"] = function(names[0]), function(names[1])
	case "case":
		list := &attrpb.AttrValue_ListValue{}
		for _, n := range names {
			list.Func = append(list.Func, function(n).GetFunc())
		}
		a["branches"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}}
	}
	a["_lower_using_switch_merge"] = d.lowered()
	return d.node(map[string]string{"if": "If", "case": "Case"}[s.Op], a, inputs...)
}

func (d *drawing) lowered() *attrpb.AttrValue {
	switch d.form.Lower {
	case LowerAll:
		return flag(true)
	case LowerNone:
		return flag(false)
	default:
		return flag(d.s.Num&lowerFlag != 0)
	}
}

// captured returns the values and resources that are passed to the functions. References cannot be passed.
func (d *drawing) captured() []int {
	ids := map[int]bool{}
	for _, b := range d.s.Blocks {
		for _, id := range d.f.free(b) {
			if t := d.f.types[id]; t != None && !t.ref() && d.known(id) {
				ids[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// function draws a block as a function, which begins with the loop's variables if it is a loop's.
func (d *drawing) function(b *Block, index int, captured []int, types []Type) string {
	sc := &scope{drawer: d.drawer, nodes: &nodes{}, values: map[int]string{}, lates: map[int]string{}, outer: d.scope}
	sc.wait = d.f.sequence(d.f.alive(b)).wait
	first := len(types) - len(captured)
	for i, id := range captured {
		sc.values[id] = fmt.Sprintf("arg%d", first+i)
	}
	for i, p := range b.Params { // the counter comes second, so that the result comes first
		sc.values[p] = []string{"arg1", "arg0"}[i]
	}
	rets := []string{d.body(sc, b)}
	if first > 0 {
		in := sc.drawing(d.s)
		rets = append(rets, in.op("AddV2", Int, "arg1", in.constant(intOf(1))))
		for i := range captured {
			rets = append(rets, fmt.Sprintf("arg%d", first+i))
		}
	}
	var done []string
	for _, c := range d.ends(b) {
		done = append(done, c[1:])
	}
	return d.define(fmt.Sprintf("f%d_%d", d.s.ID, index), sc.nodes.list, types, rets, types[:len(rets)*min(first, 1)], done)
}

// condition draws the condition of a functional loop.
func (d *drawing) condition(types []Type) string {
	sc := &scope{drawer: d.drawer, nodes: &nodes{}, values: map[int]string{}, outer: d.scope}
	in := sc.drawing(d.s)
	v := in.op("Less", Int, "arg1", in.constant(intOf(int32(d.s.Num&iterationsMask))))
	if d.s.Num&untilFlag != 0 {
		low := in.op("Less", Scalar, in.op("Sum", Scalar, "arg0", in.ints(0, 1)), in.constant(scalarOf(untilSum)))
		v = in.node("LogicalAnd", nil, v, low)
	}
	return d.define(fmt.Sprintf("f%d_cond", d.s.ID), sc.nodes.list, types, []string{v}, []Type{None}, nil)
}

// define adds a function. Its nodes name their inputs by the arguments of their ops. A result of type None is a boolean.
func (d *drawing) define(name string, list []*nodepb.NodeDef, types []Type, rets []string, results []Type, done []string) string {
	f := &functionpb.FunctionDef{Signature: &oppb.OpDef{Name: name, IsStateful: true}, Ret: map[string]string{}, ControlRet: map[string]string{}}
	for i, t := range types {
		f.Signature.InputArg = append(f.Signature.InputArg, &oppb.OpDef_ArgDef{Name: fmt.Sprintf("arg%d", i), Type: t.proto()})
	}
	byName := map[string]*nodepb.NodeDef{}
	for _, n := range list {
		byName[n.Name] = n
	}
	for _, n := range list {
		named := &nodepb.NodeDef{Name: n.Name, Op: n.Op, Device: n.Device, Attr: n.Attr}
		for _, in := range n.Input {
			named.Input = append(named.Input, argumentName(byName, in))
		}
		f.NodeDef = append(f.NodeDef, named)
	}
	for i, r := range rets {
		t := Matrix.proto()
		if i < len(results) {
			if t = results[i].proto(); results[i] == None {
				t = typespb.DataType_DT_BOOL
			}
		}
		ret := fmt.Sprintf("ret%d", i)
		f.Signature.OutputArg = append(f.Signature.OutputArg, &oppb.OpDef_ArgDef{Name: ret, Type: t})
		f.Ret[ret] = argumentName(byName, r)
	}
	for i, n := range done {
		control := fmt.Sprintf("done%d", i)
		f.Signature.ControlOutput = append(f.Signature.ControlOutput, control)
		f.ControlRet[control] = n
	}
	group := d.current()
	group.functions = append(group.functions, f)
	return name
}

// argumentName converts the input of a graph's node to the form in functions.
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
		return fmt.Sprintf("%s:ret%d:%d", name, index, 0) // the result of a function
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
