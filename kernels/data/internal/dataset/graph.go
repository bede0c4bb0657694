package dataset

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
	"github.com/troupe-run/troupe/kernels/internal/calls"
	"google.golang.org/protobuf/proto"
)

// This file converts datasets to graphs, the form in which they are saved and sent. A graph has a node for each dataset, a Const for every
// other input that is not a resource (see capture.go), and a _Retval for the dataset itself, as in TensorFlow's DatasetToGraph.

// Origin is the node that created a dataset, and its inputs. The dataset holds references to them.
type Origin struct {
	Node   *graph.Node
	Inputs []*tensor.Tensor
}

// TypeAttr returns the value of a node's attribute that is a dtype.
func TypeAttr(t tensor.DType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t.Proto()}}
}

// IntAttr returns the value of a node's attribute that is an integer.
func IntAttr(v int64) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}}
}

func tensorAttr(v *tensorpb.TensorProto) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: v}}
}

// ListAttr returns the value of a node's attribute that is a list.
func ListAttr(l *attrpb.AttrValue_ListValue) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: l}}
}

// Ops of a dataset's graph that are no datasets: the node that the graph's result goes to, and those that stand for its inputs.
const (
	RetvalOp      = "_Retval"
	PlaceholderOp = "Placeholder"
)

const constOp = "Const"

// graphMaker creates the graph of a dataset.
type graphMaker struct {
	def   graphpb.GraphDef
	names map[*Dataset]string
	defs  map[string]*functionpb.FunctionDef
	// held, if not nil, receives the inputs that are not datasets, and the datasets that cannot become nodes, by the names of the
	// Placeholders that stand for them.
	held map[string]*tensor.Tensor

	// ctx, if not nil, is the execution whose session reads the captured resources. resources holds the names of the nodes that yield their
	// handles.
	ctx       *kernels.Context
	resources map[any]string
}

// ToGraph returns the graph of a dataset; UNIMPLEMENTED if there is none. Without ctx, a dataset that captures resources has none, since
// they cannot be looked up.
func ToGraph(d *Dataset, ctx *kernels.Context) (*graphpb.GraphDef, error) {
	m := &graphMaker{names: map[*Dataset]string{}, defs: map[string]*functionpb.FunctionDef{}, ctx: ctx, resources: map[any]string{}}
	name, err := m.add(d)
	if err != nil {
		return nil, err
	}
	m.def.Node = append(m.def.Node, &nodepb.NodeDef{Name: "dataset", Op: RetvalOp, Input: []string{name}, Attr: map[string]*attrpb.AttrValue{
		"T": TypeAttr(tensor.Variant), "index": IntAttr(0),
	}})
	m.def.Library = m.library()
	return &m.def, nil
}

// GraphHolding returns the graph of the dataset in a tensor, and the name of its node. The values of the graph's Placeholders are held: the
// inputs that are not datasets, and the datasets that cannot become nodes. They belong to the datasets.
func GraphHolding(t *tensor.Tensor) (def *graphpb.GraphDef, name string, held map[string]*tensor.Tensor, err error) {
	m := &graphMaker{names: map[*Dataset]string{}, defs: map[string]*functionpb.FunctionDef{}, held: map[string]*tensor.Tensor{}}
	if name, err = m.input(t); err != nil {
		return nil, "", nil, err
	}
	m.def.Library = m.library()
	return &m.def, name, m.held, nil
}

// library returns the functions that the graph's datasets call.
func (m *graphMaker) library() *functionpb.FunctionDefLibrary {
	library := &functionpb.FunctionDefLibrary{}
	for _, name := range slices.Sorted(maps.Keys(m.defs)) {
		library.Function = append(library.Function, m.defs[name])
	}
	return library
}

