package data

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// Datasets as graphs: how they are saved, and how they travel. A node stands for each dataset, a Const for each other
// input, and a _Retval for the dataset that is meant, as TensorFlow's DatasetToGraph makes it.

// origin is the node that made a dataset, and its inputs, to which the dataset has references.
type origin struct {
	node   *graph.Node
	inputs []*tensor.Tensor
}

func typeAttr(t tensor.DType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t.Proto()}}
}

func intAttr(v int64) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}}
}

func tensorAttr(v *tensorpb.TensorProto) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: v}}
}

const (
	constOp       = "Const"
	retvalOp      = "_Retval"
	placeholderOp = "Placeholder"
)

// graphMaker makes the graph of a dataset.
type graphMaker struct {
	def   graphpb.GraphDef
	names map[*Dataset]string
	defs  map[string]*functionpb.FunctionDef
	// held, if not nil, gets the inputs that are no datasets, by the names of the Placeholders that stand for them, and the
	// datasets that cannot become nodes.
	held map[string]*tensor.Tensor
}

// graphOf is the graph of a dataset; UNIMPLEMENTED where it cannot be one.
func graphOf(d *Dataset) (*graphpb.GraphDef, error) {
	m := &graphMaker{names: map[*Dataset]string{}, defs: map[string]*functionpb.FunctionDef{}}
	name, err := m.add(d)
	if err != nil {
		return nil, err
	}
	m.def.Node = append(m.def.Node, &nodepb.NodeDef{Name: "dataset", Op: retvalOp, Input: []string{name}, Attr: map[string]*attrpb.AttrValue{
		"T": typeAttr(tensor.Variant), "index": intAttr(0),
	}})
	m.def.Library = &functionpb.FunctionDefLibrary{}
	for _, name := range slices.Sorted(maps.Keys(m.defs)) {
		m.def.Library.Function = append(m.def.Library.Function, m.defs[name])
	}
	return &m.def, nil
}

// add adds a dataset, after those that it is made of, and gives its node's name.
func (m *graphMaker) add(d *Dataset) (string, error) {
	if name, ok := m.names[d]; ok {
		return name, nil
	}
	if d.node == nil {
		return "", status.Unimplementedf("A %s that a pipeline made cannot become a graph", d.Op)
	}
	n := &nodepb.NodeDef{Op: d.Op, Attr: d.node.Attrs}
	for _, t := range d.origin.inputs {
		input, err := m.input(t)
		if err != nil {
			return "", err
		}
		n.Input = append(n.Input, input)
	}
	if k, ok := d.kind.(interface{ functions() []*Function }); ok {
		for _, f := range k.functions() {
			if err := f.library.Defs(f.ref, m.defs); err != nil {
				return "", err
			}
		}
	}
	n.Name = m.name(d.Op)
	m.def.Node = append(m.def.Node, n)
	m.names[d] = n.Name
	return n.Name, nil
}

func (m *graphMaker) name(op string) string { return fmt.Sprintf("%s/_%d", op, len(m.def.Node)) }

// input adds what an input of a dataset is: another one, or a constant.
func (m *graphMaker) input(t *tensor.Tensor) (string, error) {
	if t.DType() == tensor.Variant && t.Rank() == 0 {
		if d, ok := t.Variants()[0].(*Dataset); ok && (m.held == nil || d.node != nil) {
			return m.add(d)
		}
	}
	if m.held != nil {
		name := m.name(placeholderOp)
		m.held[name] = t
		m.def.Node = append(m.def.Node, &nodepb.NodeDef{Name: name, Op: placeholderOp, Attr: map[string]*attrpb.AttrValue{"dtype": typeAttr(t.DType())}})
		return name, nil
	}
	if t.DType() == tensor.Resource {
		return "", status.Unimplementedf("A dataset that uses a resource (%s) cannot become a graph", t.Handles()[0].Name)
	}
	v, err := t.Proto()
	if err != nil {
		return "", err
	}
	name := m.name(constOp)
	m.def.Node = append(m.def.Node, &nodepb.NodeDef{Name: name, Op: constOp, Attr: map[string]*attrpb.AttrValue{
		"dtype": typeAttr(t.DType()), "value": tensorAttr(v),
	}})
	return name, nil
}

