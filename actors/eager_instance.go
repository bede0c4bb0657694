package actors

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// An instance is the plan that runs one op or function for given attributes, input types and device. Its graph is the node and a
// placeholder for each input, which every step feeds. The session keeps instances as it keeps plans: the least recently used ones make room.

// instanceOf returns the instance for a call of an op, or of function f, claimed for the caller. The first call builds it.
func (r *eagerCall) instanceOf(call *stepCall, op *corepb.Operation, f *eagerFunction, device string, inputs []*tensor.Tensor) (*plan, error) {
	c, s := r.context, r.context.session
	spec := &mainSpec{args: r.args(inputs), here: f == nil || op.GetId() < 0}
	key := c.instanceKey(op, f, device, spec)
	if p, _ := s.ready(key); p != nil {
		return p, nil
	}
	def, node, elsewhere, err := c.instanceGraph(op, f, device, spec.args)
	if err != nil {
		return nil, err
	}
	m := change{message: &wire.BuildInstance{Key: key, Node: node}, def: def}
	if elsewhere != "" {
		if r.shared() != 0 {
			return nil, status.Unimplementedf("Component %s has nodes, inputs or resources on %s: a component runs on one task", op.GetName(), elsewhere)
		}
		if err := c.cluster.Load().check(elsewhere); err != nil {
			return nil, err
		}
		spec.device = c.names.toClient(device)
		if f != nil {
			spec.passed = passedArgs(f.own.given)
		}
		m.main = spec
	}
	ctx, cancel := call.bound(func() {})
	defer cancel()
	for {
		build := m
		if err := s.apply(ctx, &build); err != nil {
			return nil, tooLate(ctx, err, call.limit)
		}
		if p, _ := s.ready(key); p != nil {
			return p, nil
		}
	}
}

// instanceKey identifies the instance of a call. A function that was removed and registered again is another function, and an instance for an earlier
// cluster is another instance: the session may drop it only after the client knows of the update.
func (c *EagerContext) instanceKey(op *corepb.Operation, f *eagerFunction, device string, spec *mainSpec) []byte {
	b := append(append(make([]byte, 0, 512), op.GetName()...), 0)
	b = binary.AppendUvarint(b, c.cluster.Load().view)
	b = append(append(b, device...), 0)
	if f != nil {
		b = binary.AppendUvarint(b, f.serial)
	}
	for _, a := range spec.args {
		b = binary.AppendUvarint(b, uint64(a.dtype))
		b = append(append(append(append(b, a.at...), 0), a.home...), 0)
	}
	if spec.here {
		b = append(b, 1)
	}
	for _, name := range sortedKeys(op.GetAttrs()) {
		b = append(append(append(b, 0), name...), 0)
		b, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, op.GetAttrs()[name]) // a decoded message can be encoded
	}
	for _, called := range graph.Attrs(op.GetAttrs()).Funcs() {
		if f := c.library.get(called.Name); f != nil {
			b = binary.AppendUvarint(b, f.serial)
		}
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// instanceGraph returns the graph of an instance and the name of the node that is the op. If the node needs devices of other tasks, elsewhere
// is one of them, and all devices have the client's names.
func (c *EagerContext) instanceGraph(op *corepb.Operation, f *eagerFunction, device string, args []eagerArg) (def *graphpb.GraphDef, node, elsewhere string, err error) {
	var sig *graph.OpDef
	if f != nil {
		sig = f.own.given.GetSignature()
	} else if sig, err = graph.LookupOp(op.GetName()); err != nil {
		return nil, "", "", err
	}
	types := make([]typespb.DataType, len(args))
	for i, a := range args {
		types[i] = a.dtype
		if c.elsewhere(a) {
			elsewhere = cmp.Or(a.at, a.home)
		}
	}
	n := &nodepb.NodeDef{Name: nodeName(op.GetName()), Op: op.GetName(), Device: device, Attr: inferTypes(sig, op.GetAttrs(), types)}
	if f == nil && sig.GetIsStateful() {
		// A resource that is private to its kernel has the node's name.
		n.Name += "/" + strconv.FormatUint(planIDs.Add(1), 10)
	}
	library, named := c.library.reached(n, f, false)
	if elsewhere = cmp.Or(elsewhere, named); elsewhere != "" {
		library, _ = c.library.reached(n, f, true)
		n.Device = "" // the op's device is a default, to which requests of the function's nodes and the homes of resources are preferred
	}
	def = &graphpb.GraphDef{Library: library}
	for i, a := range args {
		arg := &nodepb.NodeDef{Name: "in/" + strconv.Itoa(i), Op: "Placeholder", Attr: map[string]*attrpb.AttrValue{"dtype": {Value: &attrpb.AttrValue_Type{Type: a.dtype}}}}
		if elsewhere != "" {
			arg.Device = a.home
		}
		n.Input = append(n.Input, arg.Name)
		def.Node = append(def.Node, arg)
	}
	def.Node = append(def.Node, n)
	return def, n.Name, elsewhere, nil
}

// nodeName returns a valid name for the node of an op or a function.
func nodeName(op string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, op)
	if name = strings.TrimLeft(name, "_-"); name == "" {
		return "op"
	}
	return name
}

