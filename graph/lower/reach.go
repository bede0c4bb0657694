package lower

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
)

// reach finds what functions ask for, with those that they call.
type reach struct {
	library *graph.Library
	known   map[string]*reached
}

// reached is what the nodes of a function and of those that it calls ask for.
type reached struct {
	devices map[string]bool
	// owns tells that one of them owns a named resource, which may have its home on another device.
	owns bool
}

// elsewhere tells whether any of the nodes asks for another device than that of the caller.
func (r *reached) elsewhere(device string) bool {
	for d := range r.devices {
		if d != device {
			return true
		}
	}
	return false
}

// of looks at a function. One that does not exist asks for nothing.
func (r *reach) of(function string) *reached {
	if out := r.known[function]; out != nil {
		return out
	}
	out := &reached{devices: map[string]bool{}}
	seen := map[string]bool{}
	r.visit(function, out, seen)
	if r.known == nil {
		r.known = map[string]*reached{}
	}
	r.known[function] = out
	return out
}

func (r *reach) visit(function string, out *reached, seen map[string]bool) {
	f := r.library.Functions[function]
	if f == nil || seen[function] {
		return
	}
	seen[function] = true
	for _, n := range f.GetNodeDef() {
		if d := n.GetDevice(); d != "" {
			out.devices[d] = true
		}
		if n.GetOp() == "RemoteCall" {
			out.owns = true // Its target may be anywhere.
		}
		if r.library.Functions[n.GetOp()] != nil {
			r.visit(n.GetOp(), out, seen)
		} else if def, err := graph.LookupOp(n.GetOp()); err == nil && ownsResource(def) {
			out.owns = true
		}
		for _, v := range n.GetAttr() {
			r.visitAttr(v, out, seen)
		}
	}
}

func (r *reach) visitAttr(v *attrpb.AttrValue, out *reached, seen map[string]bool) {
	fns := v.GetList().GetFunc()
	if f := v.GetFunc(); f != nil {
		fns = []*attrpb.NameAttrList{f}
	}
	for _, f := range fns {
		r.visit(f.GetName(), out, seen)
		for _, inner := range f.GetAttr() {
			r.visitAttr(inner, out, seen)
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