// place is where a graph becomes a dataset: the device, the functions that its nodes may name, and the step.
type place struct {
	device    kernels.Device
	functions kernels.Functions
	step      *kernels.Step
}

// datasetOfGraph makes the dataset of a graph. The functions are those of the session: a graph brings none along, so
// that it does nothing that the session's own graph could not.
func datasetOfGraph(p place, def *graphpb.GraphDef) (*Dataset, error) {
	return datasetOfGraphWith(p, def, nil)
}

// datasetOfGraphWith is datasetOfGraph where held has the values of the Placeholders.
func datasetOfGraphWith(p place, def *graphpb.GraphDef, held map[string]*tensor.Tensor) (*Dataset, error) {
	own := &graphpb.GraphDef{Versions: def.Versions}
	var last *nodepb.NodeDef
	for _, n := range def.Node {
		if n.Op == retvalOp && len(n.Input) == 1 {
			last = n
		} else {
			own.Node = append(own.Node, n)
		}
	}
	if last == nil {
		return nil, status.InvalidArgumentf("The graph of a dataset has no %s", retvalOp)
	}
	g, err := graph.Build(own)
	if err != nil {
		return nil, err
	}
	b := &graphReader{place: p, values: map[*graph.Node]*tensor.Tensor{}, held: held}
	defer func() {
		for _, t := range b.values {
			t.Release()
		}
	}()
	made := strings.TrimSuffix(last.Input[0], ":0")
	for _, n := range g.Nodes {
		if n.Name == made {
			t, err := b.value(n, 0)
			if err != nil {
				return nil, err
			}
			return datasetIn(p, t)
		}
	}
	return nil, status.InvalidArgumentf("The graph of a dataset has no node %q", made)
}

// graphReader computes the nodes of a dataset's graph.
type graphReader struct {
	place
	values map[*graph.Node]*tensor.Tensor
	held   map[string]*tensor.Tensor // of Placeholders
}

// value is a node's output, which the reader holds. The nodes are datasets and constants: no other op is run.
func (b *graphReader) value(n *graph.Node, depth int) (*tensor.Tensor, error) {
	if t := b.values[n]; t != nil {
		return t, nil
	}
	if depth > maxNesting {
		return nil, status.Errorf(status.ResourceExhausted, "Datasets are made of one another more than %d deep", maxNesting)
	}
	ctx := &kernels.Context{Node: n, Device: b.device, Step: b.step, Outputs: make([]kernels.Value, len(n.OutTypes))}
	for _, in := range n.Inputs {
		t, err := b.value(in.Node, depth+1)
		if err != nil {
			return nil, err
		}
		ctx.Inputs = append(ctx.Inputs, kernels.Value{Tensor: t})
	}
	t, err := b.compute(ctx)
	if err != nil {
		return nil, status.AtNode(err, n.Name)
	}
	b.values[n] = t
	return t, nil
}

func (b *graphReader) compute(ctx *kernels.Context) (*tensor.Tensor, error) {
	n := ctx.Node
	if t := b.held[n.Name]; t != nil && n.Op == placeholderOp {
		return t.Retain(), nil
	}
	if n.Op == constOp {
		v, err := n.Attrs.Tensor("value")
		if err != nil {
			return nil, err
		}
		if tensor.FromProto(v.GetDtype()) == tensor.Resource {
			return nil, status.Unimplementedf("The graph of a dataset may not hold handles of resources")
		}
		return tensor.FromTensorProto(v, b.device.Pool())
	}
	if !makesDataset(n.Op) {
		return nil, status.Unimplementedf("The graph of a dataset has a node of op %s, which makes none", n.Op)
	}
	def, err := kernels.Find(n, "CPU")
	if err != nil {
		return nil, err
	}
	k, err := def.New(&kernels.Construction{Node: n, Device: b.device, Functions: b.functions})
	if err != nil {
		return nil, err
	}
	if err := k.(kernels.Kernel).Compute(ctx); err != nil {
		return nil, err
	}
	return ctx.Outputs[0].Tensor, nil
}

// makesDataset tells whether an op is one that makes a dataset of its inputs.
func makesDataset(op string) bool {
	made := &kernels.Table{}
	addSources(made)
	addTransformations(made)
	addUnchanged(made)
	for _, o := range made.Ops() {
		if o == op {
			return true
		}
	}
	return false
}

