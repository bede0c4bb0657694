package graph

import (
	"slices"
	"strconv"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// gradientOp is the op that computes a function's gradient. A node of it names the function in its attribute f, and takes the function's
// arguments and the gradients of its results.
const gradientOp = "SymbolicGradient"

// gradient returns the function that computes the gradients of f's arguments from the arguments and the gradients of the results. That is
// the gradient function registered in the library, or else one built by backpropagation through the body of f, or through f itself if it
// is an op. Arguments that no result depends on get zeros.
//
// NOT_FOUND means that an op has no gradient here; gradientsOf lists the ops that have one.
func (l *Library) gradient(f *FunctionRef) (*FunctionGraph, error) {
	if own, ok := l.Gradients[f.Name]; ok {
		return l.Instantiate(own, f.Attrs)
	}
	var body *FunctionGraph
	var err error
	if _, ok := l.Functions[f.Name]; ok {
		body, err = l.Instantiate(f.Name, f.Attrs)
	} else {
		body, err = l.primitive(f)
	}
	if err != nil {
		return nil, err
	}
	b := &backprop{library: l, body: body, pending: make([]int, len(body.Nodes)), grads: map[Output][]value{}, nodes: body.Graph.Def().Node}
	return b.run()
}

// primitive wraps an op in a function.
func (l *Library) primitive(f *FunctionRef) (*FunctionGraph, error) {
	sig, err := l.lookup(f.Name)
	if err != nil {
		return nil, err
	}
	vals := make([]*attrpb.AttrValue, len(sig.attrs))
	attrs, err := sig.checkAttrs(f.Attrs, vals, f.Name)
	if err != nil {
		return nil, err
	}
	node := &nodepb.NodeDef{Name: f.Name, Op: f.Name, Attr: attrs}
	in := &instance{library: l, sig: sig}
	var nodes []*nodepb.NodeDef
	for i := range sig.inputs {
		count, err := sig.inputs[i].count(vals, maxFunctionArgs)
		if err != nil {
			return nil, status.InvalidArgumentf("%v", err)
		}
		for _, t := range sig.inputs[i].appendTypes(make([]tensor.DType, 0, count), vals) {
			n := boundaryDef("_Arg", "x_"+strconv.Itoa(in.numArgs), t.Base(), in.numArgs)
			in.numArgs++
			nodes = append(nodes, n)
			node.Input = append(node.Input, n.Name)
		}
	}
	nodes = append(nodes, node)
	for i := range sig.outputs {
		count, err := sig.outputs[i].count(vals, maxFunctionArgs)
		if err != nil {
			return nil, status.InvalidArgumentf("%v", err)
		}
		for _, t := range sig.outputs[i].appendTypes(make([]tensor.DType, 0, count), vals) {
			n := boundaryDef("_Retval", "y_"+strconv.Itoa(in.numRets), t.Base(), in.numRets)
			n.Input = []string{f.Name + ":" + strconv.Itoa(in.numRets)}
			in.numRets++
			nodes = append(nodes, n)
		}
	}
	g, err := build(&Graph{Library: l}, &graphpb.GraphDef{Node: nodes})
	if err != nil {
		return nil, err
	}
	return &FunctionGraph{Graph: g, Signature: sig.def, Args: g.Nodes[:in.numArgs], Rets: g.Nodes[len(g.Nodes)-in.numRets:]}, nil
}

// value names a tensor of the graph under construction, in the form of a node's input.
type value string

// backprop builds the gradient of a function's body, as TensorFlow's common_runtime/gradients.cc does: a node is differentiated once all
// its readers have been.
type backprop struct {
	library *Library
	body    *FunctionGraph
	// pending counts, for each node of the body, the edges whose gradients are outstanding.
	pending []int
	// grads holds the gradients of each output that a result depends on; every such output has an entry.
	grads map[Output][]value
	ready []*Node
	nodes []*nodepb.NodeDef
	names int // the next number to use in a name
}

func (b *backprop) run() (*FunctionGraph, error) {
	b.reach()
	args, rets := len(b.body.Args), len(b.body.Rets)
	keep := b.nodes[:0:0]
	for _, n := range b.nodes {
		if n.Op != "_Retval" {
			keep = append(keep, n)
		}
	}
	b.nodes = keep
	for i, ret := range b.body.Rets {
		dy := boundaryDef("_Arg", b.newName("dy"), ret.InTypes[0].Base(), args+i)
		b.nodes = append(b.nodes, dy)
		b.addGradient(ret.Inputs[0], value(dy.Name))
	}
	isArg := make(map[*Node]bool, args)
	for _, a := range b.body.Args {
		isArg[a] = true
	}
	for len(b.ready) > 0 {
		n := b.ready[0]
		b.ready = b.ready[1:]
		if isArg[n] {
			continue
		}
		if err := b.differentiate(n); err != nil {
			return nil, err
		}
	}
	for i, a := range b.body.Args {
		dx, t := b.sum(Output{Node: a})
		ret := boundaryDef("_Retval", b.newName("dx"), t, i)
		ret.Input = []string{string(dx)}
		b.nodes = append(b.nodes, ret)
	}
	g, err := build(&Graph{Library: b.library}, &graphpb.GraphDef{Node: b.nodes})
	if err != nil {
		return nil, err
	}
	out := &FunctionGraph{Signature: b.body.Signature, Args: make([]*Node, args+rets), Rets: make([]*Node, args)}
	for _, n := range g.Nodes {
		at := n.Attrs["index"].GetI()
		switch n.Op {
		case "_Arg":
			err = setAt(out.Args, at, n)
		case "_Retval":
			err = setAt(out.Rets, at, n)
		}
		if err != nil {
			return nil, err
		}
	}
	out.Graph = New(needed(g, out), b.library, 0)
	return out, nil
}

// setAt stores an argument or result at its index.
func setAt(nodes []*Node, at int64, n *Node) error {
	if at < 0 || at >= int64(len(nodes)) || nodes[at] != nil {
		return status.AtNode(status.InvalidArgumentf("%s has index %d, which is not one of the %d of the function or is there twice", n.Op, at, len(nodes)), n.Name)
	}
	nodes[at] = n
	return nil
}

// reach finds the outputs that results depend on, and counts the edges over which each node receives gradients.
func (b *backprop) reach() {
	seen := make([]bool, len(b.body.Nodes))
	queue := slices.Clone(b.body.Rets)
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for i := range n.OutTypes {
			b.grads[Output{n, i}] = nil
		}
		for _, in := range n.Inputs {
			b.pending[in.Node.ID]++
			if !seen[in.Node.ID] {
				seen[in.Node.ID] = true
				queue = append(queue, in.Node)
			}
		}
	}
}

