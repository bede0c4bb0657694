package graph

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// FunctionGraph is a function's body for particular values of its attributes.
type FunctionGraph struct {
	*Graph
	// Signature is the function's declaration.
	Signature *OpDef
	// Args are the _Arg nodes and Rets the _Retval nodes, by index; an argument of the signature that stands for several tensors has one
	// node for each. ControlRets are nodes that must have run when the function returns.
	Args, Rets, ControlRets []*Node
}

// Instantiate returns the graph of a function for a call's attribute values. Arguments become _Arg nodes and results _Retval nodes.
// Placeholders in attributes are replaced by the call's values or the signature's defaults. Nodes that have no effect and that no result
// needs are dropped.
//
// The name SymbolicGradient stands for the gradient of the function named by the attribute f.
//
// Errors name the function: NOT_FOUND for a function or op that does not exist, INVALID_ARGUMENT for a body that is not a valid graph.
func (l *Library) Instantiate(name string, attrs Attrs) (*FunctionGraph, error) {
	if name == gradientOp {
		f, err := attrs.Func("f")
		if err != nil {
			return nil, err
		}
		return l.gradient(f)
	}
	f, ok := l.Functions[name]
	if !ok {
		return nil, status.Errorf(status.NotFound, "Function %s is not defined.", name)
	}
	g, err := l.instantiate(f, attrs)
	if err != nil {
		e := *status.From(err)
		e.Message += "; in function '" + name + "'"
		return nil, &e
	}
	return g, nil
}

func (l *Library) instantiate(f *functionpb.FunctionDef, attrs Attrs) (*FunctionGraph, error) {
	sig, err := l.lookup(f.GetSignature().GetName())
	if err != nil {
		return nil, err
	}
	in := &instance{library: l, def: f, sig: sig, args: map[string][]string{}, body: map[string]*bodyNode{}}
	if err := in.bind(attrs); err != nil {
		return nil, err
	}
	for _, pass := range []func() error{in.makeArgs, in.readBody, in.makeBody, in.makeRets} {
		if err := pass(); err != nil {
			return nil, err
		}
	}
	g, err := build(&Graph{Library: l}, &graphpb.GraphDef{Node: in.nodes})
	if err != nil {
		return nil, err
	}
	return in.finish(g)
}

// instance is a function being instantiated.
type instance struct {
	library *Library
	def     *functionpb.FunctionDef
	sig     *signature
	attrs   Attrs                // the call's values and the signature's defaults
	vals    []*attrpb.AttrValue  // the signature's attribute values, by position
	args    map[string][]string  // an argument's _Arg nodes
	body    map[string]*bodyNode // by name
	nodes   []*nodepb.NodeDef
	numArgs int
	numRets int
	inputs  int // of the body's nodes
	handed  int // bytes of attributes; see admit
}

// A short body can stand for a long graph, since one name may stand for many tensors. These limits bound what a client can build from a
// small message.
const (
	maxFunctionArgs   = 1 << 16
	maxFunctionInputs = 1 << 22
)

// bodyNode is a node of the body: its op, its attributes and the offset of each output argument.
type bodyNode struct {
	sig    *signature
	attrs  Attrs
	starts []int // one more than outputs: the last is the number of tensors
}

// bind checks the call's attributes. Those that the signature does not declare are kept unchanged.
func (in *instance) bind(attrs Attrs) error {
	in.vals = make([]*attrpb.AttrValue, len(in.sig.attrs))
	in.attrs = make(Attrs, len(attrs)+len(in.sig.attrs))
	maps.Copy(in.attrs, attrs)
	for i := range in.sig.attrs {
		spec := &in.sig.attrs[i]
		v := in.attrs[spec.def.Name]
		if v == nil {
			v = spec.def.DefaultValue
		}
		if v == nil {
			return status.Errorf(status.NotFound, "Attr %s is not found from %s", spec.def.Name, summarizeOp(in.sig.def))
		}
		if err := spec.check(v); err != nil {
			return err
		}
		in.vals[i], in.attrs[spec.def.Name] = v, v
	}
	return nil
}