// absent is the kind of a dataset that came from elsewhere, as its graph. It becomes one where it is used.
type absent struct{ graph *graphpb.GraphDef }

func (absent) cardinality() int64 { return unknown }

func (absent) open(*Env) (Iterator, error) {
	return nil, status.Internalf("A dataset from elsewhere is opened as it came")
}

// datasetName is the name under which datasets travel.
const datasetName = "tensorflow::DatasetVariantWrapper"

// Portable is the dataset as a graph.
func (d *Dataset) Portable() tensor.VariantData {
	def, err := d.asGraph()
	if err != nil {
		return tensor.VariantData{Type: datasetName} // Unportable has told
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(def)
	if err != nil {
		return tensor.VariantData{Type: datasetName}
	}
	return tensor.VariantData{Type: datasetName, Metadata: b}
}

func (d *Dataset) asGraph() (*graphpb.GraphDef, error) {
	if a, ok := d.kind.(absent); ok {
		return a.graph, nil
	}
	return graphOf(d)
}

// Unportable tells why the dataset cannot leave the process; nil where it can.
func (d *Dataset) Unportable() error {
	_, err := d.asGraph()
	return err
}

// readDataset reads a dataset that comes from elsewhere.
func readDataset(v tensor.VariantData) (any, error) {
	def := &graphpb.GraphDef{}
	if err := tensor.Unmarshal(v.Metadata, def); err != nil || len(def.Node) == 0 {
		return nil, status.Errorf(status.DataLoss, "The message of a dataset holds no graph: %v", err)
	}
	d := &Dataset{kind: absent{def}, Op: "Dataset"}
	d.refs.Store(1)
	return d, nil
}

// newToGraph makes the kernel that gives the graph of a dataset, serialized.
func newToGraph(c *kernels.Construction) (any, error) {
	s := &settings{Construction: c}
	fails := false
	if s.has("external_state_policy") {
		fails = s.int("external_state_policy") == externalFails
	} else {
		fails = !s.bool("allow_stateful")
	}
	return withPlace(func(ctx *kernels.Context, p place) error {
		d, err := datasetIn(p, ctx.Input(0))
		if err != nil {
			return err
		}
		defer d.Release()
		if fails {
			err = d.external()
		}
		var def *graphpb.GraphDef
		if err == nil {
			def, err = graphOf(d)
		}
		if err != nil {
			return status.Errorf(status.FailedPrecondition, "Failed to serialize the input pipeline graph: %v", err)
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(def)
		if err == nil {
			ctx.SetOutput(0, stringScalar(string(b)))
		}
		return err
	})(c)
}

// fromGraph makes a dataset of a serialized graph.
func fromGraph(ctx *kernels.Context, p place) error {
	in := &inputs{ctx: ctx}
	text := in.str(0, "graph_def")
	if in.err != nil {
		return in.err
	}
	def := &graphpb.GraphDef{}
	if err := tensor.Unmarshal([]byte(text), def); err != nil {
		return status.InvalidArgumentf("Could not parse GraphDef")
	}
	d, err := datasetOfGraph(p, def)
	if err != nil {
		return err
	}
	ctx.SetOutput(0, variantOf(d))
	return nil
}

// withPlace makes the constructor of a kernel of a function that takes datasets.
func withPlace(run func(ctx *kernels.Context, p place) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		return kernels.Func(func(ctx *kernels.Context) error { return run(ctx, placeOf(ctx, c)) }), nil
	}
}

// waitingWithPlace is withPlace for kernels that wait for elements.
func waitingWithPlace(run func(ctx *kernels.Context, p place) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		return waiting(func(ctx *kernels.Context) error { return run(ctx, placeOf(ctx, c)) }), nil
	}
}

func placeOf(ctx *kernels.Context, c *kernels.Construction) place {
	return place{c.Device, c.Functions, ctx.Step}
}

// sameDataset is for ops that wrap a dataset so that TensorFlow does not copy it between devices, and unwrap it: here nothing
// would.
func sameDataset(ctx *kernels.Context) error {
	if _, err := datasetAt(ctx.Input(0)); err != nil {
		return err
	}
	ctx.SetOutput(0, ctx.Input(0).Retain())
	return nil
}
