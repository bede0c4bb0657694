package op

import (
	"maps"
	"slices"
	"strings"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
)

// Imported holds the operations of an imported graph.
type Imported struct {
	scope *Scope
	ops   []*Operation
	names map[string]*Operation // by original name
}

// Import adds a graph that was built elsewhere, such as a graph frozen in Python, with its functions. Its nodes get the scope's name
// prefix, the parts of the scope's device that they leave open and, if they have no inputs, the scope's control dependencies. inputs maps
// names of tensors in the imported graph, such as "x:0" or "x", to the tensors that replace them.
//
// Errors are returned and do not become the graph's error: INVALID_ARGUMENT, NOT_FOUND or UNIMPLEMENTED if the message is not a graph of
// ops that Troupe has, or its shapes contradict each other; ALREADY_EXISTS if a name is taken (use a SubScope). On an error, the graph
// does not change. The caller keeps ownership of the message, but must not change it.
func Import(s *Scope, def *graphpb.GraphDef, inputs map[string]Output) (*Imported, error) {
	if s.graph.err != nil {
		return nil, s.graph.err
	}
	built, err := graph.Build(def)
	if err != nil {
		return nil, err
	}
	library, err := s.graph.library.Merge(def.GetLibrary())
	if err != nil {
		return nil, err
	}
	im := &importer{scope: s, graph: built, nodes: built.Nodes, ops: make([]*Operation, len(built.Nodes))}
	if err := im.replace(inputs); err != nil {
		return nil, err
	}
	for _, n := range im.nodes {
		if err := im.declare(n); err != nil {
			return nil, err
		}
	}
	for _, n := range im.nodes {
		if err := im.connect(n); err != nil {
			return nil, err
		}
	}
	for _, o := range im.order() {
		if err := o.infer(); err != nil {
			return nil, status.AtNode(err, o.name)
		}
	}
	out := &Imported{scope: s, ops: im.ops, names: make(map[string]*Operation, len(im.ops))}
	for i, n := range im.nodes {
		o := im.ops[i]
		out.names[n.Name] = o
		s.graph.byName[o.name] = o
		s.reserveName(o.name)
	}
	s.graph.ops = append(s.graph.ops, im.ops...)
	s.graph.library = library
	if def.GetVersions() != nil {
		s.graph.producer = min(s.graph.producer, def.GetVersions().GetProducer())
	}
	return out, nil
}

// Operations returns the imported operations, in the order of their graph.
func (im *Imported) Operations() []*Operation { return slices.Clone(im.ops) }

// Operation returns the operation that had the given name in its own graph, or nil.
func (im *Imported) Operation(name string) *Operation { return im.names[name] }

// Output returns the tensor that had the given name in its own graph, such as "x:0" or "x". If there is none, it sets the graph's error.
func (im *Imported) Output(name string) Output {
	node, index, err := graph.ParseTensorName(name)
	if err != nil {
		im.scope.fail(err)
		return Output{}
	}
	o := im.names[node]
	if o == nil || index >= o.NumOutputs() {
		im.scope.fail(status.Errorf(status.NotFound, "The imported graph has no tensor %s", name))
		return Output{}
	}
	return Output{o, index}
}

// reserveName marks a given name and its prefixes as used.
func (s *Scope) reserveName(name string) {
	for name = strings.ToLower(name); ; {
		if _, ok := s.graph.taken[name]; !ok {
			s.graph.taken[name] = 0
		}
		i := strings.LastIndexByte(name, '/')
		if i <= 0 {
			return
		}
		name = name[:i]
	}
}

// importer converts nodes to operations.
type importer struct {
	scope    *Scope
	graph    *graph.Graph
	nodes    []*graph.Node
	ops      []*Operation // by node
	replaced map[graph.Output]Output
}

// replace records the tensors that replace others.
func (im *importer) replace(inputs map[string]Output) error {
	im.replaced = make(map[graph.Output]Output, len(inputs))
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		node, index, err := graph.ParseTensorName(name)
		if err != nil {
			return err
		}
		n := im.graph.Lookup(node)
		if n == nil || index >= len(n.OutTypes) {
			return status.Errorf(status.NotFound, "The graph has no tensor %s", name)
		}
		t := inputs[name]
		if t.Op == nil {
			return status.InvalidArgumentf("The replacement of %s is not a tensor: the operation that yields it was never added", name)
		}
		if t, err = im.scope.graph.enter(t); err != nil {
			return err
		}
		if want := n.OutTypes[index]; t.DType() != want && t.DType().Base() != want {
			return status.InvalidArgumentf("%s, which replaces %s, is of type %v, not %v", t.Name(), name, t.DType(), want)
		}
		im.replaced[graph.Output{Node: n, Index: index}] = t
	}
	return nil
}

