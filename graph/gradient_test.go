package graph

import (
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// TestGradientsAreGraphs checks that the gradient of every elementwise op in the table is a valid graph: its ops exist and accept their
// inputs.
func TestGradientsAreGraphs(t *testing.T) {
	l := &Library{}
	gradient := func(op string, attrs Attrs) (*FunctionGraph, error) {
		f := &attrpb.AttrValue{Value: &attrpb.AttrValue_Func{Func: &attrpb.NameAttrList{Name: op, Attr: attrs}}}
		return l.Instantiate("SymbolicGradient", Attrs{"f": f})
	}
	for op := range gradientsOf {
		def, err := LookupOp(op)
		if err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		attrs := Attrs{}
		for _, a := range def.GetAttr() {
			switch kind := a.GetType(); {
			case a.DefaultValue != nil:
			case kind == "type" && a.GetAllowedValues() != nil:
				attrs[a.Name] = &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: a.GetAllowedValues().GetList().GetType()[0]}}
				for _, allowed := range a.GetAllowedValues().GetList().GetType() {
					if allowed == tensor.Float32.Proto() || allowed == tensor.Int32.Proto() && a.Name != "T" {
						attrs[a.Name] = typeOf(tensor.FromProto(allowed))
					}
				}
			case kind == "type":
				attrs[a.Name] = typeOf(tensor.Float32)
			case kind == "int":
				attrs[a.Name] = intOf(2)
			default:
				attrs = nil
			}
			if attrs == nil {
				break
			}
		}
		if attrs == nil {
			continue // it needs a tensor, or lists that belong together
		}
		g, err := gradient(op, attrs)
		if err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		want := 0
		for range def.GetInputArg() {
			want++
		}
		if len(g.Rets) < want {
			t.Errorf("%s: %d gradients for %d inputs", op, len(g.Rets), want)
		}
	}
	if _, err := gradient("Cumsum", Attrs{"T": typeOf(tensor.Float32)}); status.CodeOf(err) != status.NotFound {
		t.Errorf("an op without a gradient: %v", err)
	}
}
