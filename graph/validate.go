package graph

import (
	"maps"
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// checkAttrs checks a node's attributes against its op and returns them with the op's defaults filled in; a complete map is returned as
// is. vals, of length len(s.attrs), receives the values by position.
func (s *signature) checkAttrs(attrs Attrs, vals []*attrpb.AttrValue, node string) (Attrs, error) {
	complete := attrs
	own := false
	var missing []string
	for i := range s.attrs {
		spec := &s.attrs[i]
		name := spec.def.Name
		v, ok := attrs[name]
		if ok {
			if err := spec.check(v); err != nil {
				return nil, status.InvalidArgumentf("%v\n\t; NodeDef: {{node %s}}; %s", err, node, summarizeOp(s.def))
			}
			if spec.list && v.GetValue() == nil {
				// Old producers omit an empty list from the message.
				v, ok = &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{}}}, false
			}
		} else if v = spec.def.DefaultValue; v == nil {
			missing = append(missing, name)
			continue
		}
		if !ok {
			if !own {
				// The map belongs to the client's message, which must not be changed.
				complete = make(Attrs, len(s.attrs))
				maps.Copy(complete, attrs)
				own = true
			}
			complete[name] = v
		}
		vals[i] = v
	}
	if missing != nil {
		suffix := "s"
		if len(missing) == 1 {
			suffix = ""
		}
		slices.Sort(missing)
		return nil, status.InvalidArgumentf("NodeDef missing attr%s '%s' from %s; NodeDef: {{node %s}}",
			suffix, strings.Join(missing, "', '"), summarizeOp(s.def), node)
	}
	// As in TensorFlow, a graph made by a newer client may have attributes unknown to this version.
	return complete, nil
}

// check checks that v is a legal value of the attribute.
func (a *attrSpec) check(v *attrpb.AttrValue) error {
	ok, got := a.holds(v)
	switch {
	case ok:
	case got == "placeholder":
		return a.errorf("AttrValue had value with unexpected type 'placeholder'")
	case got == "":
		return a.errorf("AttrValue missing value with expected type '%s'", a.def.Type)
	default:
		return a.errorf("AttrValue had value with type '%s' when '%s' expected", got, a.def.Type)
	}
	if a.def.HasMinimum {
		if err := a.checkMinimum(v); err != nil {
			return err
		}
	}
	switch a.kind {
	case kindType:
		return a.checkTypes(v)
	case kindString:
		return a.checkStrings(v)
	}
	return nil
}

func (a *attrSpec) errorf(format string, args ...any) error {
	return status.InvalidArgumentf(format+"\n\t for attr '%s'", append(args, a.def.Name)...)
}

func (a *attrSpec) checkMinimum(v *attrpb.AttrValue) error {
	if a.list {
		if n := listLen(v.GetList(), a.kind); int64(n) < a.def.Minimum {
			return status.InvalidArgumentf("Length for attr '%s' of %d must be at least minimum %d", a.def.Name, n, a.def.Minimum)
		}
		return nil
	}
	if v.GetI() < a.def.Minimum {
		return status.InvalidArgumentf("Value for attr '%s' of %d must be at least minimum %d", a.def.Name, v.GetI(), a.def.Minimum)
	}
	return nil
}

func (a *attrSpec) checkTypes(v *attrpb.AttrValue) error {
	if !a.list {
		return a.checkType(v.GetType())
	}
	for _, t := range v.GetList().GetType() {
		if err := a.checkType(t); err != nil {
			return err
		}
	}
	return nil
}

func (a *attrSpec) checkType(p typespb.DataType) error {
	t := tensor.FromProto(p)
	switch {
	case t == tensor.Invalid:
		return a.errorf("AttrValue has invalid DataType")
	case t.IsRef() && knownType(t.Base()):
		return a.errorf("AttrValue must not have reference type value of %v", t)
	case !knownType(t):
		return a.errorf("AttrValue has invalid DataType enum: %d", int32(t))
	case a.types != 0 && a.types&(1<<uint(t)) == 0:
		allowed := a.def.AllowedValues.GetList().GetType()
		names := make([]tensor.DType, len(allowed))
		for i, e := range allowed {
			names[i] = tensor.FromProto(e)
		}
		return status.InvalidArgumentf("Value for attr '%s' of %v is not in the list of allowed values: %s", a.def.Name, t, summarizeTypes(names))
	}
	return nil
}

func (a *attrSpec) checkStrings(v *attrpb.AttrValue) error {
	if a.strings == nil {
		return nil
	}
	if !a.list {
		return a.checkString(v.GetS())
	}
	for _, s := range v.GetList().GetS() {
		if err := a.checkString(s); err != nil {
			return err
		}
	}
	return nil
}

func (a *attrSpec) checkString(s []byte) error {
	if slices.Contains(a.strings, string(s)) {
		return nil
	}
	return status.InvalidArgumentf("Value for attr '%s' of \"%s\" is not in the list of allowed values: \"%s\"",
		a.def.Name, s, strings.Join(a.strings, `", "`))
}