// add adds a dataset after its inputs, and returns its node's name.
func (m *graphMaker) add(d *Dataset) (string, error) {
	if name, ok := m.names[d]; ok {
		return name, nil
	}
	if d.Node == nil {
		return "", status.Unimplementedf("A %s that a pipeline made cannot become a graph", d.Op)
	}
	if k, ok := d.Kind.(Transient); ok && k.Transient() && m.held == nil {
		return "", status.Unimplementedf("%s does not support serialization.", d.Text())
	}
	n := &nodepb.NodeDef{Op: d.Op, Attr: d.Node.Attrs}
	for _, t := range d.Origin.Inputs {
		input, err := m.input(t)
		if err != nil {
			return "", err
		}
		n.Input = append(n.Input, input)
	}
	if err := d.Definitions(m.defs); err != nil {
		return "", err
	}
	n.Name = m.name(d.Op)
	m.def.Node = append(m.def.Node, n)
	m.names[d] = n.Name
	return n.Name, nil
}

func (m *graphMaker) name(op string) string { return fmt.Sprintf("%s/_%d", op, len(m.def.Node)) }

// input adds an input of a dataset: another dataset, or a constant.
func (m *graphMaker) input(t *tensor.Tensor) (string, error) {
	if t.DType() == tensor.Variant && t.Rank() == 0 {
		if d, ok := t.Variants()[0].(*Dataset); ok && (m.held == nil || d.Node != nil) {
			return m.add(d)
		}
	}
	if m.held != nil {
		name := m.name(PlaceholderOp)
		m.held[name] = t
		m.def.Node = append(m.def.Node, &nodepb.NodeDef{Name: name, Op: PlaceholderOp, Attr: map[string]*attrpb.AttrValue{"dtype": TypeAttr(t.DType())}})
		return name, nil
	}
	if t.DType() == tensor.Resource {
		return m.captured(t)
	}
	return m.constant(t)
}

func (m *graphMaker) constant(t *tensor.Tensor) (string, error) {
	v, err := t.Proto()
	if err != nil {
		return "", err
	}
	return m.node(constOp, nil, map[string]*attrpb.AttrValue{"dtype": TypeAttr(t.DType()), "value": tensorAttr(v)}), nil
}

// FromGraph creates the dataset of a graph. The nodes may name the graph's functions and the place's.
func FromGraph(p Place, def *graphpb.GraphDef) (*Dataset, error) {
	return FromGraphHolding(p, def, nil)
}

// FromGraphHolding is FromGraph with held as the values of the Placeholders.
func FromGraphHolding(p Place, def *graphpb.GraphDef, held map[string]*tensor.Tensor) (*Dataset, error) {
	own := &graphpb.GraphDef{Versions: def.Versions}
	var last *nodepb.NodeDef
	for _, n := range def.Node {
		if n.Op == RetvalOp && len(n.Input) == 1 {
			last = n
		} else {
			own.Node = append(own.Node, anonymized(n))
		}
	}
	if last == nil {
		return nil, status.InvalidArgumentf("The graph of a dataset has no %s", RetvalOp)
	}
	g, err := graph.Build(own)
	if err != nil {
		return nil, err
	}
	if len(def.GetLibrary().GetFunction()) > 0 {
		library, err := p.Functions.Library().With(def.Library)
		if err != nil {
			return nil, err
		}
		open := library.Open() // datasets keep the library alone
		defer open.Close()
		p.Functions = open
	}
	b := &graphReader{Place: p, values: map[*graph.Node]*tensor.Tensor{}, held: held}
	defer func() {
		for _, t := range b.values {
			if t != nil {
				t.Release()
			}
		}
	}()
	made := strings.TrimSuffix(last.Input[0], ":0")
	for _, n := range g.Nodes {
		if n.Name == made {
			t, err := b.value(n, 0)
			if err != nil {
				return nil, err
			}
			return FromTensor(p, t)
		}
	}
	return nil, status.InvalidArgumentf("The graph of a dataset has no node %q", made)
}

// graphReader computes the nodes of a dataset's graph.
type graphReader struct {
	Place
	values map[*graph.Node]*tensor.Tensor // nil for nodes without outputs
	held   map[string]*tensor.Tensor      // values of Placeholders
}

