package graph

import (
	"maps"
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

// substitute replaces the placeholders in a body node's attributes, also in those that it hands
// to functions. What holds none is shared.
func (in *instance) substitute(attrs Attrs) (Attrs, error) {
	out, own := attrs, false
	for name, v := range attrs {
		bound, err := in.bound(v)
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

// bound is v with its placeholders replaced: v itself when it holds none.
func (in *instance) bound(v *attrpb.AttrValue) (*attrpb.AttrValue, error) {
	switch held := v.GetValue().(type) {
	case *attrpb.AttrValue_Placeholder:
		value, ok := in.attrs[held.Placeholder]
		if !ok {
			return nil, status.InvalidArgumentf("Failed to bind all placeholders in $%s", held.Placeholder)
		}
		return value, nil
	case *attrpb.AttrValue_Func:
		f, err := in.boundFunc(held.Func)
		if err != nil || f == held.Func {
			return v, err
		}
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Func{Func: f}}, nil
	case *attrpb.AttrValue_List:
		fns := held.List.GetFunc()
		for i, f := range fns {
			bound, err := in.boundFunc(f)
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

func (in *instance) boundFunc(f *attrpb.NameAttrList) (*attrpb.NameAttrList, error) {
	changed := false
	attrs := make(map[string]*attrpb.AttrValue, len(f.GetAttr()))
	for name, v := range f.GetAttr() {
		bound, err := in.bound(v)
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