// makeArgs adds the _Arg nodes. A function may declare that its int32 arguments are in device memory, but that makes no difference here:
// the kernels decide where tensors are.
func (in *instance) makeArgs() error {
	for i := range in.sig.inputs {
		arg := &in.sig.inputs[i]
		types, err := in.argTypes(arg)
		if err != nil {
			return err
		}
		if _, ok := in.args[arg.name]; ok {
			return status.InvalidArgumentf("Duplicated arg name: %s", arg.name)
		}
		names := make([]string, len(types))
		for k, t := range types {
			names[k] = arg.name
			if len(types) > 1 {
				names[k] += "_" + strconv.Itoa(k)
			}
			n := boundaryDef("_Arg", names[k], t, in.numArgs)
			in.numArgs++
			for attr, v := range in.def.GetArgAttr()[uint32(i)].GetAttr() {
				if _, ok := n.Attr[attr]; !ok {
					n.Attr[attr] = v
				}
			}
			if id, ok := in.def.GetResourceArgUniqueId()[uint32(i)]; ok {
				n.Attr["_resource_arg_unique_id"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: int64(id)}}
			}
			in.nodes = append(in.nodes, n)
		}
		in.args[arg.name] = names
	}
	return nil
}

// argTypes returns the types of the tensors that an argument of the signature stands for.
func (in *instance) argTypes(arg *argSpec) ([]tensor.DType, error) {
	if arg.ref {
		return nil, status.Unimplementedf("Argument '%s' is a reference, which functions cannot pass", arg.name)
	}
	n, err := arg.count(in.vals, maxFunctionArgs)
	if err != nil {
		return nil, status.InvalidArgumentf("%v", err)
	}
	return arg.appendTypes(make([]tensor.DType, 0, n), in.vals), nil
}

// isBoundary reports whether an op stands for an argument or result of a function.
func isBoundary(op string) bool {
	switch op {
	case "_Arg", "_DeviceArg", "_Retval", "_DeviceRetval":
		return true
	}
	return false
}

func boundaryDef(op, name string, t tensor.DType, index int) *nodepb.NodeDef {
	return &nodepb.NodeDef{Name: name, Op: op, Attr: map[string]*attrpb.AttrValue{
		"T":     {Value: &attrpb.AttrValue_Type{Type: t.Proto()}},
		"index": {Value: &attrpb.AttrValue_I{I: int64(index)}},
	}}
}

// readBody finds the outputs of the body's nodes, which inputs refer to by argument name.
func (in *instance) readBody() error {
	for _, def := range in.def.GetNodeDef() {
		if isBoundary(def.GetOp()) {
			return status.AtNode(status.InvalidArgumentf("A function's body has a node of op %s, whose index stands for no argument or result "+
				"of the signature: the runtime alone makes such nodes", def.GetOp()), def.GetName())
		}
		sig, err := in.library.lookup(def.GetOp())
		if err != nil {
			return status.AtNode(err, def.GetName())
		}
		n := &bodyNode{sig: sig}
		if n.attrs, err = in.substitute(def.GetAttr()); err != nil {
			return status.AtNode(err, def.GetName())
		}
		vals := make([]*attrpb.AttrValue, len(sig.attrs))
		if n.attrs, err = sig.checkAttrs(n.attrs, vals, def.GetName()); err != nil {
			return err
		}
		n.starts = make([]int, 1, len(sig.outputs)+1)
		for i := range sig.outputs {
			count, err := sig.outputs[i].count(vals, maxArgs)
			if err != nil {
				return status.AtNode(status.InvalidArgumentf("%v", err), def.GetName())
			}
			n.starts = append(n.starts, n.starts[i]+count)
		}
		in.body[def.GetName()] = n
	}
	return nil
}

// makeBody adds the body's nodes.
func (in *instance) makeBody() error {
	for _, def := range in.def.GetNodeDef() {
		n := &nodepb.NodeDef{Name: def.GetName(), Op: def.GetOp(), Device: def.GetDevice(), Attr: in.body[def.GetName()].attrs, ExperimentalDebugInfo: def.GetExperimentalDebugInfo()}
		for i, input := range def.GetInput() {
			sources, ok := in.resolve(input)
			if !ok {
				return status.AtNode(status.InvalidArgumentf("input[%d] == '%s' is not found.", i, input), def.GetName())
			}
			n.Input = append(n.Input, sources...)
			if in.inputs += len(sources); in.inputs > maxFunctionInputs {
				return status.InvalidArgumentf("A function's nodes have more than %d inputs", maxFunctionInputs)
			}
		}
		in.nodes = append(in.nodes, n)
	}
	return nil
}

