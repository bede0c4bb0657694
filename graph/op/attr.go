package op

import (
	"fmt"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Func is the name of a function in the graph's library, as an attribute's value.
type Func string

// Attr converts a Go value to an attribute: a bool, int, int64, float32, float64, string, tensor.DType, shape.Shape, *tensor.Tensor or
// Func, or a slice of these except tensors. An *attrpb.AttrValue is returned as is. Other types are INVALID_ARGUMENT. A float64 is rounded
// to float32, the type of float attributes.
func Attr(v any) (*attrpb.AttrValue, error) {
	switch v := v.(type) {
	case *attrpb.AttrValue:
		return v, nil
	case bool:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}}, nil
	case int:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: int64(v)}}, nil
	case int64:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}}, nil
	case float32:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_F{F: v}}, nil
	case float64:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_F{F: float32(v)}}, nil
	case string:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(v)}}, nil
	case tensor.DType:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: v.Proto()}}, nil
	case shape.Shape:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: shapeProto(v)}}, nil
	case *tensor.Tensor:
		p, err := v.Proto()
		if err != nil {
			return nil, err
		}
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: p}}, nil
	case Func:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Func{Func: &attrpb.NameAttrList{Name: string(v)}}}, nil
	case []bool:
		return list(&attrpb.AttrValue_ListValue{B: v}), nil
	case []int:
		return list(&attrpb.AttrValue_ListValue{I: each(v, func(e int) int64 { return int64(e) })}), nil
	case []int64:
		return list(&attrpb.AttrValue_ListValue{I: v}), nil
	case []float32:
		return list(&attrpb.AttrValue_ListValue{F: v}), nil
	case []string:
		return list(&attrpb.AttrValue_ListValue{S: each(v, func(e string) []byte { return []byte(e) })}), nil
	case []tensor.DType:
		return list(&attrpb.AttrValue_ListValue{Type: each(v, func(e tensor.DType) typespb.DataType { return e.Proto() })}), nil
	case []shape.Shape:
		return list(&attrpb.AttrValue_ListValue{Shape: each(v, shapeProto)}), nil
	case []Func:
		return list(&attrpb.AttrValue_ListValue{Func: each(v, func(e Func) *attrpb.NameAttrList { return &attrpb.NameAttrList{Name: string(e)} })}), nil
	}
	return nil, status.InvalidArgumentf("a %T cannot be an attribute's value", v)
}

// mustAttr is Attr for values that come from this package.
func mustAttr(v any) *attrpb.AttrValue {
	a, err := Attr(v)
	if err != nil {
		panic(fmt.Sprintf("op: %v", err))
	}
	return a
}

func list(l *attrpb.AttrValue_ListValue) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: l}}
}

func each[S, T any](in []S, f func(S) T) []T {
	out := make([]T, len(in))
	for i, e := range in {
		out[i] = f(e)
	}
	return out
}

func shapeProto(s shape.Shape) *shapepb.TensorShapeProto {
	dims, known := s.Dims()
	if !known {
		return &shapepb.TensorShapeProto{UnknownRank: true}
	}
	return dims.Proto()
}
