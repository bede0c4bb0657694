// Package lower replaces nodes that run functions of the graph's library with the nodes of these functions, so that each can be placed
// separately: a body may name devices of other tasks, or use a variable that lives on one.
//
// A call becomes the body's nodes. A conditional (If, Case) becomes Switches before the bodies of its branches and Merges after them. A
// loop (While, For) becomes a frame with an Enter, Merge, Switch, NextIteration and Exit for each of its variables. The lowered node stays
// in the graph under its name and forwards the body's results; its original form is in Node.Lowered. graph.Prune resolves the forwarding.
//
// # What is lowered
//
// Conditionals with the attribute _lower_using_switch_merge are lowered, as in TensorFlow. Other nodes are lowered if they may not be able
// to run on one device: if there are several devices (Options.Devices) and a function reaches a node that requests another device, or a
// named resource, or is passed a resource, which may live anywhere. A node that forbids lowering (the attribute is present and false) runs
// on one device whatever devices its functions request, as in TensorFlow.
//
// Nodes are also lowered for GPUs, whose executors do not call functions: if the node requests a GPU, or if it may run on one and its
// functions do floating-point computations with ops that have GPU kernels. The nodes of the functions are then placed individually: those
// with GPU kernels on a GPU, others on the host.
//
// All other nodes are executed unchanged, by the device's own function calls, which is 2 to 3 times as fast for a loop of scalars.
//
// # What a body's nodes keep
//
// A call is strict, like an executed one. Its results are available only when all effects of the body are done, and no effect starts
// before all arguments have arrived and everything that the call waits for is done. The order of effects is therefore the same however a
// function is run. A node of the body that requests no device, or only part of one, inherits the rest from the caller. Names begin with
// the caller's name, colocation within the body is kept, and each call has its own frames.
//
// The forms are those of TensorFlow's lower_{if,case,while}_op.cc and inline_function_utils.cc. Strict calls, and passed-through loop
// values that enter the loop as constants, are Troupe's.
package lower

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
)

// Options configure Functions for a session.
type Options struct {
	// Devices are the devices that nodes may be placed on. If there is only one, every function runs there.
	Devices []place.Device
	// Supports reports whether a node has a kernel for a device type. If it is nil, only CPUs have kernels.
	Supports func(n *graph.Node, deviceType string) bool
	// KeepConditionals makes conditionals that request lowering call their branches instead, unless devices require lowering.
	KeepConditionals bool
	// Check, if not nil, is called from time to time. If it returns an error, Functions stops.
	Check func() error
}

// maxNodes limits the nodes that the functions of one graph may become, since a short library can stand for a graph of any size.
const maxNodes = 1 << 18

// maxWork limits the cost of inlining functions: their nodes, with all inputs, outputs and controls, for each call. A node may have as
// many of them as its function has arguments, and a body may have nodes that nothing needs.
const maxWork = 1 << 25

// maxRecursion limits the depth to which mutually recursive functions are searched for one that calls itself.
const maxRecursion = 1 << 12

// Functions lowers the nodes of g from number from on, which are those that an Extend added and that only the caller has seen. It returns
// g with the functions' nodes added; g itself must not be used afterwards, nor have been placed before. It takes time proportional to the
// resulting number of nodes.
//
// Errors name the node: RESOURCE_EXHAUSTED if there are too many nodes, UNIMPLEMENTED if a function that calls itself would have to be
// lowered, and otherwise the errors of Library.Instantiate for an invalid body.
func Functions(g *graph.Graph, from int, o Options) (*graph.Graph, error) {
	l := &lowerer{g: g, spread: len(o.Devices) > 1, keepConditionals: o.KeepConditionals, devices: o.Devices, owner: map[*graph.Node]*stack{}, check: graph.Now(o.Check)}
	l.reach = reach{library: g.Library, check: l.check}
	if o.Supports != nil && slices.ContainsFunc(o.Devices, onGPU) {
		l.supports, l.reach.supports = o.Supports, o.Supports
	}
	for _, n := range g.Nodes[from:] {
		if err := l.check(); err != nil {
			return nil, err
		}
		if err := l.lower(n); err != nil {
			return nil, status.AtNode(err, n.Name)
		}
	}
	// Lower what the functions' nodes call in turn.
	for i := 0; i < len(l.added); i++ {
		if err := l.check(); err != nil {
			return nil, err
		}
		if err := l.lower(l.added[i]); err != nil {
			return nil, status.AtNode(err, l.added[i].Name)
		}
	}
	l.relax()
	return g.With(l.added), nil
}

// onGPU reports whether a device is a GPU.
func onGPU(d place.Device) bool { return d.Spec.Type == "GPU" }

// lowerer is one run of Functions.
type lowerer struct {
	g      *graph.Graph
	spread bool

	keepConditionals bool // see Options

	devices []place.Device
	reach   reach
	added   []*graph.Node
	owner   map[*graph.Node]*stack // the call that added a node
	names   map[string]int         // how often each name was requested when already taken
	check   func() error
	work    int                             // see maxWork
	bodies  map[string]*graph.FunctionGraph // of functions without attributes

	// supports is Options.Supports if there are GPUs, else nil.
	supports func(n *graph.Node, deviceType string) bool
	// inherited lists added nodes whose device type comes from their caller.
	inherited []*graph.Node
}

