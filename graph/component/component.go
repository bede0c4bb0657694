// Package component turns a device's part of a partitioned graph into a function, in the form in which TensorFlow's tasks run the parts of
// a function that spreads over several of them: the part's _Arg and _Retval nodes become the function's signature, and everything that
// must run although no result depends on it is a control output.
package component

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/partition"
	"github.com/troupe-run/troupe/graph/status"
)

// Component is a part as a function.
type Component struct {
	Def *functionpb.FunctionDef
	// Args and Rets are the indices of the part's _Arg and _Retval nodes that the function's arguments and results stand for, in order.
	Args, Rets []int
}

// Define returns a part as a function with a name that nothing else has. The function shares the part's attributes. The part does not
// change.
func Define(name string, part *graph.Graph) (*Component, error) {
	d := &definition{Component: Component{Def: &functionpb.FunctionDef{Signature: &oppb.OpDef{Name: name}, Ret: map[string]string{}, ControlRet: map[string]string{}}},
		part: part, args: map[*graph.Node]string{}, read: map[*graph.Node]bool{}, arrived: map[*graph.Node]string{}}
	boundary := map[string][]*graph.Node{}
	for _, n := range part.Nodes {
		if n.Op == "_Arg" || n.Op == "_Retval" {
			boundary[n.Op] = append(boundary[n.Op], n)
		}
	}
	for _, all := range boundary {
		slices.SortFunc(all, func(a, b *graph.Node) int { return cmp.Compare(Index(a), Index(b)) })
	}
	d.defineArgs(part, boundary["_Arg"])
	for _, n := range part.Nodes {
		if err := d.defineNode(n); err != nil {
			return nil, err
		}
	}
	if err := d.defineRets(boundary["_Retval"]); err != nil {
		return nil, err
	}
	d.defineControls(part)
	return &d.Component, nil
}

// Index returns the index of an _Arg or _Retval node.
func Index(n *graph.Node) int { return int(n.Attrs["index"].GetI()) }

// definition is a component being defined.
type definition struct {
	Component
	part    *graph.Graph
	args    map[*graph.Node]string // the names of arguments
	read    map[*graph.Node]bool   // nodes that others depend on
	arrived map[*graph.Node]string // the names of the nodes that are dead if what a _Recv receives is
}

// defineArgs names the arguments. No node may have the name of one: inputs could not be told apart.
func (d *definition) defineArgs(part *graph.Graph, args []*graph.Node) {
	for i, n := range args {
		name := fmt.Sprintf("arg_%d", i)
		for part.Lookup(name) != nil {
			name += "_"
		}
		d.args[n] = name
		d.Args = append(d.Args, Index(n))
		d.Def.Signature.InputArg = append(d.Def.Signature.InputArg, &oppb.OpDef_ArgDef{Name: name, Type: n.OutTypes[0].Proto()})
	}
}

// defineNode adds a node to the body. Colocation was satisfied when the node was placed, and may name nodes of other parts.
func (d *definition) defineNode(n *graph.Node) error {
	for _, c := range n.Controls {
		d.read[c] = true
	}
	for _, in := range n.Inputs {
		d.read[in.Node] = true
	}
	if n.Op == "_Arg" || n.Op == "_Retval" {
		return nil
	}
	def := &nodepb.NodeDef{Name: n.Name, Op: n.Op, Device: n.Assigned, Attr: n.Attrs, ExperimentalDebugInfo: n.Origin}
	if slices.ContainsFunc(ofThisGraph, func(name string) bool { return n.Attrs[name] != nil }) {
		def.Attr = maps.Clone(n.Attrs)
		maps.DeleteFunc(def.Attr, func(name string, _ *attrpb.AttrValue) bool { return slices.Contains(ofThisGraph, name) })
	}
	for _, in := range n.Inputs {
		name, err := d.source(in)
		if err != nil {
			return status.AtNode(err, n.Name)
		}
		def.Input = append(def.Input, name)
	}
	for _, c := range n.Controls {
		name, err := d.before(c)
		if err != nil {
			return status.AtNode(err, n.Name)
		}
		def.Input = append(def.Input, "^"+name)
	}
	d.Def.NodeDef = append(d.Def.NodeDef, def)
	d.Def.Signature.IsStateful = d.Def.Signature.IsStateful || n.Def.GetIsStateful()
	return nil
}

// before returns the name for control edges from a node. In TensorFlow, a _Recv that receives a dead value is not dead itself: what waits for it would
// run, such as the assignments of a loop's body after the last iteration. An Identity of the value is dead.
func (d *definition) before(c *graph.Node) (string, error) {
	if arg, ok := d.args[c]; ok {
		return arg, nil
	}
	if partition.KindOf(c.Op) != partition.Recv {
		return c.Name, nil
	}
	name, ok := d.arrived[c]
	if ok {
		return name, nil
	}
	for name = c.Name + "/_arrived"; d.part.Lookup(name) != nil; {
		name += "_"
	}
	d.arrived[c] = name
	value, err := d.source(graph.Output{Node: c})
	if err != nil {
		return "", err
	}
	d.Def.NodeDef = append(d.Def.NodeDef, &nodepb.NodeDef{Name: name, Op: "Identity", Device: c.Assigned, Input: []string{value},
		Attr: map[string]*attrpb.AttrValue{"T": {Value: &attrpb.AttrValue_Type{Type: c.OutTypes[0].Proto()}}}, ExperimentalDebugInfo: c.Origin})
	return name, nil
}

// ofThisGraph are attributes that have no meaning in another graph.
var ofThisGraph = []string{"_class", graph.UserNodeAttr, graph.EndpointAttr}

// source returns an output as inputs in function bodies name it: an argument, or "node:output:i".
func (d *definition) source(o graph.Output) (string, error) {
	if arg, ok := d.args[o.Node]; ok {
		return arg, nil
	}
	i := o.Index
	for _, out := range o.Node.Def.GetOutputArg() {
		n := 1
		switch {
		case out.GetNumberAttr() != "":
			n = int(o.Node.Attrs[out.GetNumberAttr()].GetI())
		case out.GetTypeListAttr() != "":
			n = len(o.Node.Attrs[out.GetTypeListAttr()].GetList().GetType())
		}
		if i < n {
			return fmt.Sprintf("%s:%s:%d", o.Node.Name, out.GetName(), i), nil
		}
		i -= n
	}
	return "", status.Internalf("{{node %s}} (%s) does not declare its output %d", o.Node.Name, o.Node.Op, o.Index)
}

// defineRets adds the results.
func (d *definition) defineRets(rets []*graph.Node) error {
	for i, n := range rets {
		name := fmt.Sprintf("ret_%d", i)
		from, err := d.source(n.Inputs[0])
		if err != nil {
			return err
		}
		d.Def.Ret[name] = from
		d.Rets = append(d.Rets, Index(n))
		d.Def.Signature.OutputArg = append(d.Def.Signature.OutputArg, &oppb.OpDef_ArgDef{Name: name, Type: n.InTypes[0].Proto()})
	}
	return nil
}

// defineControls makes control outputs of the nodes with state and of those that nothing depends on.
func (d *definition) defineControls(part *graph.Graph) {
	for _, n := range part.Nodes {
		if n.Op == "_Arg" || n.Op == "_Retval" || d.read[n] && !n.Def.GetIsStateful() {
			continue
		}
		d.Def.Signature.ControlOutput = append(d.Def.Signature.ControlOutput, n.Name)
		d.Def.ControlRet[n.Name] = n.Name
	}
}
