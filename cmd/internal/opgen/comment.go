package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// comment writes the doc comment of a constructor: its summary, arguments, results and attributes.
func (b *source) comment(def *graph.OpDef, summary string, params, results []param, required, optional []*oppb.OpDef_AttrDef) {
	if summary == "" {
		summary = "adds an operation of this type"
	}
	b.printf("// %s %s.\n", def.Name, summary)
	var lines []string
	for i, a := range def.InputArg {
		lines = append(lines, params[i].name+": "+kindOf(a))
	}
	for i, a := range required {
		lines = append(lines, params[len(def.InputArg)+i].name+": "+attrKind(a))
	}
	for i, a := range def.OutputArg {
		lines = append(lines, "returns "+results[i].name+": "+kindOf(a))
	}
	for _, a := range def.Attr {
		if (a.Type == "type" || a.Type == "list(type)") && a.AllowedValues != nil && !slices.Contains(optional, a) && !slices.Contains(required, a) {
			lines = append(lines, a.Name+" is "+oneOf(a))
		}
	}
	for _, a := range optional {
		lines = append(lines, "attr."+exported(a.Name)+": "+attrKind(a)+"; default "+value(a.DefaultValue))
	}
	if len(lines) > 0 {
		b.printf("//\n")
	}
	for _, l := range lines {
		b.printf("//   - %s\n", l)
	}
}

// kindOf describes the tensors of an argument or a result.
func kindOf(a *oppb.OpDef_ArgDef) string {
	t := a.TypeAttr
	if t == "" {
		t = tensor.FromProto(a.Type).String()
	}
	switch {
	case a.TypeListAttr != "":
		return "tensors of types " + a.TypeListAttr
	case a.NumberAttr != "":
		return "tensors of type " + t
	case a.IsRef:
		return "a reference to a variable of type " + t
	}
	return t
}

// attrKind describes the valid values of an attribute.
func attrKind(a *oppb.OpDef_AttrDef) string {
	elem, plural := strings.CutPrefix(a.Type, "list(")
	kind := strings.Replace(strings.TrimSuffix(elem, ")"), "func", "function", 1)
	if plural {
		kind = "a list of " + kind + "s"
	}
	if a.AllowedValues != nil {
		kind += ", "
		if plural {
			kind += "each "
		}
		kind += oneOf(a)
	}
	switch {
	case a.HasMinimum && !plural:
		kind += fmt.Sprintf(" (at least %d)", a.Minimum)
	case a.HasMinimum && a.Minimum > 0:
		kind += fmt.Sprintf(" (length at least %d)", a.Minimum)
	}
	return kind
}

func oneOf(a *oppb.OpDef_AttrDef) string {
	var all []string
	for _, t := range a.AllowedValues.GetList().GetType() {
		all = append(all, tensor.FromProto(t).String())
	}
	for _, s := range a.AllowedValues.GetList().GetS() {
		all = append(all, strconv.Quote(string(s)))
	}
	if len(all) == 1 {
		return all[0]
	}
	return "one of " + strings.Join(all, ", ")
}

// value returns the text of a default value.
func value(v *attrpb.AttrValue) string {
	switch v := v.GetValue().(type) {
	case *attrpb.AttrValue_S:
		return strconv.Quote(string(v.S))
	case *attrpb.AttrValue_I:
		return strconv.FormatInt(v.I, 10)
	case *attrpb.AttrValue_F:
		return strconv.FormatFloat(float64(v.F), 'g', -1, 32)
	case *attrpb.AttrValue_B:
		return strconv.FormatBool(v.B)
	case *attrpb.AttrValue_Type:
		return tensor.FromProto(v.Type).String()
	case *attrpb.AttrValue_Shape:
		dims, known := tensor.ShapeFromProto(v.Shape)
		if !known {
			return "unknown"
		}
		return dims.String()
	case *attrpb.AttrValue_Tensor:
		return "a " + tensor.FromProto(v.Tensor.GetDtype()).String() + " tensor"
	case *attrpb.AttrValue_List:
		return list(v.List)
	}
	return "empty"
}

func list(l *attrpb.AttrValue_ListValue) string {
	var all []string
	for _, e := range l.GetS() {
		all = append(all, strconv.Quote(string(e)))
	}
	for _, e := range l.GetI() {
		all = append(all, strconv.FormatInt(e, 10))
	}
	for _, e := range l.GetF() {
		all = append(all, strconv.FormatFloat(float64(e), 'g', -1, 32))
	}
	for _, e := range l.GetType() {
		all = append(all, tensor.FromProto(e).String())
	}
	if len(all) == 0 {
		return "empty"
	}
	return "[" + strings.Join(all, ", ") + "]"
}