// resolve converts an input from the form used in function bodies to the form used in graphs: an argument ("arg", "arg:i"), an output
// argument of a node ("node:out", "node:out:i") or "^node".
func (in *instance) resolve(input string) ([]string, bool) {
	if name, ok := strings.CutPrefix(input, "^"); ok {
		if nodes, ok := in.args[name]; ok {
			out := make([]string, len(nodes))
			for i, n := range nodes {
				out[i] = "^" + n
			}
			return out, true
		}
		_, ok := in.body[name]
		return []string{input}, ok
	}
	name, rest, more := strings.Cut(input, ":")
	if nodes, ok := in.args[name]; ok {
		if !more {
			return nodes, true
		}
		i, ok := position(rest, len(nodes))
		if !ok {
			return nil, false
		}
		return nodes[i : i+1], true
	}
	n, ok := in.body[name]
	if !ok || !more {
		return nil, false
	}
	arg, index, one := strings.Cut(rest, ":")
	i := n.sig.output(arg)
	if i == none {
		return nil, false
	}
	lo, hi := n.starts[i], n.starts[i+1]
	if one {
		k, ok := position(index, hi-lo)
		if !ok {
			return nil, false
		}
		lo, hi = lo+k, lo+k+1
	}
	out := make([]string, 0, hi-lo)
	for k := lo; k < hi; k++ {
		out = append(out, name+":"+strconv.Itoa(k))
	}
	return out, true
}

// position parses an index below n.
func position(s string, n int) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && i < n
}

// makeRets adds the _Retval nodes.
func (in *instance) makeRets() error {
	for i := range in.sig.outputs {
		ret := &in.sig.outputs[i]
		types, err := in.argTypes(ret)
		if err != nil {
			return err
		}
		from, ok := in.def.GetRet()[ret.name]
		if !ok {
			return status.InvalidArgumentf("Return %s missing.", ret.name)
		}
		sources, ok := in.resolve(from)
		if !ok || strings.HasPrefix(from, "^") {
			return status.InvalidArgumentf("Return %s -> %s is not found.", ret.name, from)
		}
		if len(sources) != len(types) {
			return status.InvalidArgumentf("Invalid ret types %s : %d tensors vs. %d of %s", ret.name, len(types), len(sources), from)
		}
		for k, t := range types {
			name := ret.name + "_RetVal"
			if len(types) > 1 {
				name += "_" + strconv.Itoa(k)
			}
			n := boundaryDef("_Retval", name, t, in.numRets)
			in.numRets++
			n.Input = []string{sources[k]}
			in.nodes = append(in.nodes, n)
		}
	}
	return nil
}

// finish selects the nodes that callers refer to and drops unused ones.
func (in *instance) finish(g *Graph) (*FunctionGraph, error) {
	out := &FunctionGraph{Signature: in.sig.def, Args: slices.Clone(g.Nodes[:in.numArgs]), Rets: slices.Clone(g.Nodes[len(g.Nodes)-in.numRets:])}
	rets := in.def.GetControlRet()
	order := slices.Clone(in.sig.def.GetControlOutput())
	order = append(order, slices.Sorted(maps.Keys(rets))...)
	seen := map[*Node]bool{}
	for _, name := range order {
		node, ok := rets[name]
		if !ok {
			return nil, status.InvalidArgumentf("Control output %s missing.", name)
		}
		n := g.Lookup(node)
		if n == nil {
			return nil, status.InvalidArgumentf("Control output %s -> %s is not found.", name, node)
		}
		if !seen[n] {
			seen[n] = true
			out.ControlRets = append(out.ControlRets, n)
		}
	}
	out.Graph = New(needed(g, out), in.library, 0)
	return out, nil
}

// needed returns the nodes of a body that may have an effect, and everything that they and the results depend on.
func needed(g *Graph, f *FunctionGraph) []*Node {
	keep := make([]bool, len(g.Nodes))
	var queue []*Node
	mark := func(n *Node) {
		if !keep[n.ID] {
			keep[n.ID] = true
			queue = append(queue, n)
		}
	}
	for _, list := range [][]*Node{f.Args, f.Rets, f.ControlRets} {
		for _, n := range list {
			mark(n)
		}
	}
	for _, n := range g.Nodes {
		if HasEffect(n) {
			mark(n)
		}
	}
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for i := range len(n.Inputs) + len(n.Controls) {
			mark(n.before(i))
		}
	}
	return slices.DeleteFunc(slices.Clone(g.Nodes), func(n *Node) bool { return !keep[n.ID] })
}

// HasEffect reports whether a node of a body must run even if nothing depends on it: it is stateful (except for reads that are merely
// declared so), or part of a loop or conditional.
func HasEffect(n *Node) bool {
	switch n.Op {
	case "ResourceGather", "ResourceGatherNd":
		return false
	case "Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration":
		return true
	}
	return n.Def.GetIsStateful()
}
