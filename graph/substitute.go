package graph

import (
	"maps"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

// substitute replaces the placeholders in a body node's attributes. What holds none is shared.
func (in *instance) substitute(attrs Attrs) (Attrs, error) {
	out, own := attrs, false
	for name, v := range attrs {
		if !holdsPlaceholder(v) {
			continue
		}
		bound, err := in.bound(v)
		if err != nil {
			return nil, err
		}
		if !own {
			out, own = maps.Clone(attrs), true
		}
		out[name] = bound
	}
	return out, nil
}

// holdsPlaceholder tells whether v is a placeholder or a function that is given one.
func holdsPlaceholder(v *attrpb.AttrValue) bool {
	switch v := v.GetValue().(type) {
	case *attrpb.AttrValue_Placeholder:
		return true
	case *attrpb.AttrValue_Func:
		return anyPlaceholder(v.Func)
	case *attrpb.AttrValue_List:
		for _, f := range v.List.GetFunc() {
			if anyPlaceholder(f) {
				return true
			}
		}
	}
	return false
}

func anyPlaceholder(f *attrpb.NameAttrList) bool {
	for _, v := range f.GetAttr() {
		if holdsPlaceholder(v) {
			return true
		}
	}
	return false
}

// bound is v with its placeholders replaced.
func (in *instance) bound(v *attrpb.AttrValue) (*attrpb.AttrValue, error) {
	switch v := v.GetValue().(type) {
	case *attrpb.AttrValue_Placeholder:
		value, ok := in.attrs[v.Placeholder]
		if !ok {
			return nil, status.InvalidArgumentf("Failed to bind all placeholders in $%s", v.Placeholder)
		}
		return value, nil
	case *attrpb.AttrValue_Func:
		f, err := in.boundFunc(v.Func)
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Func{Func: f}}, err
	case *attrpb.AttrValue_List:
		list := proto.CloneOf(v.List)
		for i, f := range list.GetFunc() {
			var err error
			if list.Func[i], err = in.boundFunc(f); err != nil {
				return nil, err
			}
		}
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}}, nil
	}
	return v, nil
}

func (in *instance) boundFunc(f *attrpb.NameAttrList) (*attrpb.NameAttrList, error) {
	attrs, err := in.substitute(f.GetAttr())
	return &attrpb.NameAttrList{Name: f.GetName(), Attr: attrs}, err
}
