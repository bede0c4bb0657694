package kernelstest

import (
	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// node returns the op's node. For a registered op, missing attributes are inferred from the inputs or set to the op's defaults, and the
// outputs' types follow from them.
func (o Op) node(inputs []any) *graph.Node {
	n := &graph.Node{Name: o.Name, Op: o.Type, Attrs: o.Attrs.Proto()}
	if n.Name == "" {
		n.Name = "n"
	}
	for name, v := range o.Raw {
		if _, ok := n.Attrs[name]; !ok {
			n.Attrs[name] = v
		}
	}
	for _, in := range inputs {
		n.InTypes = append(n.InTypes, typeOf(in))
	}
	def, err := graph.LookupOp(o.Type)
	if err == nil {
		n.Def = def
		infer(n, def)
		n.OutTypes = outputTypes(n.Attrs, def)
	}
	for len(n.OutTypes) < o.Outputs {
		n.OutTypes = append(n.OutTypes, tensor.Invalid)
	}
	return n
}

func typeOf(in any) tensor.DType {
	switch in := in.(type) {
	case *tensor.Tensor:
		return in.DType()
	case *containers.Variable:
		return in.DType().Ref()
	case kernels.Value:
		if in.Ref != nil {
			return in.Ref.DType().Ref()
		}
		if in.Tensor != nil {
			return in.Tensor.DType()
		}
	}
	return tensor.Invalid
}

// infer adds the attributes implied by the inputs' types and number, then the defaults. One list argument of unspecified length takes the
// inputs that the others leave.
func infer(n *graph.Node, def *oppb.OpDef) {
	set := func(name string, v *attrpb.AttrValue) {
		if _, ok := n.Attrs[name]; !ok && name != "" {
			n.Attrs[name] = v
		}
	}
	singles := 0
	for _, arg := range def.InputArg {
		if arg.NumberAttr == "" && arg.TypeListAttr == "" {
			singles++
		}
	}
	at := 0
	for _, arg := range def.InputArg {
		count := 1
		if arg.NumberAttr != "" || arg.TypeListAttr != "" {
			count = max(0, len(n.InTypes)-singles)
			if v, err := n.Attrs.Int(arg.NumberAttr); err == nil {
				count = int(v)
			} else if l, err := n.Attrs.TypeList(arg.TypeListAttr); err == nil {
				count = len(l)
			} else if lists(def) > 1 {
				count /= lists(def)
			}
		}
		types := n.InTypes[min(at, len(n.InTypes)):min(at+count, len(n.InTypes))]
		at += count
		set(arg.NumberAttr, value(count))
		if arg.TypeListAttr != "" {
			base := make([]typespb.DataType, len(types))
			for i, t := range types {
				base[i] = t.Base().Proto()
			}
			set(arg.TypeListAttr, &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{Type: base}}})
		}
		for _, t := range types {
			if t != tensor.Invalid && arg.TypeAttr != "" {
				set(arg.TypeAttr, value(t.Base()))
			}
		}
	}
	for _, a := range def.Attr {
		if a.DefaultValue != nil {
			set(a.Name, a.DefaultValue)
		}
	}
}

func lists(def *oppb.OpDef) int {
	n := 0
	for _, arg := range def.InputArg {
		if arg.NumberAttr != "" || arg.TypeListAttr != "" {
			n++
		}
	}
	return n
}

// outputTypes returns the types of the outputs, as far as the attributes determine them.
func outputTypes(attrs graph.Attrs, def *oppb.OpDef) []tensor.DType {
	var types []tensor.DType
	for _, arg := range def.OutputArg {
		if l, err := attrs.TypeList(arg.TypeListAttr); err == nil {
			types = append(types, l...)
			continue
		}
		t := tensor.FromProto(arg.Type)
		if a, err := attrs.Type(arg.TypeAttr); err == nil {
			t = a
		}
		if arg.IsRef {
			t = t.Ref()
		}
		count := int64(1)
		if v, err := attrs.Int(arg.NumberAttr); err == nil {
			count = v
		}
		for range count {
			types = append(types, t)
		}
	}
	return types
}
