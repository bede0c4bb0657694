package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// Options are the inputs of Insert besides the graph and its device.
type Options struct {
	Watches []*corepb.DebugTensorWatch
	// Supports reports whether the device has a kernel for a node. A debug op without one is an error, or is left out if the watch
	// tolerates that.
	Supports func(n *graph.Node) bool
}

// Insert returns the graph of a device with the nodes of the debugger. Loops run one iteration at a time, so reports of different
// iterations do not mix. g is not modified.
func Insert(g *graph.Graph, device string, o Options) (*graph.Graph, error) {
	l, err := newList(o.Watches)
	if err != nil {
		return nil, err
	}
	i := &insertion{device: device, options: o, probes: map[string]*probes{}}
	for _, n := range g.Nodes {
		for slot := range n.OutTypes {
			if w := l.of(n.Name, int32(slot)); w != nil {
				if err := i.watch(n, slot, w); err != nil {
					return nil, err
				}
			}
		}
	}
	def := g.Def()
	for at, n := range g.Nodes {
		def.Node[at] = i.rewired(n, def.Node[at])
	}
	def.Node = append(def.Node, i.added...)
	def.Library = g.Library.For(g).Proto()
	with, err := graph.Rebuild(def)
	if err != nil {
		return nil, err
	}
	with.Library = g.Library // the session's other graphs share its functions
	return with, nil
}

type insertion struct {
	device  string
	options Options
	added   []*nodepb.NodeDef
	probes  map[string]*probes // by tensor, in the form of node inputs
}

// probes are the nodes that watch one tensor.
type probes struct {
	copy string // the Copy node; empty if users keep the tensor itself
	all  []string
}

// inputName returns a tensor's name in the form of node inputs.
func inputName(node string, slot int) string {
	if slot == 0 {
		return node
	}
	return fmt.Sprintf("%s:%d", node, slot)
}

// watch adds the nodes that watch an output of a node.
func (i *insertion) watch(n *graph.Node, slot int, w *corepb.DebugTensorWatch) error {
	tensorName := fmt.Sprintf("%s:%d", n.Name, slot)
	copied := fmt.Sprintf("__copy_%s_%d", n.Name, slot)
	kind := &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: n.OutTypes[slot].Base().Proto()}}
	p := &probes{}
	var nodes []*nodepb.NodeDef
	var specs []string
	for number, text := range w.DebugOps {
		op, attrs, err := parseOp(text)
		if err != nil {
			return err
		}
		node := &nodepb.NodeDef{Name: fmt.Sprintf("__dbg_%s_%d_%s", tensorName, number, op), Op: op, Device: i.device, Input: []string{copied},
			Attr: map[string]*attrpb.AttrValue{"T": kind, "device_name": stringAttr(i.device), "tensor_name": stringAttr(tensorName), "debug_urls": stringsAttr(w.DebugUrls)}}
		maps.Copy(node.Attr, attrs)
		if !i.options.Supports(&graph.Node{Name: node.Name, Op: op, Attrs: node.Attr}) {
			if w.TolerateDebugOpCreationFailures {
				continue
			}
			return status.Errorf(status.FailedPrecondition, "There is no kernel of %s for type %v on %s, which a watch of tensor %s asks for",
				op, n.OutTypes[slot].Base(), i.device, tensorName)
		}
		for _, url := range w.DebugUrls {
			specs = append(specs, fmt.Sprintf("%s;%s;0", op, url))
		}
		nodes = append(nodes, node)
		p.all = append(p.all, node.Name)
	}
	if len(nodes) == 0 {
		return nil
	}
	if !n.OutTypes[slot].IsRef() && n.Op != "NextIteration" {
		p.copy = copied
	}
	i.probes[inputName(n.Name, slot)] = p
	i.added = append(append(i.added, &nodepb.NodeDef{Name: copied, Op: "Copy", Device: i.device, Input: []string{inputName(n.Name, slot)},
		Attr: map[string]*attrpb.AttrValue{"T": kind, "tensor_name": stringAttr(tensorName), "debug_ops_spec": stringsAttr(specs)}}), nodes...)
	return nil
}

// rewired redirects the inputs of a node to the copies of watched tensors and makes the node wait for the debug nodes.
func (i *insertion) rewired(n *graph.Node, def *nodepb.NodeDef) *nodepb.NodeDef {
	merge := strings.HasSuffix(n.Op, "Merge")
	var waits []string
	for at, in := range def.Input {
		p := i.probes[in]
		if p == nil {
			continue
		}
		if p.copy != "" {
			def.Input[at] = p.copy
		}
		if !merge {
			waits = append(waits, p.all...)
		}
	}
	slices.Sort(waits)
	for _, name := range slices.Compact(waits) {
		def.Input = append(def.Input, "^"+name)
	}
	if strings.HasSuffix(n.Op, "Enter") {
		def.Attr = maps.Clone(def.Attr)
		def.Attr["parallel_iterations"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: 1}}
	}
	return def
}
