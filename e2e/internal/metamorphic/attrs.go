package metamorphic

import (
	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

type attrs = map[string]*attrpb.AttrValue

// proto returns the type of the tensors that hold a type's values; for a resource, that of its handle.
func (t Type) proto() typespb.DataType {
	switch t {
	case Matrix, Scalar:
		return typespb.DataType_DT_FLOAT
	case Int:
		return typespb.DataType_DT_INT32
	default:
		return typespb.DataType_DT_RESOURCE
	}
}

func typeAttr(t typespb.DataType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t}}
}

func dtype(t Type) *attrpb.AttrValue { return typeAttr(t.proto()) }

func typeList(types ...Type) *attrpb.AttrValue {
	list := &attrpb.AttrValue_ListValue{}
	for _, t := range types {
		list.Type = append(list.Type, t.proto())
	}
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}}
}

func flag(v bool) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}} }

func number(v int64) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}} }

func text(v string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(v)}}
}

func function(name string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Func{Func: &attrpb.NameAttrList{Name: name}}}
}

// shapeOf returns the shape of a type's values.
func shapeOf(t Type) *shapepb.TensorShapeProto {
	switch t {
	case Matrix, Variable, Reference, Queue:
		return dims(Side, Side)
	}
	return dims()
}

func dims(sizes ...int64) *shapepb.TensorShapeProto {
	s := &shapepb.TensorShapeProto{}
	for _, n := range sizes {
		s.Dim = append(s.Dim, &shapepb.TensorShapeProto_Dim{Size: n})
	}
	return s
}

func shapeAttr(t Type) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: shapeOf(t)}}
}

func tensorAttr(t *tensorpb.TensorProto) attrs {
	return attrs{"dtype": typeAttr(t.Dtype), "value": {Value: &attrpb.AttrValue_Tensor{Tensor: t}}}
}

// message returns the value as a constant of a graph.
func (v Value) message() *tensorpb.TensorProto {
	p := &tensorpb.TensorProto{Dtype: v.Type.proto(), TensorShape: shapeOf(v.Type)}
	if v.Type == Int {
		p.IntVal = []int32{v.I}
	} else {
		p.FloatVal = v.F
	}
	return p
}
