package lower

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
)

// reach determines what functions and their callees request. It visits each function once, however many callers it has, and without
// recursion: a library may be a chain of a million functions.
type reach struct {
	library *graph.Library
	check   func() error
	// supports is Options.Supports, or nil if there are no GPUs.
	supports func(n *graph.Node, deviceType string) bool
	// program reports whether an op calls functions of a program. It may be nil.
	program func(op string) bool
	known   map[string]*reached
	visits  map[string]*visit
	stack   []*visit // functions whose group is not yet known
}

// reached is what the nodes of a function and of its callees request. Mutually recursive functions share one.
type reached struct {
	// devices holds the first two distinct devices requested, or fewer.
	devices [2]string
	// owns is whether one of the nodes owns a named resource, whose home may be on another device.
	owns bool
	// computes is whether one of the nodes does a floating-point computation with an op that has a GPU kernel.
	computes bool
	// programs is whether one of the nodes calls a function of a program.
	programs bool
	// calls is whether the functions call themselves, directly or through each other.
	calls bool
}

// elsewhere reports whether any of the nodes requests a device other than the caller's.
func (r *reached) elsewhere(device string) bool {
	return r.devices[0] != "" && r.devices[0] != device || r.devices[1] != "" && r.devices[1] != device
}

// ask records a requested device.
func (r *reached) ask(device string) {
	switch {
	case device == "" || device == r.devices[0] || device == r.devices[1]:
	case r.devices[0] == "":
		r.devices[0] = device
	case r.devices[1] == "":
		r.devices[1] = device
	}
}

// add records what a called function requests.
func (r *reached) add(called *reached) {
	r.ask(called.devices[0])
	r.ask(called.devices[1])
	r.owns = r.owns || called.owns
	r.computes = r.computes || called.computes
	r.programs = r.programs || called.programs
}

// nothing is the result for functions that do not exist.
var nothing = &reached{}

// visit is the state of a function in Tarjan's algorithm for strongly connected components, which are the groups of mutually recursive
// functions.
type visit struct {
	name    string
	own     reached
	callees []string
	next    int // of callees
	number  int
	low     int
	on      bool // on the stack
}

// of returns what a function reaches. A function that does not exist requests nothing.
func (r *reach) of(function string) (*reached, error) {
	if out := r.known[function]; out != nil {
		return out, nil
	}
	if r.library.Functions[function] == nil {
		return nothing, nil
	}
	if r.known == nil {
		r.known, r.visits = map[string]*reached{}, map[string]*visit{}
	}
	path := []*visit{r.enter(function)}
	for len(path) > 0 {
		if err := r.check(); err != nil {
			return nil, err
		}
		v := path[len(path)-1]
		if v.next < len(v.callees) {
			callee := v.callees[v.next]
			v.next++
			switch w := r.visits[callee]; {
			case r.known[callee] != nil:
				v.own.add(r.known[callee])
			case w == nil:
				path = append(path, r.enter(callee))
			case w.on:
				v.low = min(v.low, w.number)
				v.own.calls = v.own.calls || w == v
			}
			continue
		}
		path = path[:len(path)-1]
		if v.low == v.number {
			r.leave(v)
		}
		if len(path) == 0 {
			break
		}
		caller := path[len(path)-1]
		caller.low = min(caller.low, v.low)
		if out := r.known[v.name]; out != nil {
			caller.own.add(out)
		}
	}
	return r.known[function], nil
}

// enter starts the visit of a function.
func (r *reach) enter(function string) *visit {
	v := &visit{name: function, number: len(r.visits), low: len(r.visits), on: true}
	r.visits[function] = v
	r.stack = append(r.stack, v)
	r.read(v, r.library.Functions[function])
	return v
}

// leave completes a group of mutually recursive functions: first and everything above it on the stack.
func (r *reach) leave(first *visit) {
	at := len(r.stack) - 1
	for r.stack[at] != first {
		at--
	}
	group := r.stack[at:]
	out := &reached{calls: len(group) > 1}
	for _, v := range group {
		out.add(&v.own)
		out.calls = out.calls || v.own.calls
		v.on, v.callees = false, nil
		r.known[v.name] = out
	}
	clear(group)
	r.stack = r.stack[:at]
}

// read records what a function's own nodes request and which functions they call.
func (r *reach) read(v *visit, f *functionpb.FunctionDef) {
	call := func(function string) {
		if r.library.Functions[function] != nil {
			v.callees = append(v.callees, function)
		}
	}
	for _, n := range f.GetNodeDef() {
		v.own.ask(n.GetDevice())
		if n.GetOp() == "RemoteCall" {
			v.own.owns = true // Its target may be anywhere.
		}
		if r.library.Functions[n.GetOp()] != nil {
			call(n.GetOp())
		} else if def, err := graph.LookupOp(n.GetOp()); err == nil && ownsResource(def) {
			v.own.owns = true
		}
		v.own.programs = v.own.programs || r.program != nil && r.program(n.GetOp())
		v.own.computes = v.own.computes || r.supports != nil && r.computes(n)
		for _, a := range n.GetAttr() {
			called(a, call)
		}
	}
}

// computes reports whether a node does a floating-point computation that a GPU could do. A type parameter of the function is assumed to be
// floating-point.
func (r *reach) computes(n *nodepb.NodeDef) bool {
	switch n.GetOp() {
	case "Const", "Identity", "IdentityN", "NoOp", "Switch", "Merge", "Enter", "Exit", "NextIteration", "Shape", "Size", "Rank":
		return false // They pass values on, or read only their metadata.
	}
	attrs, floating := make(graph.Attrs, len(n.GetAttr())), false
	for name, a := range n.GetAttr() {
		if a.GetPlaceholder() != "" {
			a = typeAttr(tensor.Float32)
		}
		attrs[name] = a
		switch t := tensor.FromProto(a.GetType()); t {
		case tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64, tensor.Complex64, tensor.Complex128:
			floating = true
		}
	}
	return floating && r.supports(&graph.Node{Name: n.GetName(), Op: n.GetOp(), Attrs: attrs}, "GPU")
}

// called calls call with the name of each function in an attribute, including those in the attributes of functions.
func called(v *attrpb.AttrValue, call func(function string)) {
	fns := v.GetList().GetFunc()
	if f := v.GetFunc(); f != nil {
		fns = []*attrpb.NameAttrList{f}
	}
	for _, f := range fns {
		call(f.GetName())
		for _, inner := range f.GetAttr() {
			called(inner, call)
		}
	}
}

// ownsResource reports whether an op creates a named resource.
func ownsResource(def *graph.OpDef) bool {
	if !def.GetIsStateful() {
		return false
	}
	for _, a := range def.GetAttr() {
		if a.GetName() == "shared_name" {
			return true
		}
	}
	return false
}

// isHandle reports whether a value of the type is tied to the device of a resource.
func isHandle(t tensor.DType) bool { return t == tensor.Resource || t.IsRef() }
