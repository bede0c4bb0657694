package graph

import (
	"maps"
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

// substitute replaces the placeholders in a body node's attributes, including those passed to functions. Attributes without placeholders
// are shared.
func (in *instance) substitute(attrs Attrs) (Attrs, error) {
	out, own := attrs, false
	for name, v := range attrs {
		bound, err := in.bound(v, 0)
		if err != nil {
			return nil, err
		}
		if bound == v {
			continue
		}
		if !own {
			out, own = maps.Clone(attrs), true
		}
		out[name] = bound
	}
	return out, nil
}

// Limits on functions named in attributes of functions, with attributes of their own. A body that passes its attributes to a function
// nested in the attributes of another makes them larger with each call, and may call itself.
const (
	maxAttrDepth = 100
	maxAttrBytes = 16 << 20 // total size of the values substituted in such attributes, per instance
)

// admit accounts for a value that replaces a placeholder in the attributes of a function nested depth levels deep.
func (in *instance) admit(name string, v *attrpb.AttrValue, depth int) error {
	if depth+nestedFuncs(v, maxAttrDepth) > maxAttrDepth {
		return status.Errorf(status.ResourceExhausted, "Attribute %s of %s: functions are nested in attributes more than %d deep", name, in.sig.def.GetName(), maxAttrDepth)
	}
	if in.handed += proto.Size(v); in.handed > maxAttrBytes {
		return status.Errorf(status.ResourceExhausted, "Attribute %s of %s: what its body hands to functions in attributes takes more than %d bytes", name, in.sig.def.GetName(), maxAttrBytes)
	}
	return nil
}

// nestedFuncs returns how deep functions are nested in an attribute, up to most.
func nestedFuncs(v *attrpb.AttrValue, most int) int {
	fns := v.GetList().GetFunc()
	if f := v.GetFunc(); f != nil {
		fns = []*attrpb.NameAttrList{f}
	}
	if len(fns) == 0 || most == 0 {
		return 0
	}
	deepest := 0
	for _, f := range fns {
		for _, inner := range f.GetAttr() {
			deepest = max(deepest, nestedFuncs(inner, most-1))
		}
	}
	return deepest + 1
}

// bound returns v with its placeholders replaced, or v itself if it has none. depth is the number of functions whose attributes enclose
// it.
func (in *instance) bound(v *attrpb.AttrValue, depth int) (*attrpb.AttrValue, error) {
	switch held := v.GetValue().(type) {
	case *attrpb.AttrValue_Placeholder:
		value, ok := in.attrs[held.Placeholder]
		if !ok {
			return nil, status.InvalidArgumentf("Failed to bind all placeholders in $%s", held.Placeholder)
		}
		if depth > 0 {
			if err := in.admit(held.Placeholder, value, depth); err != nil {
				return nil, err
			}
		}
		return value, nil
	case *attrpb.AttrValue_Func:
		f, err := in.boundFunc(held.Func, depth)
		if err != nil || f == held.Func {
			return v, err
		}
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Func{Func: f}}, nil
	case *attrpb.AttrValue_List:
		fns := held.List.GetFunc()
		for i, f := range fns {
			bound, err := in.boundFunc(f, depth)
			if err != nil {
				return nil, err
			}
			if bound == f {
				continue
			}
			if &fns[0] == &held.List.Func[0] {
				fns = slices.Clone(fns)
			}
			fns[i] = bound
		}
		if len(fns) == 0 || &fns[0] == &held.List.Func[0] {
			return v, nil
		}
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{Func: fns}}}, nil
	}
	return v, nil
}

func (in *instance) boundFunc(f *attrpb.NameAttrList, depth int) (*attrpb.NameAttrList, error) {
	changed := false
	attrs := make(map[string]*attrpb.AttrValue, len(f.GetAttr()))
	for name, v := range f.GetAttr() {
		bound, err := in.bound(v, depth+1)
		if err != nil {
			return nil, err
		}
		changed = changed || bound != v
		attrs[name] = bound
	}
	if !changed {
		return f, nil
	}
	return &attrpb.NameAttrList{Name: f.GetName(), Attr: attrs}, nil
}