// declare adds the operation of a node, without its inputs.
func (im *importer) declare(n *graph.Node) error {
	s := im.scope
	o := &Operation{graph: s.graph, name: s.prefix + n.Name, op: n.Op, decl: n.Def, types: n.OutTypes, shapes: make([]shape.Shape, len(n.OutTypes))}
	if s.graph.byName[o.name] != nil {
		return status.Errorf(status.AlreadyExists, "The graph has an operation %s already: import into a SubScope", o.name)
	}
	device, err := place.Parse(n.Requested)
	if err != nil {
		return status.AtNode(err, n.Name)
	}
	o.spec = s.device.Override(device)
	o.device = o.spec.String()
	o.attrs = im.attrs(n)
	at := 0
	for _, c := range lengths(n.Def.GetOutputArg(), n.Attrs) {
		o.args = append(o.args, [2]int{at, at + c})
		at += c
	}
	o.counts = lengths(n.Def.GetInputArg(), n.Attrs)
	im.ops[n.ID] = o
	return nil
}

// attrs returns a node's attributes, in which references to other nodes have the new names.
func (im *importer) attrs(n *graph.Node) graph.Attrs {
	class, err := n.Attrs.List("_class")
	if im.scope.prefix == "" || err != nil {
		return n.Attrs
	}
	attrs := maps.Clone(n.Attrs)
	attrs["_class"] = mustAttr(each(class.GetS(), func(c []byte) string {
		if name, ok := strings.CutPrefix(string(c), "loc:@"); ok && im.graph.Lookup(name) != nil {
			return "loc:@" + im.scope.prefix + name
		}
		return string(c)
	}))
	return attrs
}

// lengths returns how many tensors each argument stands for.
func lengths(args []*oppb.OpDef_ArgDef, attrs graph.Attrs) []int {
	out := make([]int, len(args))
	for i, a := range args {
		switch {
		case a.NumberAttr != "":
			out[i] = int(attrs[a.NumberAttr].GetI())
		case a.TypeListAttr != "":
			out[i] = len(attrs[a.TypeListAttr].GetList().GetType())
		default:
			out[i] = 1
		}
	}
	return out
}

// connect sets the inputs of a node's operation.
func (im *importer) connect(n *graph.Node) error {
	o := im.ops[n.ID]
	for k, in := range n.Inputs {
		t, ok := im.replaced[in]
		if !ok {
			t = Output{im.ops[in.Node.ID], in.Index}
		}
		if n.InTypes[k].IsRef() && !t.DType().IsRef() {
			return status.AtNode(status.InvalidArgumentf("Input %d has to be a reference to a variable, which %s is not", k, t.Name()), n.Name)
		}
		o.inputs = append(o.inputs, t)
	}
	for _, c := range n.Controls {
		o.controls = append(o.controls, im.ops[c.ID])
	}
	if len(n.Inputs) == 0 {
		for _, c := range im.scope.graph.inside(im.scope.controls) {
			if !slices.Contains(o.controls, c) {
				o.controls = append(o.controls, c)
			}
		}
	}
	return nil
}

// order returns the operations, each after its dependencies. Loops are cut at the NextIteration.
func (im *importer) order() []*Operation {
	var out []*Operation
	waits := make([]int, len(im.nodes))
	users := make([][]int, len(im.nodes))
	for _, n := range im.nodes {
		for _, in := range n.Inputs {
			if op := in.Node.Op; op != "NextIteration" && op != "RefNextIteration" {
				waits[n.ID]++
				users[in.Node.ID] = append(users[in.Node.ID], n.ID)
			}
		}
		if waits[n.ID] == 0 {
			out = append(out, im.ops[n.ID])
		}
	}
	ids := make(map[*Operation]int, len(im.ops))
	for i, o := range im.ops {
		ids[o] = i
	}
	for i := 0; i < len(out); i++ {
		for _, u := range users[ids[out[i]]] {
			if waits[u]--; waits[u] == 0 {
				out = append(out, im.ops[u])
			}
		}
	}
	return out
}