// stack lists the functions that a node is nested in, innermost first.
type stack struct {
	function string
	reached  *reached
	gradient bool // one of them is a gradient, which may call what its function does not
	caller   *stack
}

// calling returns the stack for the body of a function called from s.
func (l *lowerer) calling(s *stack, function string) (*stack, error) {
	r, err := l.reach.of(function)
	return &stack{function: function, reached: r, gradient: function == gradientOp || s != nil && s.gradient, caller: s}, err
}

// has reports whether a function is one of those that a node is nested in. That is only possible for a function that calls itself, and
// only through functions that it calls in turn, so the others are not searched.
func (s *stack) has(function string, r *reached) (bool, error) {
	for depth := 0; s != nil && (s.gradient || r.calls && s.reached == r); s = s.caller {
		if s.function == function {
			return true, nil
		}
		if depth++; depth > maxRecursion {
			return false, status.Errorf(status.ResourceExhausted, "Function %s is called within more than %d functions that call each other, and cannot be spread over several devices", function, maxRecursion)
		}
	}
	return false, nil
}

// gradientOp is the op whose function is the gradient of another function.
const gradientOp = "SymbolicGradient"

// form is how a node runs functions.
type form uint8

const (
	plain form = iota
	call
	conditional
	loop
	counted // For
	remote  // RemoteCall
)

// formOf returns how a node runs functions, and which ones.
func formOf(n *graph.Node) (form, []*graph.FunctionRef) {
	switch n.Op {
	case "If", "StatelessIf", "_If":
		// Switch has the output for false first.
		return conditional, refs(n, "else_branch", "then_branch")
	case "Case", "StatelessCase":
		return conditional, refs(n, "branches")
	case "While", "StatelessWhile", "_While":
		return loop, refs(n, "cond", "body")
	case "For":
		return counted, refs(n, "body")
	case "PartitionedCall", "StatefulPartitionedCall":
		return call, refs(n, "f")
	case gradientOp:
		return call, []*graph.FunctionRef{{Name: n.Op, Attrs: n.Attrs}}
	case "RemoteCall":
		return remote, refs(n, "f")
	}
	return plain, nil
}

// refs returns the functions that attributes name.
func refs(n *graph.Node, attrs ...string) []*graph.FunctionRef {
	var out []*graph.FunctionRef
	for _, a := range attrs {
		v := n.Attrs[a]
		fns := v.GetList().GetFunc()
		if f := v.GetFunc(); f != nil {
			fns = []*attrpb.NameAttrList{f}
		}
		for _, f := range fns {
			out = append(out, &graph.FunctionRef{Name: f.GetName(), Attrs: f.GetAttr()})
		}
	}
	return out
}

// lower replaces a node with the nodes of its functions, if necessary.
func (l *lowerer) lower(n *graph.Node) error {
	form, functions := formOf(n)
	if form == plain && l.g.Library.Functions[n.Op] != nil {
		form, functions = call, []*graph.FunctionRef{{Name: n.Op, Attrs: n.Attrs}}
	}
	if len(functions) == 0 {
		return nil
	}
	asked := !l.keepConditionals && form == conditional && asks(n)
	needed := l.spread && form == remote
	if l.spread && !needed {
		var err error
		if needed, err = l.spans(n, functions); err != nil {
			return err
		}
	}
	if !asked && !needed {
		if gpu, err := l.gains(n, functions); !gpu || err != nil {
			return err
		}
	}
	calls := l.owner[n]
	for _, f := range functions {
		r, err := l.reach.of(f.Name)
		if err != nil {
			return err
		}
		within, err := calls.has(f.Name, r)
		if err != nil {
			return err
		}
		if !within {
			continue
		}
		if form == remote || needed && r.elsewhere(n.Requested) {
			return status.Unimplementedf("Function %s calls itself, and cannot be spread over several devices", f.Name)
		}
		return nil // The node calls it as usual.
	}
	if functions[0].Name == gradientOp {
		if _, err := l.body(functions[0]); err != nil {
			return nil //nolint:nilerr // A gradient that does not exist fails the steps that run it, and no others.
		}
	}
	s := &site{lowerer: l, node: n, calls: calls}
	if err := s.readReferences(); err != nil {
		return err
	}
	original := *n
	var err error
	switch form {
	case call:
		err = s.call(functions[0], n.Inputs, n.Requested)
	case remote:
		err = s.remoteCall(functions[0])
	case conditional:
		err = s.conditional(functions)
	case loop:
		err = s.while(functions[0], functions[1])
	case counted:
		err = s.count(functions[0])
	}
	if err != nil {
		return err
	}
	original.Inputs = s.inputs
	n.Lowered = &original
	return s.replace()
}

// callsFunctions reports whether functions run on behalf of n.
func (l *lowerer) callsFunctions(n *graph.Node) bool {
	form, _ := formOf(n)
	return form != plain || l.g.Library.Functions[n.Op] != nil
}

