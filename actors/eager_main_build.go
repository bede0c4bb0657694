package actors

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/component"
	"github.com/troupe-run/troupe/graph/partition"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// mainSpec is what the instance of a main is made for besides its graph.
type mainSpec struct {
	args []eagerArg
	here bool // all outputs are to be on the main's task
	// passed has for each output of a function the argument that it returns, or -1: such a result stays where the argument's tensor lies.
	passed []int
	// device is the client's name for the device that the op is for; nodes without a request or a resource run there.
	device string
}

// buildMain builds the plan of an op or a function over several tasks. Everything has the client's names until the main's own part is known.
func (c *EagerContext) buildMain(ctx context.Context, def *graphpb.GraphDef, node string, spec *mainSpec) (*plan, error) {
	s := c.session
	if c.task.EagerService == nil || c.task.Pull == nil {
		return nil, status.Unimplementedf("%s runs no functions with parts on other tasks", c.task.name)
	}
	b := &mainBuilder{context: c, cluster: c.cluster.Load(), spec: spec, home: c.names.toClient(s.worker.devices[0].Name())}
	p := &plan{id: planIDs.Add(1), remote: map[string]*planPart{}, main: &eagerMain{}}
	err := s.worker.inTurn(ctx, size(def), func(check func() error) (err error) {
		if p.pruned, err = b.prune(def, node, check); err != nil {
			return err
		}
		b.parts, err = partition.Split(p.pruned.Graph, partition.Options{Incarnation: func(device string) uint64 { return b.cluster.incarnations[device] },
			MemoryTypes: kernels.MemoryTypes, Supports: supports, Check: check})
		return err
	})
	if err != nil {
		return nil, err
	}
	p.main.outputs = len(p.pruned.Fetches)
	own, err := b.divide(p.main, nodeName(node))
	if err != nil {
		return nil, err
	}
	specs := feedSpecs(b.graph, p.pruned)
	for _, i := range p.main.feeds {
		p.feeds = append(p.feeds, specs[i])
	}
	p.used.Store(time.Now().UnixNano())
	err = s.worker.inTurn(ctx, len(p.pruned.Nodes), func(check func() error) (err error) {
		p.local, err = s.worker.compile(own, false, check)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := p.local.hold(p.bytes(true)); err != nil {
		p.local.release()
		return nil, err
	}
	p.local.closed = func() {
		for _, part := range p.main.parts {
			part.remove(c)
		}
	}
	return p, nil
}

// mainBuilder builds a main.
type mainBuilder struct {
	context *EagerContext
	cluster *eagerCluster
	spec    *mainSpec
	home    string // the main's CPU
	graph   *graph.Graph
	parts   *partition.Parts
}

// prune lowers and places an instance's graph, and returns what its call runs. An argument is where its tensor lies, and a result where it
// arises.
func (b *mainBuilder) prune(def *graphpb.GraphDef, node string, check func() error) (*graph.Pruned, error) {
	all := b.cluster.devices
	g, sig, err := b.context.session.placeInstance(def, node, all, place.Options{Devices: all, Default: cmp.Or(b.spec.device, b.home)}, check)
	if err != nil {
		return nil, err
	}
	b.graph = g
	pruned, err := graph.PruneChecked(g, sig, b.home, check)
	if err != nil {
		return nil, err
	}
	for i, arg := range pruned.Feeds {
		arg.Assigned = cmp.Or(b.spec.args[i].at, b.home)
	}
	for i, ret := range pruned.Fetches {
		switch {
		case b.spec.here:
		case i < len(b.spec.passed) && b.spec.passed[i] >= 0:
			ret.Assigned = cmp.Or(b.spec.args[b.spec.passed[i]].at, b.home)
		default:
			ret.Assigned = ret.Inputs[0].Node.Assigned
		}
	}
	return pruned, nil
}

// passedArgs returns for each output of a function the index of the argument that it returns, at most through identities, or -1. It returns
// nil if arguments of the function are lists. As in TensorFlow, what a called function returns is not an argument of its caller.
func passedArgs(f *functionpb.FunctionDef) []int {
	args := map[string]int{}
	for i, arg := range f.GetSignature().GetInputArg() {
		if arg.GetNumberAttr() != "" || arg.GetTypeListAttr() != "" {
			return nil
		}
		args[arg.GetName()] = i
	}
	identities := map[string]string{}
	for _, n := range f.GetNodeDef() {
		if n.GetOp() == "Identity" && n.GetAttr()["_class"] == nil && len(n.GetInput()) > 0 {
			identities[n.GetName()+":output:0"] = n.GetInput()[0]
		}
	}
	passed := make([]int, len(f.GetSignature().GetOutputArg()))
	for i, out := range f.GetSignature().GetOutputArg() {
		first := f.GetRet()[out.GetName()]
		from := first
		for range identities { // a chain of identities; what is not one is not valid, and an error elsewhere
			in, ok := identities[from]
			if !ok {
				break
			}
			from = in
		}
		for first != from { // many outputs may return parts of one long chain
			first, identities[first] = identities[first], from
		}
		arg, ok := args[from]
		if !ok {
			arg = -1
		}
		passed[i] = arg
	}
	return passed
}

// divide returns the parts of the main's own devices, by their own names, and makes components of the others.
func (b *mainBuilder) divide(m *eagerMain, name string) (map[string]*graph.Graph, error) {
	own := map[string]*graph.Graph{}
	call := rand.Uint64()
	for i, device := range b.parts.Devices {
		part := b.parts.ByDevice[device]
		if local, ok := b.context.names.toOwn(device); ok {
			b.adopt(m, part)
			own[local] = part
			continue
		}
		if !slices.ContainsFunc(part.Nodes, func(n *graph.Node) bool { return n.Op != "_Arg" }) {
			continue // arguments that nothing reads
		}
		f, err := component.Define(fmt.Sprintf("%s_partitioned_%d_%d", name, call, i), part)
		if err != nil {
			return nil, err
		}
		m.parts = append(m.parts, &eagerPart{device: device, args: f.Args, rets: f.Rets, turn: make(chan struct{}, 1),
			function: &corepb.RegisterFunctionOp{FunctionDef: f.Def, IsComponentFunction: true, Library: part.Library.For(part).Proto()}})
	}
	return own, nil
}

// adopt makes a part one of this task: it gets the task's own names, its edges to other tasks pass through the rendezvous of the call, and
// its arguments and results are numbered among those of the main's own part.
func (b *mainBuilder) adopt(m *eagerMain, part *graph.Graph) {
	n := b.context.names
	for _, node := range part.Nodes {
		node.Assigned, _ = n.toOwn(node.Assigned)
		node.Requested = node.Assigned
		switch node.Op {
		case "_Arg":
			node.Attrs = numbered(node, &m.feeds)
		case "_Retval":
			node.Attrs = numbered(node, &m.fetches)
		case "_Send", "_HostSend", "_Recv", "_HostRecv":
			from, fromOwn := n.toOwn(string(node.Attrs["send_device"].GetS()))
			to, toOwn := n.toOwn(string(node.Attrs["recv_device"].GetS()))
			node.Attrs = maps.Clone(node.Attrs)
			if fromOwn && toOwn {
				node.Attrs["send_device"], node.Attrs["recv_device"] = textAttr(from), textAttr(to)
			} else {
				node.Attrs["tensor_name"] = textAttr(eagerEdge + edgeKey(node.Attrs))
			}
		}
	}
}

// numbered appends the index of an _Arg or _Retval node to those of the own part, and returns the attributes with its place there.
func numbered(node *graph.Node, all *[]int) graph.Attrs {
	attrs := maps.Clone(node.Attrs)
	attrs["index"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: int64(len(*all))}}
	*all = append(*all, component.Index(node))
	return attrs
}

func textAttr(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}
