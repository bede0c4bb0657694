// Package lower replaces nodes that run functions of the graph's library by the nodes of these functions, so
// that placement sees each of them: a body may name devices of other tasks, or use a variable that lives on
// one.
//
// A call becomes the body's nodes. A conditional (If, Case) becomes Switches before the bodies of its branches
// and Merges after them. A loop (While, For) becomes the frame of an Enter, Merge, Switch, NextIteration and
// Exit for each of its variables. The lowered node stays in the graph under its name and passes on the body's
// results; its original form is in Node.Lowered. graph.Prune reads what the nodes of a body stand for.
//
// # What is lowered
//
// Conditionals with the attribute _lower_using_switch_merge are lowered, as in TensorFlow. Other nodes are
// lowered if they may not run on one device: if there are several devices (Options.Devices) and a function
// reaches a node that asks for another device, or a named resource, or is passed a resource, which may live
// anywhere. A node that forbids lowering (the attribute is there and false) runs on one device whatever devices
// its functions ask for, as in TensorFlow.
//
// Nodes are lowered for GPUs, too, whose executors call no functions: if the node asks for one, or may run on one and its functions compute
// with floating-point numbers by ops that GPUs have kernels for. The nodes of the functions are then placed one by one: those with
// kernels for GPUs on one, others on the host.
//
// All others are executed as they are by the device's own functions, which is faster: 2 to 3 times for a loop of scalars.
//
// # What a body's nodes keep
//
// A call is strict, like an executed one. Its results come when everything that the body does for its effect is
// done. None of that begins before all arguments, and everything that the call waits for, are there. So the
// order of effects is the same however a function is run. A body's node that asks for no device, or for part of
// one, gets the caller's instead. Names begin with the caller's, colocation within the body is kept, and frames
// are the call's own.
//
// The forms are those of TensorFlow's lower_{if,case,while}_op.cc and inline_function_utils.cc. Strict calls,
// and loop values that are passed through entering the loop as constants, are Troupe's.
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

// Options are a session's circumstances.
type Options struct {
	// Devices are those that nodes may be placed on. With one of them every function runs there.
	Devices []place.Device
	// Supports tells whether a node has a kernel for a device type. With nil only CPUs have any.
	Supports func(n *graph.Node, deviceType string) bool
	// Check, if not nil, is called now and then. Its error ends the pass.
	Check func() error
}

// maxNodes bounds what the functions of one graph may become, since a short library can stand for a
// graph of any size.
const maxNodes = 1 << 18

// maxWork bounds what the functions take to put in: their nodes, with all inputs, outputs and controls, for each call.
// A node may have as many of them as its function has arguments, and a body may have nodes that nothing needs.
const maxWork = 1 << 25

// maxRecursion bounds how deep functions that call each other are looked through for one that calls itself.
const maxRecursion = 1 << 12

