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
// its functions ask for, as in TensorFlow. All others are executed as they are by the device's own functions,
// which is faster: 2 to 3 times for a loop of scalars.
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
	"slices"
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
}

// maxNodes bounds what the functions of one graph may become, since a short library can stand for a
// graph of any size.
const maxNodes = 1 << 18

// Functions lowers nodes of g from number from on: those that an Extend added, and that nobody but the caller
// has seen. The result is g with the functions' nodes added; g itself must not be used any more, nor be placed
// before. RESOURCE_EXHAUSTED if they are too many; UNIMPLEMENTED if a function that calls itself has to be lowered, and
// otherwise what Library.Instantiate says of a body that is no graph. Errors name the node.
func Functions(g *graph.Graph, from int, o Options) (*graph.Graph, error) {
	l := &lowerer{g: g, spread: len(o.Devices) > 1, devices: o.Devices, reach: reach{library: g.Library}, owner: map[*graph.Node]*stack{}}
	for _, n := range g.Nodes[from:] {
		if err := l.lower(n); err != nil {
			return nil, status.AtNode(err, n.Name)
		}
	}
	// What the functions' nodes call is lowered in its turn.
	for i := 0; i < len(l.added); i++ {
		if err := l.lower(l.added[i]); err != nil {
			return nil, status.AtNode(err, l.added[i].Name)
		}
	}
	return g.With(l.added), nil
}

// lowerer is one run of Functions.
type lowerer struct {
	g       *graph.Graph
	spread  bool
	devices []place.Device
	reach   reach
	added   []*graph.Node
	owner   map[*graph.Node]*stack // the call that an added node came with
	names   map[string]bool
	bodies  map[string]*graph.FunctionGraph // of functions without attributes
}

// stack are the functions that a node lies in, the innermost first.
type stack struct {
	function string
	caller   *stack
}

func (s *stack) has(function string) bool {
	for ; s != nil; s = s.caller {
		if s.function == function {
			return true
		}
	}
	return false
}

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
	case "SymbolicGradient":
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
	needed := l.spread && (form == remote || l.spans(n, functions))
	if !asked && !needed {
		return nil
	}
	calls := l.owner[n]
	for _, f := range functions {
		if !calls.has(f.Name) {
			continue
		}
		if form == remote || needed && l.reach.of(f.Name).elsewhere(n.Requested) {
			return status.Unimplementedf("Function %s calls itself, and cannot be spread over several devices", f.Name)
		}
		return nil // It is called where it is.
	}
	if functions[0].Name == "SymbolicGradient" {
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

// spans tells whether a node's functions may need more than the device that the node would run on.
func (l *lowerer) spans(n *graph.Node, functions []*graph.FunctionRef) bool {
	for _, t := range n.InTypes {
		if isHandle(t) {
			return true
		}
	}
	for _, f := range functions {
		name := f.Name
		if name == "SymbolicGradient" {
			name = f.Attrs["f"].GetFunc().GetName()
		}
		if r := l.reach.of(name); r.owns || !declines(n) && r.elsewhere(n.Requested) {
			return true
		}
	}
	return false
}

// body instantiates a function.
func (l *lowerer) body(ref *graph.FunctionRef) (*graph.FunctionGraph, error) {
	f := l.g.Library.Functions[ref.Name]
	if f == nil || len(f.GetSignature().GetAttr()) > 0 {
		return l.g.Library.Instantiate(ref.Name, ref.Attrs)
	}
	if fg := l.bodies[ref.Name]; fg != nil {
		return fg, nil
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
	for l.names[want] || l.g.Lookup(want) != nil {
		want += "_"
	}
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[want] = true
	return want
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
