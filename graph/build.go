package graph

import (
	"errors"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Limits on a session's graph. A graph of that size takes about 1 KB per node, and a process has many sessions.
const (
	MaxNodes     = 1 << 23
	MaxFunctions = 1 << 22
)

// graphVersion is the version of GraphDef that TensorFlow 2.21 reads and writes.
const graphVersion = 2474

// Build returns the graph of a client's GraphDef. The graph keeps parts of the message, which must not be changed afterwards. Errors have
// TensorFlow's codes and name the node: INVALID_ARGUMENT for a malformed message, NOT_FOUND for an op that does not exist, UNIMPLEMENTED
// for one that was removed.
func Build(def *graphpb.GraphDef) (*Graph, error) { return BuildChecked(def, nil) }

// BuildChecked is like Build, but calls check from time to time and stops if it returns an error.
func BuildChecked(def *graphpb.GraphDef, check func() error) (*Graph, error) {
	return buildChecked(&Graph{Library: &Library{}}, def, false, check)
}

// Rebuild returns the graph of a GraphDef made by Graph.Def. Its nodes may have names reserved for the runtime, and their devices are
// those that placement assigned.
func Rebuild(def *graphpb.GraphDef) (*Graph, error) {
	g, err := build(&Graph{Library: &Library{}}, def)
	if err != nil {
		return nil, err
	}
	for _, n := range g.Nodes {
		n.Assigned = n.Requested
	}
	return g, nil
}

// Extend returns g with the nodes and functions of def added, at a cost that depends only on def. The new graph shares g's nodes. g does
// not change, even on an error. Adding a node that g already has is INVALID_ARGUMENT.
func (g *Graph) Extend(def *graphpb.GraphDef) (*Graph, error) { return g.ExtendChecked(def, nil) }

// ExtendChecked is like Extend, but calls check from time to time and stops if it returns an error.
func (g *Graph) ExtendChecked(def *graphpb.GraphDef, check func() error) (*Graph, error) {
	return buildChecked(g, def, false, check)
}

// builder turns one GraphDef into nodes that follow those of base.
type builder struct {
	base     *Graph
	library  *Library
	internal bool
	producer int32
	defs     []*nodepb.NodeDef

	nodes  []Node
	sigs   []*signature
	byName map[string]*Node
	// cyclic is whether a node has itself or a later node as an input, which never happens in an ordered graph without loops.
	cyclic bool

	ops      map[string]*signature
	devices  map[string]string
	vals     []*attrpb.AttrValue
	types    typer
	check    func() error
	inputs   []Output
	controls []*Node
}

// build is like Build, but accepts the runtime's own nodes.
func build(base *Graph, def *graphpb.GraphDef) (*Graph, error) {
	return buildChecked(base, def, true, nil)
}

func buildChecked(base *Graph, def *graphpb.GraphDef, internal bool, check func() error) (*Graph, error) {
	if n := len(base.Nodes) + len(def.GetNode()); n > MaxNodes {
		return nil, status.Errorf(status.ResourceExhausted, "The graph has %d nodes, which is above the limit of %d", n, MaxNodes)
	}
	if n := len(base.Library.Functions) + len(def.GetLibrary().GetFunction()); n > MaxFunctions {
		return nil, status.Errorf(status.ResourceExhausted, "The graph has %d functions, which is above the limit of %d", n, MaxFunctions)
	}
	if !internal {
		for _, f := range def.GetLibrary().GetFunction() {
			for _, n := range f.GetNodeDef() {
				if err := checkOwn(f.GetSignature().GetName()+"/"+n.GetName(), n.GetAttr()); err != nil {
					return nil, err
				}
			}
		}
	}
	b := &builder{check: Now(check), base: base, internal: internal, defs: def.GetNode(), producer: def.GetVersions().GetProducer(),
		ops: map[string]*signature{}, devices: map[string]string{"": ""}}
	if err := b.checkVersions(def.GetVersions()); err != nil {
		return nil, err
	}
	var err error
	if b.library, err = base.Library.Merge(def.GetLibrary()); err != nil {
		return nil, err
	}
	for _, pass := range []func() error{b.declare, b.describe, b.connect, b.checkCycles} {
		if err := pass(); err != nil {
			return nil, err
		}
	}
	return b.graph(def.GetVersions() != nil), nil
}

func (b *builder) checkVersions(v *versionspb.VersionDef) error {
	if v.GetMinConsumer() > graphVersion {
		return status.InvalidArgumentf("GraphDef min consumer version %d above current version %d for TensorFlow 2.21.  Please upgrade TensorFlow.", v.GetMinConsumer(), graphVersion)
	}
	if v.GetProducer() < 0 {
		return status.InvalidArgumentf("GraphDef producer version %d below min producer 0 supported by TensorFlow 2.21.  Please regenerate your graph.", v.GetProducer())
	}
	for _, bad := range v.GetBadConsumers() {
		if bad == graphVersion {
			return status.InvalidArgumentf("GraphDef disallows consumer version %d.  Please upgrade TensorFlow: this version is likely buggy.", bad)
		}
	}
	if b.base.versioned {
		if b.producer != b.base.Producer {
			return status.InvalidArgumentf("Can't extend GraphDef at version %d with graph at version %d", b.base.Producer, b.producer)
		}
	}
	return nil
}

// declare makes the nodes and checks their names.
func (b *builder) declare() error {
	b.nodes = make([]Node, len(b.defs))
	b.byName = make(map[string]*Node, len(b.defs))
	for i, def := range b.defs {
		if err := b.check(); err != nil {
			return err
		}
		name := def.GetName()
		if !validName(name, b.internal) {
			return status.AtNode(status.InvalidArgumentf("Illegal op name '%s'", name), name)
		}
		n := &b.nodes[i]
		n.ID, n.Name = len(b.base.Nodes)+i, name
		b.byName[name] = n
		if len(b.byName) != i+1 {
			return status.AtNode(status.InvalidArgumentf("Node '%s' is not unique", name), name)
		}
		if b.base.Lookup(name) != nil {
			return status.AtNode(status.InvalidArgumentf("GraphDef argument to Extend includes node '%s', "+
				"which was created by a previous call to Create or Extend in this session.", name), name)
		}
	}
	return nil
}

// describe finds each node's op and computes its attributes and types.
func (b *builder) describe() error {
	b.sigs = make([]*signature, len(b.nodes))
	data, controls, outputs := 0, 0, 0
	for i, def := range b.defs {
		if err := b.check(); err != nil {
			return err
		}
		n := &b.nodes[i]
		if !b.internal {
			if err := checkOwn(n.Name, def.GetAttr()); err != nil {
				return err
			}
		}
		if def.GetOp() == "" {
			return status.AtNode(status.InvalidArgumentf("Node '%s' does not specify an operation", n.Name), n.Name)
		}
		sig, err := b.op(def.GetOp())
		if err != nil {
			return status.AtNode(err, n.Name)
		}
		b.sigs[i] = sig
		n.Op, n.Def, n.Origin = sig.def.Name, sig.def, originOf(def)
		if n.Requested, err = b.device(def.GetDevice()); err != nil {
			return status.InvalidArgumentf("%v in node: {{node %s}}", err, n.Name)
		}
		if len(b.vals) < len(sig.attrs) {
			b.vals = make([]*attrpb.AttrValue, len(sig.attrs))
		}
		vals := b.vals[:len(sig.attrs)]
		if n.Attrs, err = sig.checkAttrs(def.GetAttr(), vals, n.Name); err != nil {
			return err
		}
		count, err := countData(def)
		if err != nil {
			return err
		}
		data, controls = data+count, controls+len(def.GetInput())-count
		if n.InTypes, err = b.inTypes(sig, vals, count, n.Name); err != nil {
			return err
		}
		if n.OutTypes, err = b.types.types(sig.outputs, sig.outFix, vals, maxArgs); err != nil {
			var many *tooManyArgs
			if errors.As(err, &many) {
				err = status.InvalidArgumentf("Value for number_attr() %d of argument '%s' is above the limit of %d tensors", many.n, many.arg, maxArgs)
			}
			return status.AtNode(err, n.Name)
		}
		if err := checkWireType(n); err != nil {
			return err
		}
		if outputs += len(n.OutTypes); outputs > maxOutputs+16*len(b.nodes) {
			return status.AtNode(status.InvalidArgumentf("The graph has %d nodes and more than %d outputs", len(b.nodes), maxOutputs+16*len(b.nodes)), n.Name)
		}
	}
	b.inputs = make([]Output, data)
	b.controls = make([]*Node, controls)
	return nil
}

// op looks up an op or function and checks that it still exists in this graph's version.
func (b *builder) op(name string) (*signature, error) {
	if s, ok := b.ops[name]; ok {
		return s, nil
	}
	s, err := b.library.lookup(name)
	if err != nil {
		return nil, err
	}
	if d := s.def.Deprecation; d != nil && b.producer >= d.Version && !b.internal {
		return nil, status.Unimplementedf("Op %s is not available in GraphDef version %d. It has been removed in version %d. %s.", name, b.producer, d.Version, d.Explanation)
	}
	b.ops[name] = s
	return s, nil
}

// device checks a device name and returns the one string shared by all nodes on that device.
func (b *builder) device(name string) (string, error) {
	if d, ok := b.devices[name]; ok {
		return d, nil
	}
	if !validDevice(name) {
		return "", status.InvalidArgumentf("Malformed device specification '%s'", name)
	}
	b.devices[name] = name
	return name, nil
}

// countData returns the number of a node's data inputs, which must precede its control inputs.
func countData(def *nodepb.NodeDef) (int, error) {
	n := 0
	for i, in := range def.GetInput() {
		if strings.HasPrefix(in, "^") {
			continue
		}
		if n < i {
			return 0, status.AtNode(status.InvalidArgumentf("Node '%s': Control dependencies must come after regular dependencies", def.GetName()), def.GetName())
		}
		n++
	}
	return n, nil
}

// inTypes returns the types of a node's inputs and checks that there are count of them.
func (b *builder) inTypes(sig *signature, vals []*attrpb.AttrValue, count int, node string) ([]tensor.DType, error) {
	types, err := b.types.types(sig.inputs, sig.inFix, vals, count)
	var many *tooManyArgs
	if err != nil && !errors.As(err, &many) {
		return nil, status.AtNode(err, node)
	}
	if many == nil && len(types) == count {
		return types, nil
	}
	want := summarizeTypes(types)
	if many != nil {
		want = plural(many.n, "tensor") + " for " + many.arg
		// Show the list if it is short enough to read.
		if all, err := b.types.types(sig.inputs, sig.inFix, vals, count+2*maxShown); err == nil {
			want = summarizeTypes(all)
		}
	}
	return nil, status.InvalidArgumentf("NodeDef expected inputs '%s' do not match %d inputs specified; %s; NodeDef: {{node %s}}", want, count, summarizeOp(sig.def), node)
}

// connect finds the nodes that each node's inputs name.
func (b *builder) connect() error {
	for i, def := range b.defs {
		if err := b.check(); err != nil {
			return err
		}
		n := &b.nodes[i]
		n.Inputs, b.inputs = split(b.inputs, len(n.InTypes))
		for k := range n.Inputs {
			e, src, err := b.source(n, def.Input[k])
			if err != nil {
				return err
			}
			if err := b.checkEdge(n, k, src, e.index); err != nil {
				return err
			}
			n.Inputs[k] = Output{src, e.index}
			if src.ID >= n.ID && !b.isBackEdge(src, n) {
				b.cyclic = true
			}
		}
		if len(def.Input) > len(n.Inputs) {
			if err := b.connectControls(n, def.Input[len(n.Inputs):]); err != nil {
				return err
			}
		}
	}
	return nil
}

// split cuts the first n elements off s.
func split[T any](s []T, n int) (head, rest []T) {
	if n == 0 {
		return nil, s
	}
	return s[:n:n], s[n:]
}

// source returns the node named by an input string.
func (b *builder) source(n *Node, input string) (endpoint, *Node, error) {
	e, ok := parseInput(input, b.internal)
	if ok {
		if src := b.byName[e.node]; src != nil {
			return e, src, nil
		}
		if src := b.base.Lookup(e.node); src != nil {
			return e, src, nil
		}
	}
	if !ok || !validName(e.node, b.internal) {
		return e, nil, status.AtNode(status.InvalidArgumentf("Illegal op input name '%s'", input), n.Name)
	}
	return e, nil, status.AtNode(status.InvalidArgumentf("Node '%s': Unknown input node '%s'", n.Name, input), n.Name)
}

// checkEdge checks that output index of src exists and may be input k of n.
func (b *builder) checkEdge(n *Node, k int, src *Node, index int) error {
	if index >= len(src.OutTypes) {
		return status.AtNode(status.InvalidArgumentf("Node '%s': Connecting to invalid output %d of source node %s which has %d outputs. Try using tf.compat.v1.experimental.output_all_intermediates(True).",
			n.Name, index, src.Name, len(src.OutTypes)), n.Name)
	}
	if !compatible(n.InTypes[k], src.OutTypes[index]) {
		return status.AtNode(wrongType(n, k, src.Name, index, src.OutTypes[index]), n.Name)
	}
	return nil
}

// compatible reports whether an output of type have may feed an input of type want: a reference may be read as a value, but a value is not
// a reference.
func compatible(want, have tensor.DType) bool { return want == have || want == have.Base() }

func wrongType(n *Node, k int, src string, index int, have tensor.DType) error {
	return status.InvalidArgumentf("Input %d of node %s was passed %v from %s:%d incompatible with expected %v.", k, n.Name, have, src, index, n.InTypes[k])
}

// manyControls is the number of control inputs above which duplicates are found with a map.
const manyControls = 16

// connectControls sets n.Controls, without duplicates.
func (b *builder) connectControls(n *Node, inputs []string) error {
	var controls []*Node
	controls, b.controls = split(b.controls, len(inputs))
	n.Controls = controls[:0]
	var seen map[*Node]bool
	if len(inputs) > manyControls {
		seen = make(map[*Node]bool, len(inputs))
	}
	for _, in := range inputs {
		_, src, err := b.source(n, in)
		if err != nil {
			return err
		}
		if seen != nil {
			if seen[src] {
				continue
			}
			seen[src] = true
		} else if contains(n.Controls, src) {
			continue
		}
		n.Controls = append(n.Controls, src)
		if src.ID >= n.ID {
			b.cyclic = true
		}
	}
	return nil
}

func contains(nodes []*Node, n *Node) bool {
	for _, m := range nodes {
		if m == n {
			return true
		}
	}
	return false
}

// graph returns the finished graph.
func (b *builder) graph(versioned bool) *Graph {
	g := &Graph{Library: b.library, Producer: b.base.Producer, versioned: b.base.versioned, tail: b.base.tail}
	if !g.versioned {
		g.Producer, g.versioned = b.producer, versioned
	}
	old, total := len(b.base.Nodes), len(b.base.Nodes)+len(b.nodes)
	all := b.base.Nodes
	if cap(all) < total || !g.tail.claim(old, total) {
		// Growing by half keeps the cost of many extensions proportional to the nodes they add.
		all = make([]*Node, old, total+total/2)
		copy(all, b.base.Nodes)
		g.tail = &tail{}
		g.tail.used.Store(int64(total))
	}
	g.Nodes = all[:total]
	for i := range b.nodes {
		g.Nodes[old+i] = &b.nodes[i]
	}
	var index *names
	if b.base.index != nil {
		index = b.base.index()
	}
	index = index.with(b.byName)
	g.index = func() *names { return index }
	return g
}
