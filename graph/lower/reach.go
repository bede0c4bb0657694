package lower

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
)

// reach finds what functions ask for, with those that they call. It visits each function once, whatever calls it, and
// without recursion: a library may be a chain of a million functions.
type reach struct {
	library *graph.Library
	check   func() error
	// supports is that of Options; nil where there are no GPUs.
	supports func(n *graph.Node, deviceType string) bool
	known    map[string]*reached
	visits   map[string]*visit
	stack    []*visit // functions whose group is not known yet
}

// reached is what the nodes of a function and of those that it calls ask for. Functions that call each other share one.
type reached struct {
	// devices are two different ones that are asked for, or all of them where they are fewer.
	devices [2]string
	// owns tells that one of the nodes owns a named resource, which may have its home on another device.
	owns bool
	// computes tells that one of the nodes computes with floating-point numbers, by an op that GPUs have a kernel for.
	computes bool
	// calls tells that the functions call themselves, directly or through each other.
	calls bool
}

// elsewhere tells whether any of the nodes asks for another device than that of the caller.
func (r *reached) elsewhere(device string) bool {
	return r.devices[0] != "" && r.devices[0] != device || r.devices[1] != "" && r.devices[1] != device
}

// ask notes a device that a node asks for.
func (r *reached) ask(device string) {
	switch {
	case device == "" || device == r.devices[0] || device == r.devices[1]:
	case r.devices[0] == "":
		r.devices[0] = device
	case r.devices[1] == "":
		r.devices[1] = device
	}
}

// add notes what a function that is called asks for.
func (r *reached) add(called *reached) {
	r.ask(called.devices[0])
	r.ask(called.devices[1])
	r.owns = r.owns || called.owns
	r.computes = r.computes || called.computes
}

// nothing is what a function asks for that does not exist.
var nothing = &reached{}

// visit is a function that is being looked at: Tarjan's algorithm for strongly connected components, which are the
// groups of functions that call each other.
type visit struct {
	name    string
	own     reached
	callees []string
	next    int // of callees
	number  int
	low     int
	on      bool // the stack
}

// of looks at a function. One that does not exist asks for nothing.
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

// enter begins with a function.
func (r *reach) enter(function string) *visit {
	v := &visit{name: function, number: len(r.visits), low: len(r.visits), on: true}
	r.visits[function] = v
	r.stack = append(r.stack, v)
	r.read(v, r.library.Functions[function])
	return v
}

// leave ends a group of functions that call each other, with all of them behind first on the stack.
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

// read notes what a function's own nodes ask for, and which functions they call.
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
		v.own.computes = v.own.computes || r.supports != nil && r.computes(n)
		for _, a := range n.GetAttr() {
			called(a, call)
		}
	}
}

// computes tells whether a node computes with floating-point numbers, and a GPU could do that. A type that the function is
// instantiated for may be one.
func (r *reach) computes(n *nodepb.NodeDef) bool {
	switch n.GetOp() {
	case "Const", "Identity", "IdentityN", "NoOp", "Switch", "Merge", "Enter", "Exit", "NextIteration", "Shape", "Size", "Rank":
		return false // They pass values on, or read what is known of them.
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

// called names the functions that an attribute holds, also within the attributes of functions.
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

// ownsResource tells whether an op makes a resource that has a name.
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

// isHandle tells whether a value of the type belongs to the device of a resource.
func isHandle(t tensor.DType) bool { return t == tensor.Resource || t.IsRef() }
