package graph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

// The forms in which TensorFlow's messages show ops and attribute values.

// summarizeOp shows a declaration: Op<name=N; signature=in:T -> out:T; attr=T:type>.
func summarizeOp(def *OpDef) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Op<name=%s; signature=%s -> %s", def.GetName(), summarizeArgs(def.GetInputArg()), summarizeArgs(def.GetOutputArg()))
	for i, a := range def.GetAttr() {
		if i == 2*maxShown {
			fmt.Fprintf(&b, "; ... (%d attrs in all)", len(def.Attr))
			break
		}
		fmt.Fprintf(&b, "; attr=%s:%s", a.GetName(), a.GetType())
		if a.GetDefaultValue() != nil {
			b.WriteString(",default=" + summarizeAttr(a.DefaultValue))
		}
		if a.GetHasMinimum() {
			b.WriteString(",min=" + strconv.FormatInt(a.Minimum, 10))
		}
		if a.GetAllowedValues() != nil {
			b.WriteString(",allowed=" + summarizeAttr(a.AllowedValues))
		}
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{{def.GetIsCommutative(), "is_commutative"}, {def.GetIsAggregate(), "is_aggregate"}, {def.GetIsStateful(), "is_stateful"},
		{def.GetAllowsUninitializedInput(), "allows_uninitialized_input"}, {def.GetIsDistributedCommunication(), "is_distributed_communication"}} {
		if flag.set {
			b.WriteString("; " + flag.name + "=true")
		}
	}
	b.WriteByte('>')
	return b.String()
}

func summarizeArgs(args []*oppb.OpDef_ArgDef) string {
	out := make([]string, min(len(args), 2*maxShown))
	for i := range out {
		a := args[i]
		t := a.GetTypeAttr()
		if a.GetType() != typespb.DataType_DT_INVALID {
			t = tensor.FromProto(a.GetType()).String()
		}
		if a.GetNumberAttr() != "" {
			t = a.GetNumberAttr() + "*" + t
		}
		if a.GetIsRef() {
			t = "Ref(" + t + ")"
		}
		out[i] = a.GetName() + ":" + t
	}
	if len(out) < len(args) {
		out = append(out, fmt.Sprintf("... (%d in all)", len(args)))
	}
	return strings.Join(out, ", ")
}

// maxShown bounds how much of a string or list a message shows.
const maxShown = 30

func summarizeAttr(v *attrpb.AttrValue) string {
	switch v := v.GetValue().(type) {
	case *attrpb.AttrValue_S:
		return summarizeString(v.S)
	case *attrpb.AttrValue_I:
		return strconv.FormatInt(v.I, 10)
	case *attrpb.AttrValue_F:
		return strconv.FormatFloat(float64(v.F), 'g', 6, 32)
	case *attrpb.AttrValue_B:
		return strconv.FormatBool(v.B)
	case *attrpb.AttrValue_Type:
		return v.Type.String()
	case *attrpb.AttrValue_Shape:
		return summarizeShape(&attrpb.AttrValue{Value: v})
	case *attrpb.AttrValue_Tensor:
		return fmt.Sprintf("<Tensor of %v>", tensor.FromProto(v.Tensor.GetDtype()))
	case *attrpb.AttrValue_Func:
		return summarizeFunc(v.Func)
	case *attrpb.AttrValue_Placeholder:
		return "$" + v.Placeholder
	case *attrpb.AttrValue_List:
		return "[" + strings.Join(summarizeList(v.List), ", ") + "]"
	}
	return "<Unknown AttrValue type>"
}

func summarizeString(s []byte) string {
	quoted := strconv.QuoteToASCII(string(s))
	if len(quoted) > 80 {
		return quoted[:11] + "..." + quoted[len(quoted)-11:]
	}
	return quoted
}

func summarizeShape(v *attrpb.AttrValue) string {
	s, known := tensor.ShapeFromProto(v.GetShape())
	if !known {
		return "<unknown>"
	}
	return s.String()
}

func summarizeFunc(f *attrpb.NameAttrList) string {
	entries := make([]string, 0, len(f.GetAttr()))
	for name, v := range f.GetAttr() {
		// Functions in functions can be nested as deeply as a message may be.
		shown := "..."
		if v.GetFunc() == nil && v.GetList().GetFunc() == nil {
			shown = summarizeAttr(v)
		}
		entries = append(entries, name+"="+shown)
	}
	slices.Sort(entries)
	return f.GetName() + "[" + strings.Join(entries, ", ") + "]"
}

func summarizeList(l *attrpb.AttrValue_ListValue) (out []string) {
	for k := range kind(len(kindNames)) {
		n := listLen(l, k)
		for i := range min(n, maxShown) {
			out = append(out, summarizeAttr(listElement(l, k, i)))
		}
		if n > maxShown {
			out = append(out, fmt.Sprintf("... (%d in all)", n))
		}
	}
	return out
}

// listElement returns element i of a list as a value.
func listElement(l *attrpb.AttrValue_ListValue, k kind, i int) *attrpb.AttrValue {
	v := &attrpb.AttrValue{}
	switch k {
	case kindString:
		v.Value = &attrpb.AttrValue_S{S: l.S[i]}
	case kindInt:
		v.Value = &attrpb.AttrValue_I{I: l.I[i]}
	case kindFloat:
		v.Value = &attrpb.AttrValue_F{F: l.F[i]}
	case kindBool:
		v.Value = &attrpb.AttrValue_B{B: l.B[i]}
	case kindType:
		v.Value = &attrpb.AttrValue_Type{Type: l.Type[i]}
	case kindShape:
		v.Value = &attrpb.AttrValue_Shape{Shape: l.Shape[i]}
	case kindTensor:
		v.Value = &attrpb.AttrValue_Tensor{Tensor: l.Tensor[i]}
	case kindFunc:
		v.Value = &attrpb.AttrValue_Func{Func: l.Func[i]}
	}
	return v
}

// summarizeTypes formats a list of types as messages show it: float, int32.
func summarizeTypes(types []tensor.DType) string {
	out := make([]string, min(len(types), 2*maxShown))
	for i := range out {
		out[i] = types[i].String()
	}
	if len(out) < len(types) {
		out = append(out, fmt.Sprintf("... (%d in all)", len(types)))
	}
	return strings.Join(out, ", ")
}

// plural formats a number and what it counts.
func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}
