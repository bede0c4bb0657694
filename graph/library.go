package graph

import (
	"maps"
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

// Library holds the functions that a graph's nodes may call, and the names of their gradients.
// It is immutable, as are the messages in it.
type Library struct {
	Functions map[string]*functionpb.FunctionDef
	Gradients map[string]string
	// compiled holds the functions' signatures if Merge made the library.
	compiled map[string]*signature
}

// Merge returns the library with the functions of more added, or l itself if nothing is new. INVALID_ARGUMENT: a function with the name of
// an op or of a different function, or a second gradient of a function.
func (l *Library) Merge(more *functionpb.FunctionDefLibrary) (*Library, error) {
	out := l
	own := func() {
		if out == l {
			out = &Library{maps.Clone(l.Functions), maps.Clone(l.Gradients), maps.Clone(l.compiled)}
		}
	}
	for _, f := range more.GetFunction() {
		name := f.GetSignature().GetName()
		if have, ok := out.Functions[name]; ok {
			if have != f && !equalFunctions(have, f) {
				return nil, status.InvalidArgumentf("Cannot add function '%s' because a different function with the same name already exists.", name)
			}
			continue
		}
		if isOp(name) {
			return nil, status.InvalidArgumentf("Cannot add function '%s' because an op with the same name already exists.", name)
		}
		if name == "" {
			return nil, status.InvalidArgumentf("Cannot add a function without a name")
		}
		s, err := compile(f.GetSignature())
		if err != nil {
			return nil, status.InvalidArgumentf("Cannot add function '%s': %v", name, err)
		}
		own()
		put(&out.Functions, name, f)
		put(&out.compiled, name, s)
	}
	for _, g := range more.GetGradient() {
		name, gradient := g.GetFunctionName(), g.GetGradientFunc()
		if have, ok := out.Gradients[name]; ok {
			if have != gradient {
				return nil, status.InvalidArgumentf("Cannot assign gradient function '%s' to '%s' because it already has gradient function '%s'", gradient, name, have)
			}
			continue
		}
		own()
		put(&out.Gradients, name, gradient)
	}
	return out, nil
}

func put[V any](m *map[string]V, name string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = v
}

// equalFunctions reports whether two functions are equal. Like TensorFlow, it ignores purely descriptive fields.
func equalFunctions(a, b *functionpb.FunctionDef) bool {
	if !proto.Equal(a.GetSignature(), b.GetSignature()) || !maps.Equal(a.GetRet(), b.GetRet()) || !maps.Equal(a.GetControlRet(), b.GetControlRet()) ||
		!slices.EqualFunc(a.GetNodeDef(), b.GetNodeDef(), equalNodes) {
		return false
	}
	set := 0
	for name, v := range a.GetAttr() {
		if v.GetValue() == nil {
			continue
		}
		set++
		if !proto.Equal(v, b.GetAttr()[name]) {
			return false
		}
	}
	for _, v := range b.GetAttr() {
		if v.GetValue() != nil {
			set--
		}
	}
	return set == 0
}

// lookup returns the signature of an op or a function, or NOT_FOUND if neither exists.
func (l *Library) lookup(op string) (*signature, error) {
	if s, ok := l.compiled[op]; ok {
		return s, nil
	}
	if f, ok := l.Functions[op]; ok {
		return compile(f.GetSignature())
	}
	return lookupSignature(op)
}

// Proto returns the library as a message that shares the functions.
func (l *Library) Proto() *functionpb.FunctionDefLibrary {
	p := &functionpb.FunctionDefLibrary{}
	for _, name := range slices.Sorted(maps.Keys(l.Functions)) {
		p.Function = append(p.Function, l.Functions[name])
	}
	for _, name := range slices.Sorted(maps.Keys(l.Gradients)) {
		p.Gradient = append(p.Gradient, &functionpb.GradientDef{FunctionName: name, GradientFunc: l.Gradients[name]})
	}
	return p
}

// For returns the part of the library that the nodes of g may call, directly or through other functions.
func (l *Library) For(g *Graph) *Library {
	out := &Library{}
	var left []string // functions to visit; no recursion, since calls may nest deeper than the stack allows
	visit := func(name string) {
		if _, ok := l.Functions[name]; ok && out.Functions[name] == nil {
			left = append(left, name)
		}
	}
	attrs := func(def *OpDef, values map[string]*attrpb.AttrValue) {
		for _, a := range def.GetAttr() {
			if a.GetType() == "func" || a.GetType() == "list(func)" {
				calls(values[a.GetName()], visit)
			}
		}
	}
	take := func(name string) {
		f := l.Functions[name]
		if out.Functions[name] != nil {
			return
		}
		put(&out.Functions, name, f)
		if s, ok := l.compiled[name]; ok {
			put(&out.compiled, name, s)
		}
		if gradient, ok := l.Gradients[name]; ok {
			put(&out.Gradients, name, gradient)
			visit(gradient)
		}
		for _, n := range f.GetNodeDef() {
			visit(n.GetOp())
			// An unknown op fails when the function is instantiated.
			if s, err := l.lookup(n.GetOp()); err == nil {
				attrs(s.def, n.GetAttr())
			}
		}
	}
	for _, n := range g.Nodes {
		visit(n.Op)
		attrs(n.Def, n.Attrs)
	}
	for len(left) > 0 {
		name := left[len(left)-1]
		left = left[:len(left)-1]
		take(name)
	}
	return out
}

// calls calls visit with the names of the functions in an attribute.
func calls(v *attrpb.AttrValue, visit func(name string)) {
	fns := v.GetList().GetFunc()
	if f := v.GetFunc(); f != nil {
		fns = []*attrpb.NameAttrList{f}
	}
	for _, f := range fns {
		visit(f.GetName())
		for _, inner := range f.GetAttr() {
			calls(inner, visit)
		}
	}
}
