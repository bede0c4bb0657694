package kernelstest

import (
	"fmt"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Attrs are a node's attributes as Go values: bool, int, int64, float32, float64, string,
// tensor.DType, tensor.Shape, *tensor.Tensor, Func, slices of these, or Unknown for a shape of
// unknown rank.
type Attrs map[string]any

// Unknown is a shape attribute of unknown rank.
type Unknown struct{}

// Func is a function attribute.
type Func struct {
	Name  string
	Attrs Attrs
}

// Proto returns the attributes as messages. It panics for a value of a type that is not listed at Attrs.
func (a Attrs) Proto() graph.Attrs {
	out := graph.Attrs{}
	for name, v := range a {
		out[name] = value(v)
	}
	return out
}

func value(v any) *attrpb.AttrValue {
	a := &attrpb.AttrValue{}
	switch v := v.(type) {
	case bool:
		a.Value = &attrpb.AttrValue_B{B: v}
	case int:
		a.Value = &attrpb.AttrValue_I{I: int64(v)}
	case int64:
		a.Value = &attrpb.AttrValue_I{I: v}
	case float32:
		a.Value = &attrpb.AttrValue_F{F: v}
	case float64:
		a.Value = &attrpb.AttrValue_F{F: float32(v)}
	case string:
		a.Value = &attrpb.AttrValue_S{S: []byte(v)}
	case tensor.DType:
		a.Value = &attrpb.AttrValue_Type{Type: v.Proto()}
	case tensor.Shape:
		a.Value = &attrpb.AttrValue_Shape{Shape: v.Proto()}
	case Unknown:
		a.Value = &attrpb.AttrValue_Shape{Shape: &shapepb.TensorShapeProto{UnknownRank: true}}
	case *tensor.Tensor:
		a.Value = &attrpb.AttrValue_Tensor{Tensor: tensorProto(v)}
	case Func:
		a.Value = &attrpb.AttrValue_Func{Func: &attrpb.NameAttrList{Name: v.Name, Attr: v.Attrs.Proto()}}
	default:
		a.Value = &attrpb.AttrValue_List{List: list(v)}
	}
	return a
}

func list(v any) *attrpb.AttrValue_ListValue {
	l := &attrpb.AttrValue_ListValue{}
	switch v := v.(type) {
	case []bool:
		l.B = v
	case []int:
		for _, e := range v {
			l.I = append(l.I, int64(e))
		}
	case []int64:
		l.I = v
	case []float32:
		l.F = v
	case []string:
		for _, e := range v {
			l.S = append(l.S, []byte(e))
		}
	case []tensor.DType:
		l.Type = make([]typespb.DataType, len(v))
		for i, e := range v {
			l.Type[i] = e.Proto()
		}
	case []tensor.Shape:
		for _, e := range v {
			l.Shape = append(l.Shape, e.Proto())
		}
	case []Func:
		for _, e := range v {
			l.Func = append(l.Func, &attrpb.NameAttrList{Name: e.Name, Attr: e.Attrs.Proto()})
		}
	default:
		panic(fmt.Sprintf("kernelstest: no attribute is made from a %T", v))
	}
	return l
}