// addGradient delivers a gradient for an output over one of its pending edges; "" means no gradient.
func (b *backprop) addGradient(to Output, v value) {
	if v != "" {
		b.grads[to] = append(b.grads[to], v)
	}
	if b.pending[to.Node.ID]--; b.pending[to.Node.ID] == 0 {
		b.ready = append(b.ready, to.Node)
	}
}

// sum returns an output's gradient and its type: the sum of the gradients received, or zeros.
func (b *backprop) sum(o Output) (value, tensor.DType) {
	t := o.Node.OutTypes[o.Index].Base()
	grads := b.grads[o]
	if t == tensor.Resource {
		t = tensor.Float32
		if len(grads) == 0 {
			read := b.node("ReadVariableOp", Attrs{"dtype": typeOf(t)}, value(o.String()))
			return b.node("ZerosLike", Attrs{"T": typeOf(t)}, read), t
		}
	}
	switch {
	case len(grads) == 0 || t == tensor.Bool:
		return b.node("ZerosLike", Attrs{"T": typeOf(t)}, value(o.String())), t
	case len(grads) == 1:
		return grads[0], t
	}
	return b.node("AddN", Attrs{"T": typeOf(t), "N": intOf(int64(len(grads)))}, grads...), t
}

// differentiate propagates the gradients of a node's outputs to its inputs.
func (b *backprop) differentiate(n *Node) error {
	make, known := gradientsOf[n.Op]
	function := b.library.Functions[n.Op] != nil
	if !known && !function && n.Op != gradientOp {
		return status.AtNode(status.Errorf(status.NotFound, "No gradient defined for op: %s. Please see "+
			"https://www.tensorflow.org/code/tensorflow/cc/gradients/README.md for instructions on how to add C++ gradients.", n.Op), n.Name)
	}
	if known && make == nil {
		for _, in := range n.Inputs {
			b.addGradient(in, "")
		}
		return nil
	}
	g := &grad{backprop: b, node: n}
	for _, in := range n.Inputs {
		g.x = append(g.x, value(in.String()))
	}
	for i := range n.OutTypes {
		dy, _ := b.sum(Output{n, i})
		g.dy = append(g.dy, dy)
	}
	if t, ok := n.Attrs["T"]; ok {
		g.t = t
	}
	var dx []value
	var err error
	if known {
		dx, err = make(g)
	} else {
		dx = g.call()
	}
	if err != nil {
		return status.AtNode(err, n.Name)
	}
	if len(dx) != len(n.Inputs) {
		return status.Internalf("The gradient of %s has %d values for %d inputs", n.Op, len(dx), len(n.Inputs))
	}
	for i, in := range n.Inputs {
		b.addGradient(in, dx[i])
	}
	return nil
}

// newName returns a name that no node of the body has.
func (b *backprop) newName(what string) string {
	for b.names = max(b.names, len(b.nodes)); ; b.names++ {
		if name := "_gradient/" + what + "_" + strconv.Itoa(b.names); b.body.Lookup(name) == nil {
			b.names++
			return name
		}
	}
}

// node adds a node and returns its first output.
func (b *backprop) node(op string, attrs Attrs, inputs ...value) value {
	n := &nodepb.NodeDef{Name: b.newName(op), Op: op, Attr: attrs}
	for _, in := range inputs {
		n.Input = append(n.Input, string(in))
	}
	b.nodes = append(b.nodes, n)
	return value(n.Name)
}

// output returns output i of an added node.
func (v value) output(i int) value { return value(string(v) + ":" + strconv.Itoa(i)) }

func typeOf(t tensor.DType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t.Proto()}}
}

func intOf(i int64) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: i}}
}

func boolOf(v bool) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}}
}