// inferTypes returns the attributes with those that follow from the types of an op's inputs. It checks nothing.
func inferTypes(sig *graph.OpDef, attrs map[string]*attrpb.AttrValue, types []typespb.DataType) map[string]*attrpb.AttrValue {
	out := attrs
	set := func(name string, v *attrpb.AttrValue) {
		if out[name] != nil {
			return
		}
		if len(out) == len(attrs) { // the given map is the client's
			out = maps.Clone(attrs)
			if out == nil {
				out = map[string]*attrpb.AttrValue{}
			}
		}
		out[name] = v
	}
	args := sig.GetInputArg()
	for i, arg := range args {
		n := min(inputsOf(arg, out, len(types)-(len(args)-i-1)), len(types))
		mine := types[:n]
		types = types[n:]
		if arg.GetNumberAttr() != "" {
			set(arg.GetNumberAttr(), &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: int64(n)}})
		}
		if arg.GetTypeListAttr() != "" {
			set(arg.GetTypeListAttr(), &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{Type: slices.Clone(mine)}}})
		}
		if arg.GetTypeAttr() != "" && n > 0 {
			set(arg.GetTypeAttr(), &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: mine[0]}})
		}
	}
	return out
}

// inputsOf returns how many inputs an argument of an op stands for: as its attribute says or, if that is missing, rest.
func inputsOf(arg *oppb.OpDef_ArgDef, attrs map[string]*attrpb.AttrValue, rest int) int {
	switch {
	case arg.GetNumberAttr() != "" && attrs[arg.GetNumberAttr()] != nil:
		return max(int(min(attrs[arg.GetNumberAttr()].GetI(), int64(max(rest, 0)))), 0)
	case arg.GetTypeListAttr() != "" && attrs[arg.GetTypeListAttr()] != nil:
		return len(attrs[arg.GetTypeListAttr()].GetList().GetType())
	case arg.GetNumberAttr() != "" || arg.GetTypeListAttr() != "":
		return max(rest, 0)
	}
	return 1
}

// buildInstance builds the plan that feeds all inputs of a node, and fetches all its outputs or, if it has none, runs it.
func (s *Session) buildInstance(ctx context.Context, def *graphpb.GraphDef, node string) (*plan, error) {
	var g *graph.Graph
	var sig graph.Signature
	err := s.worker.inTurn(ctx, size(def), func(check func() error) (err error) {
		g, sig, err = s.placeInstance(def, node, s.devices.Load().Devices(), place.Options{Prepared: s.devices.Load()}, check)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.buildPlan(ctx, g, sig, nil)
}

// placeInstance builds, lowers and places an instance's graph on devices, which o has in its own form, and returns it with its signature.
func (s *Session) placeInstance(def *graphpb.GraphDef, node string, devices []place.Device, o place.Options, check func() error) (g *graph.Graph, sig graph.Signature, err error) {
	if g, err = graph.BuildChecked(def, check); err != nil {
		return nil, sig, err
	}
	sig = instanceSignature(g.Lookup(node))
	if g, err = lower.Functions(g, 0, lower.Options{Devices: devices, Supports: supports, KeepConditionals: s.options.branches, Check: check}); err != nil {
		return nil, sig, err
	}
	o.SoftPlacement, o.Supports, o.Colocations, o.Check, o.Warn = s.options.soft, supports, &place.Colocations{}, check, s.warnOfPlacement
	return g, sig, place.Place(g, g.Nodes, o)
}

func (s *Session) warnOfPlacement(m string) {
	s.task.Log.Debug("placement", "session", s.handle, "warning", m)
}

// instanceSignature returns the signature of an instance: all inputs of its node are fed, and all outputs fetched.
func instanceSignature(n *graph.Node) (sig graph.Signature) {
	for _, in := range n.Inputs {
		sig.Feeds = append(sig.Feeds, in.Node.Name+":0")
	}
	for i := range n.OutTypes {
		sig.Fetches = append(sig.Fetches, n.Name+":"+strconv.Itoa(i))
	}
	if len(n.OutTypes) == 0 {
		sig.Targets = []string{n.Name}
	}
	return sig
}

// dropInstances drops the instances that may call a function, or all if name is empty. Steps that run them continue. No call uses one from then on,
// though the session may be busy and drop them only later.
func (c *EagerContext) dropInstances(name string) {
	for _, e := range *c.session.plans.Load() {
		if name == "" || e.calls(name) {
			e.dropped.Store(true)
		}
	}
	c.session.self.Send(&change{message: &wire.DropInstances{Function: name}, ctx: c.session.life, reply: make(chan error, 1)})
}

// calls reports whether a plan may call a function of the library.
func (p *plan) calls(function string) bool { return p.pruned.Library.Functions[function] != nil }
