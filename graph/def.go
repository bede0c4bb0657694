package graph

import (
	"slices"
	"strconv"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	"google.golang.org/protobuf/proto"
)

// Def returns the graph as a GraphDef without its functions, which Library.Proto returns. A node's device is the assigned one, or else the
// requested one. The message shares the nodes' attributes and must not be changed.
func (g *Graph) Def() *graphpb.GraphDef {
	def := &graphpb.GraphDef{Node: make([]*nodepb.NodeDef, len(g.Nodes)), Versions: &versionspb.VersionDef{Producer: g.Producer}}
	nodes := make([]nodepb.NodeDef, len(g.Nodes))
	for i, n := range g.Nodes {
		n.fill(&nodes[i])
		def.Node[i] = &nodes[i]
	}
	return def
}

// Proto returns the node as a NodeDef, which shares its attributes.
func (n *Node) Proto() *nodepb.NodeDef {
	def := &nodepb.NodeDef{}
	n.fill(def)
	return def
}

func (n *Node) fill(def *nodepb.NodeDef) {
	def.Name, def.Op, def.Device, def.Attr, def.ExperimentalDebugInfo = n.Name, n.Op, n.Assigned, n.Attrs, n.Origin
	if def.Device == "" {
		def.Device = n.Requested
	}
	if len(n.Inputs)+len(n.Controls) == 0 {
		return
	}
	def.Input = make([]string, 0, len(n.Inputs)+len(n.Controls))
	for _, in := range n.Inputs {
		def.Input = append(def.Input, in.String())
	}
	for _, c := range n.Controls {
		def.Input = append(def.Input, "^"+c.Name)
	}
}

// String returns the output as a node's input names it: "name" or "name:index".
func (o Output) String() string {
	if o.Index == 0 {
		return o.Node.Name
	}
	return o.Node.Name + ":" + strconv.Itoa(o.Index)
}

// Contains reports whether g already has equal copies of all nodes and functions of def, that is, whether def was used for an Extend
// before. A client repeats a request if the reply was lost.
func (g *Graph) Contains(def *graphpb.GraphDef) bool {
	for _, d := range def.GetNode() {
		if n := g.Lookup(d.GetName()); n == nil || !n.equals(d) {
			return false
		}
	}
	for _, f := range def.GetLibrary().GetFunction() {
		if have := g.Library.Functions[f.GetSignature().GetName()]; have == nil || !equalFunctions(have, f) {
			return false
		}
	}
	for _, grad := range def.GetLibrary().GetGradient() {
		if have, ok := g.Library.Gradients[grad.GetFunctionName()]; !ok || have != grad.GetGradientFunc() {
			return false
		}
	}
	return true
}

// equals reports whether building def would yield n.
func (n *Node) equals(def *nodepb.NodeDef) bool {
	if n.Lowered != nil {
		n = n.Lowered
	}
	if n.Op != def.GetOp() || n.Requested != def.GetDevice() || !n.equalInputs(def.GetInput()) {
		return false
	}
	given := 0
	for name, v := range def.GetAttr() {
		have, ok := n.Attrs[name]
		// An omitted list became an empty one.
		if !ok || !proto.Equal(have, v) && (v.GetValue() != nil || have.GetList() == nil || proto.Size(have.GetList()) > 0) {
			return false
		}
		given++
	}
	if given == len(n.Attrs) {
		return true
	}
	for _, a := range n.Def.GetAttr() {
		if _, ok := def.GetAttr()[a.Name]; !ok && a.DefaultValue != nil && proto.Equal(n.Attrs[a.Name], a.DefaultValue) {
			given++
		}
	}
	return given == len(n.Attrs)
}

// equalInputs reports whether the inputs are equal in order, and the controls as sets.
func (n *Node) equalInputs(inputs []string) bool {
	if len(inputs) < len(n.Inputs)+len(n.Controls) {
		return false
	}
	for i, in := range n.Inputs {
		e, ok := parseInput(inputs[i], false)
		if !ok || e.control || e.node != in.Node.Name || e.index != in.Index {
			return false
		}
	}
	have := make([]string, len(n.Controls))
	for i, c := range n.Controls {
		have[i] = "^" + c.Name
	}
	want := slices.Clone(inputs[len(n.Inputs):])
	slices.Sort(have)
	slices.Sort(want)
	return slices.Equal(have, slices.Compact(want))
}

// equalNodes reports whether two NodeDefs are equal, apart from purely descriptive fields.
func equalNodes(a, b *nodepb.NodeDef) bool {
	if a.GetName() != b.GetName() || a.GetOp() != b.GetOp() || a.GetDevice() != b.GetDevice() ||
		!slices.Equal(a.GetInput(), b.GetInput()) || len(a.GetAttr()) != len(b.GetAttr()) {
		return false
	}
	for name, v := range a.GetAttr() {
		if w, ok := b.GetAttr()[name]; !ok || !proto.Equal(v, w) {
			return false
		}
	}
	return true
}