// Functions lowers nodes of g from number from on: those that an Extend added, and that nobody but the caller
// has seen. The result is g with the functions' nodes added; g itself must not be used any more, nor be placed
// before. It takes time in proportion to the nodes that there are then. RESOURCE_EXHAUSTED if they are too many; UNIMPLEMENTED if a function that calls itself has to be lowered, and
// otherwise what Library.Instantiate says of a body that is no graph. Errors name the node.
func Functions(g *graph.Graph, from int, o Options) (*graph.Graph, error) {
	l := &lowerer{g: g, spread: len(o.Devices) > 1, devices: o.Devices, owner: map[*graph.Node]*stack{}, check: graph.Now(o.Check)}
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
	// What the functions' nodes call is lowered in its turn.
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

// onGPU tells whether a device is a GPU.
func onGPU(d place.Device) bool { return d.Type == "GPU" }

// lowerer is one run of Functions.
type lowerer struct {
	g       *graph.Graph
	spread  bool
	devices []place.Device
	reach   reach
	added   []*graph.Node
	owner   map[*graph.Node]*stack // the call that an added node came with
	names   map[string]int         // how often a name was asked for that was taken
	check   func() error
	work    int                             // see maxWork
	bodies  map[string]*graph.FunctionGraph // of functions without attributes

	// supports is Options.Supports where there are GPUs, else nil.
	supports func(n *graph.Node, deviceType string) bool
	// inherited are added nodes that have the type of their device from their caller.
	inherited []*graph.Node
}

// stack are the functions that a node lies in, the innermost first.
type stack struct {
	function string
	reached  *reached
	gradient bool // one of them is a gradient, which may call what its function does not
	caller   *stack
}

// calling is the stack of what lies in a function that is called from s.
func (l *lowerer) calling(s *stack, function string) (*stack, error) {
	r, err := l.reach.of(function)
	return &stack{function: function, reached: r, gradient: function == gradientOp || s != nil && s.gradient, caller: s}, err
}

// has tells whether a function is one of those that a node lies in. Only one that calls itself can be, and only behind
// functions that call it in their turn: the others need not be looked at.
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

// gradientOp is the op whose function is the gradient of another one.
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

// formOf tells how a node runs functions, and which ones.
func formOf(n *graph.Node) (form, []*graph.FunctionRef) {
	switch n.Op {
	case "If", "StatelessIf", "_If":
		// Switch puts out what is for false first.
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

// refs are the functions that attributes name.
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

// lower puts the nodes of a node's functions in its place, where that is called for.
func (l *lowerer) lower(n *graph.Node) error {
	form, functions := formOf(n)
	if form == plain && l.g.Library.Functions[n.Op] != nil {
		form, functions = call, []*graph.FunctionRef{{Name: n.Op, Attrs: n.Attrs}}
	}
	if len(functions) == 0 {
		return nil
	}
	asked := form == conditional && n.Attrs[lowerAttr].GetB() &&
		!n.Attrs["_XlaMustCompile"].GetB() && len(n.Attrs["_XlaCluster"].GetS())+len(n.Attrs["_tpu_replicate"].GetS()) == 0
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
		return nil // It is called where it is.
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

// callsFunctions tells whether functions run on behalf of n.
func (l *lowerer) callsFunctions(n *graph.Node) bool {
	form, _ := formOf(n)
	return form != plain || l.g.Library.Functions[n.Op] != nil
}

// lowerAttr is TensorFlow's attribute by which a node asks to be lowered, or not to be.
const lowerAttr = "_lower_using_switch_merge"

// declines tells whether a node asks not to be lowered.
func declines(n *graph.Node) bool {
	v := n.Attrs[lowerAttr]
	return v != nil && !v.GetB()
}

// written names the function of the library that a reference stands for: that which a gradient is of.
func written(f *graph.FunctionRef) string {
	if f.Name == gradientOp {
		return f.Attrs["f"].GetFunc().GetName()
	}
	return f.Name
}

// spans tells whether a node's functions may need more than the device that the node would run on.
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

// gains tells whether a node's functions should run on a GPU.
func (l *lowerer) gains(n *graph.Node, functions []*graph.FunctionRef) (bool, error) {
	if l.supports == nil {
		return false, nil
	}
	spec, err := place.Parse(n.Requested)
	if err != nil || !slices.ContainsFunc(l.devices, func(d place.Device) bool { return onGPU(d) && spec.Matches(d.Spec) }) {
		return false, nil //nolint:nilerr // Placing the node says what is wrong with its device.
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

// relax lets nodes that have no kernel for GPUs go to the host, where not they but their callers asked for a GPU.
func (l *lowerer) relax() {
	for _, n := range l.inherited {
		if !l.supports(n, "GPU") {
			n.Requested = onTask(n.Requested)
		}
	}
}

// spend notes work that is about to be done.
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

// name makes a name that no node of the graph has.
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

// longName is the length from which the name of a call is cut before the names of its function's nodes: calls that are
// nested deeply would take memory with the square of the depth.
const longName = 1 << 10

// within is how the names of nodes begin that come with a call.
func within(call string) string {
	if len(call) <= longName {
		return call
	}
	sum := sha256.Sum256([]byte(call))
	return call[:longName/2] + "/" + hex.EncodeToString(sum[:12])
}

// onTask is the part of a device name that names a task: where the nodes go that only route values.
func onTask(device string) string {
	task, _, _ := strings.Cut(device, "/device:")
	if i := strings.LastIndexByte(task, '/'); i >= 0 && !slices.ContainsFunc([]string{"job:", "replica:", "task:"}, func(p string) bool {
		return strings.HasPrefix(task[i+1:], p)
	}) {
		task = task[:i] // The old form, /job:j/cpu:0.
	}
	return task
}