// value returns a node's output, which the reader holds. It runs only datasets, constants, and ops that create captured resources.
func (b *graphReader) value(n *graph.Node, depth int) (*tensor.Tensor, error) {
	if t, ok := b.values[n]; ok {
		return t, nil
	}
	if depth > MaxNesting {
		return nil, status.Errorf(status.ResourceExhausted, "Datasets are made of one another more than %d deep", MaxNesting)
	}
	for _, c := range n.Controls {
		if _, err := b.value(c, depth+1); err != nil {
			return nil, err
		}
	}
	ctx := &kernels.Context{Node: n, Device: b.Device, Step: b.Step, Outputs: make([]kernels.Value, len(n.OutTypes))}
	defer func() { calls.ReleaseAll(ctx.Inputs) }()
	for _, in := range n.Inputs {
		t, err := b.value(in.Node, depth+1)
		if err != nil {
			return nil, err
		}
		ctx.Inputs = append(ctx.Inputs, kernels.Value{Tensor: t.Retain()}) // a kernel may take over its inputs
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
	if t := b.held[n.Name]; t != nil && n.Op == PlaceholderOp {
		return t.Retain(), nil
	}
	if n.Op == constOp {
		v, err := n.Attrs.Tensor("value")
		if err != nil {
			return nil, err
		}
		return tensor.FromTensorProto(v, b.Device.Pool())
	}
	if n.Op == identityOp {
		return ctx.Take(0), nil
	}
	if !datasetOps[n.Op] && !makesCapture(n) {
		return nil, status.Unimplementedf("The graph of a dataset has a node of op %s, which makes none", n.Op)
	}
	def, err := kernels.Find(n, "CPU")
	if err != nil {
		return nil, err
	}
	k, err := def.New(&kernels.Construction{Node: n, Device: b.Device, Functions: b.Functions})
	if err != nil {
		return nil, err
	}
	if err := b.run(k, ctx); err != nil {
		return nil, err
	}
	if len(ctx.Outputs) == 0 {
		return nil, nil
	}
	return ctx.Outputs[0].Tensor, nil
}

func (b *graphReader) run(k any, ctx *kernels.Context) error {
	switch k := k.(type) {
	case kernels.Kernel:
		return k.Compute(ctx)
	case kernels.AsyncKernel:
		if b.Waits {
			done := make(chan error, 1)
			k.ComputeAsync(ctx, func(err error) { done <- err })
			return <-done // it ends with the step
		}
	}
	return status.Unimplementedf("The graph of a dataset that came from another task has a node of op %s, which may wait", ctx.Node.Op)
}

// datasetOps are the ops that create a dataset from their inputs: what the graph of a dataset may consist of.
var datasetOps = map[string]bool{}

// absent is the kind of a dataset that came from another process, as its graph. The dataset is created where it is used.
type absent struct{ graph *graphpb.GraphDef }

func (absent) Cardinality(*Query) int64 { return Unknown }

func (absent) Open(*Env) (Iterator, error) {
	return nil, status.Internalf("A dataset from elsewhere is opened as it came")
}

// datasetName is the type name under which datasets travel.
const datasetName = "tensorflow::DatasetVariantWrapper"

// Portable returns the dataset as a graph.
func (d *Dataset) Portable() tensor.VariantData {
	def, err := d.asGraph()
	if err != nil {
		return tensor.VariantData{Type: datasetName} // Unportable reported the reason
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(def)
	if err != nil {
		return tensor.VariantData{Type: datasetName}
	}
	return tensor.VariantData{Type: datasetName, Metadata: b}
}

func (d *Dataset) asGraph() (*graphpb.GraphDef, error) {
	if a, ok := d.Kind.(absent); ok {
		return a.graph, nil
	}
	return ToGraph(d, nil)
}

// Unportable returns why the dataset cannot leave the process; nil if it can.
func (d *Dataset) Unportable() error {
	_, err := d.asGraph()
	return err
}

// readDataset reads a dataset that came from another process.
func readDataset(v tensor.VariantData) (any, error) {
	def := &graphpb.GraphDef{}
	if err := tensor.Unmarshal(v.Metadata, def); err != nil || len(def.Node) == 0 {
		return nil, status.Errorf(status.DataLoss, "The message of a dataset holds no graph: %v", err)
	}
	d := &Dataset{Kind: absent{def}, Op: "Dataset"}
	d.refs.Store(1)
	return d, nil
}