// Attr is TensorFlow's attribute by which a node requests or forbids lowering.
const Attr = "_lower_using_switch_merge"

// asks reports whether a conditional requests lowering and is not left intact for a compiler.
func asks(n *graph.Node) bool {
	return n.Attrs[Attr].GetB() && !n.Attrs["_XlaMustCompile"].GetB() && len(n.Attrs["_XlaCluster"].GetS())+len(n.Attrs["_tpu_replicate"].GetS()) == 0
}

// declines reports whether a node forbids lowering.
func declines(n *graph.Node) bool {
	v := n.Attrs[Attr]
	return v != nil && !v.GetB()
}

// written returns the name of the library function that a reference stands for; for a gradient, that is the function differentiated.
func written(f *graph.FunctionRef) string {
	if f.Name == gradientOp {
		return f.Attrs["f"].GetFunc().GetName()
	}
	return f.Name
}

// spans reports whether a node's functions may need more than the device that the node would run on.
func (l *lowerer) spans(n *graph.Node, functions []*graph.FunctionRef) (bool, error) {
	for _, t := range n.InTypes {
		if isHandle(t) {
			return true, nil
		}
	}
	for _, f := range functions {
		r, err := l.reach.of(written(f))
		if err != nil {
			return false, err
		}
		if r.owns || !declines(n) && r.elsewhere(n.Requested) {
			return true, nil
		}
	}
	return false, nil
}

// gains reports whether a node's functions should run on a GPU.
func (l *lowerer) gains(n *graph.Node, functions []*graph.FunctionRef) (bool, error) {
	if l.supports == nil {
		return false, nil
	}
	spec, err := place.Parse(n.Requested)
	if err != nil || !slices.ContainsFunc(l.devices, func(d place.Device) bool { return onGPU(d) && spec.Matches(d.Spec) }) {
		return false, nil //nolint:nilerr // Placing the node reports what is wrong with its device.
	}
	if spec.Type != "" {
		return true, nil
	}
	if declines(n) {
		return false, nil
	}
	for _, f := range functions {
		if r, err := l.reach.of(written(f)); err != nil || r.computes {
			return err == nil, err
		}
	}
	return false, nil
}

// relax allows nodes without a GPU kernel to run on the host, if they inherited the request for a GPU from their caller.
func (l *lowerer) relax() {
	for _, n := range l.inherited {
		if !l.supports(n, "GPU") {
			n.Requested = onTask(n.Requested)
		}
	}
}

// spend accounts for work about to be done.
func (l *lowerer) spend(n int) error {
	if l.work += n; l.work > maxWork {
		return status.Errorf(status.ResourceExhausted, "The functions that the graph's nodes call have more than %d nodes, inputs and outputs in all", maxWork)
	}
	return l.check()
}

// body instantiates a function.
func (l *lowerer) body(ref *graph.FunctionRef) (*graph.FunctionGraph, error) {
	f := l.g.Library.Functions[ref.Name]
	if fg := l.bodies[ref.Name]; fg != nil && len(f.GetSignature().GetAttr()) == 0 {
		return fg, nil
	}
	if err := l.spend(len(f.GetNodeDef())); err != nil {
		return nil, err
	}
	if f == nil || len(f.GetSignature().GetAttr()) > 0 {
		return l.g.Library.Instantiate(ref.Name, ref.Attrs)
	}
	fg, err := l.g.Library.Instantiate(ref.Name, ref.Attrs)
	if err == nil {
		if l.bodies == nil {
			l.bodies = map[string]*graph.FunctionGraph{}
		}
		l.bodies[ref.Name] = fg
	}
	return fg, err
}

// name returns a name that no node of the graph has.
func (l *lowerer) name(want string) string {
	if l.names == nil {
		l.names = map[string]int{}
	}
	name := want
	for l.taken(name) {
		l.names[want]++
		if name = want + "_"; l.names[want] > 1 {
			name += strconv.Itoa(l.names[want])
		}
	}
	l.names[name] = 0
	return name
}

func (l *lowerer) taken(name string) bool {
	_, added := l.names[name]
	return added || l.g.Lookup(name) != nil
}

// longName is the length above which a call's name is shortened before it prefixes the names of its function's nodes. Otherwise deeply
// nested calls would take memory quadratic in the depth.
const longName = 1 << 10

// within returns the prefix for the names of nodes added by a call.
func within(call string) string {
	if len(call) <= longName {
		return call
	}
	sum := sha256.Sum256([]byte(call))
	return call[:longName/2] + "/" + hex.EncodeToString(sum[:12])
}

// onTask returns the part of a device name that names a task. Nodes that only route values are placed there.
func onTask(device string) string {
	task, _, _ := strings.Cut(device, "/device:")
	if i := strings.LastIndexByte(task, '/'); i >= 0 && !slices.ContainsFunc([]string{"job:", "replica:", "task:"}, func(p string) bool {
		return strings.HasPrefix(task[i+1:], p)
	}) {
		task = task[:i] // The old form, /job:j/cpu:0.
	}
	return task
}
