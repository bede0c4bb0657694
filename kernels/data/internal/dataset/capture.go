package dataset

import (
	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// This file adds the resources that datasets capture to their graphs. As in TensorFlow, the graph holds the current contents of a variable
// or a table, and the nodes that recreate it. The graph therefore creates an equal dataset in another process too, and after the resource
// is gone. Any other resource is a constant handle, which is valid only in the process that has the resource.
//
// Unlike TensorFlow's, the tables that a graph creates are anonymous: they end with the dataset, and a graph can be loaded more than once.
// A resource that a dataset captures twice is one resource in its copy, too.

const (
	varHandleOp = "VarHandleOp"
	assignOp    = "AssignVariableOp"
	importOp    = "LookupTableImportV2"
	identityOp  = "Identity"
)

// makesCapture reports whether a dataset's graph may contain the node for a captured resource. TensorFlow's graphs contain the op that filled
// a table, which may read a file or another dataset. Variables must be anonymous, because the session's graph decides the homes of named ones.
func makesCapture(n *graph.Node) bool {
	switch n.Op {
	case varHandleOp:
		name, err := n.Attrs.Str("shared_name")
		return err == nil && name == graph.AnonymousName
	case assignOp, importOp, identityOp, "InitializeTableV2", "InitializeTableFromTextFileV2", "InitializeTableFromDataset":
		return true
	}
	return graph.MakesAnonymousTable(n.Op)
}

// anonymized returns a node that creates an anonymous table in place of a named one. TensorFlow's graphs contain named ones, with names
// that are unique within one process.
func anonymized(n *nodepb.NodeDef) *nodepb.NodeDef {
	op, ok := graph.AnonymousTable(n.Op)
	if !ok || len(n.Attr["container"].GetS()) > 0 || len(n.Attr["shared_name"].GetS()) > 0 {
		return n
	}
	own := &nodepb.NodeDef{Name: n.Name, Op: op, Input: n.Input, Device: n.Device, Attr: map[string]*attrpb.AttrValue{}}
	for name, v := range n.Attr {
		switch name {
		case "container", "shared_name", "use_node_name_sharing":
		default:
			own.Attr[name] = v
		}
	}
	return own
}

// captured adds the nodes for the resource of a handle, and returns the name of the node that yields the handle.
func (m *graphMaker) captured(t *tensor.Tensor) (string, error) {
	if m.ctx == nil {
		name := ""
		if t.Len() > 0 {
			name = t.Handles()[0].Name
		}
		return "", status.Unimplementedf("A dataset that uses a resource (%s) cannot leave its process", name)
	}
	if t.Len() != 1 || t.Rank() > 0 {
		return "", status.Unimplementedf("A dataset that captures resource handles in a tensor of shape %v cannot become a graph; capture each of them", t.Shape())
	}
	if kernels.IsElsewhere(t, m.ctx.Device.Name()) {
		return m.constant(t) // as in TensorFlow, which sees no contents there
	}
	name, known, err := m.contents(t)
	if known || err != nil {
		return name, err
	}
	if h := t.Handles()[0]; h.Local == nil {
		if _, err := m.ctx.Device.Resources().Lookup(h.Container, h.Type, h.Name); err != nil {
			return "", err
		}
	}
	return m.constant(t)
}

// contents adds the nodes for the contents of a handle's resource. known is false for resources that are neither variables nor tables.
func (m *graphMaker) contents(t *tensor.Tensor) (name string, known bool, err error) {
	// Look up the resource as a kernel with this input would: it must be on this device, in a container that the session may use.
	ctx := &kernels.Context{Node: m.ctx.Node, Device: m.ctx.Device, Step: m.ctx.Step, Inputs: []kernels.Value{{Tensor: t}}}
	h, err := ctx.Handle(0)
	if err != nil {
		return "", false, err
	}
	switch h.Type {
	case kernels.KindVariable:
		v, err := ctx.Variable(0)
		if err != nil {
			return "", true, err
		}
		name, err = m.once(v, func() (string, error) { return m.variable(v) })
		return name, true, err
	case table.ResourceKind:
		t, err := kernels.ResourceAt[table.Table](ctx, 0, table.ResourceKind)
		if err != nil {
			return "", true, err
		}
		name, err = m.once(t, func() (string, error) { return m.table(t) })
		return name, true, err
	}
	return "", false, nil
}

// ResourceNodes returns the nodes that create the resource of a handle with its contents; none for resources that are neither variables nor
// tables.
func ResourceNodes(ctx *kernels.Context, handle *tensor.Tensor) ([]*nodepb.NodeDef, error) {
	m := &graphMaker{ctx: ctx, resources: map[any]string{}}
	if _, known, err := m.contents(handle); !known || err != nil {
		return nil, err
	}
	return m.def.Node, nil
}

// once adds the nodes for a resource unless the graph already has them.
func (m *graphMaker) once(resource any, add func() (string, error)) (string, error) {
	if name, ok := m.resources[resource]; ok {
		return name, nil
	}
	name, err := add()
	if err == nil {
		m.resources[resource] = name
	}
	return name, err
}

// node adds a node and returns its name.
func (m *graphMaker) node(op string, inputs []string, attrs map[string]*attrpb.AttrValue) string {
	name := m.name(op)
	m.def.Node = append(m.def.Node, &nodepb.NodeDef{Name: name, Op: op, Input: inputs, Attr: attrs})
	return name
}

// after returns a handle that is read after another node has run.
func (m *graphMaker) after(handle, node string) string {
	return m.node(identityOp, []string{handle, "^" + node}, map[string]*attrpb.AttrValue{"T": TypeAttr(tensor.Resource)})
}

func (m *graphMaker) variable(v *containers.Variable) (string, error) {
	t := v.Read()
	if t == nil {
		return "", v.Uninitialized()
	}
	defer t.Release()
	dtype := TypeAttr(t.DType())
	handle := m.node(varHandleOp, nil, map[string]*attrpb.AttrValue{
		"dtype": dtype, "shape": shapeAttr(t.Shape()),
		"shared_name": {Value: &attrpb.AttrValue_S{S: []byte(graph.AnonymousName)}},
	})
	value, err := m.constant(t)
	if err != nil {
		return "", err
	}
	return m.after(handle, m.node(assignOp, []string{handle, value}, map[string]*attrpb.AttrValue{"dtype": dtype})), nil
}

func (m *graphMaker) table(t table.Table) (string, error) {
	o, err := table.OptionsOf(t)
	if err != nil {
		return "", err
	}
	handle, err := m.emptyTable(o)
	if err != nil || o.Kind == table.Static && t.Len() == 0 { // not initialized yet
		return handle, err
	}
	keys, values, err := t.Export(m.ctx.Device.Pool())
	if err != nil {
		return "", err
	}
	inputs, err := m.constants(keys, values)
	if err != nil {
		return "", err
	}
	return m.after(handle, m.node(importOp, append([]string{handle}, inputs...), map[string]*attrpb.AttrValue{
		"Tin": TypeAttr(o.Key), "Tout": TypeAttr(o.Value),
	})), nil
}

// emptyTable adds the node that creates a table.
func (m *graphMaker) emptyTable(o table.Options) (string, error) {
	attrs := map[string]*attrpb.AttrValue{"key_dtype": TypeAttr(o.Key), "value_dtype": TypeAttr(o.Value)}
	if o.Kind == table.Static {
		return m.node("AnonymousHashTable", nil, attrs), nil
	}
	if o.Kind == table.Mutable && len(o.ValueShape) == 0 {
		return m.node("AnonymousMutableHashTable", nil, attrs), nil
	}
	attrs["value_shape"] = shapeAttr(o.ValueShape)
	if o.Kind == table.Mutable {
		return m.node("AnonymousMutableHashTableOfTensors", nil, attrs), nil
	}
	attrs["initial_num_buckets"] = IntAttr(o.Buckets)
	attrs["max_load_factor"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_F{F: o.MaxLoad}}
	special, err := m.constants(o.EmptyKey, o.DeletedKey)
	if err != nil {
		return "", err
	}
	return m.node("AnonymousMutableDenseHashTable", special, attrs), nil
}

// constants adds a node for each tensor, and takes over the tensors.
func (m *graphMaker) constants(list ...*tensor.Tensor) ([]string, error) {
	defer kernels.ReleaseTensors(list)
	names := make([]string, len(list))
	for i, t := range list {
		name, err := m.constant(t)
		if err != nil {
			return nil, err
		}
		names[i] = name
	}
	return names, nil
}

func shapeAttr(s tensor.Shape) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: s.Proto()}}
}
