package e2e

import (
	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	opdefpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
)

const float = typespb.DataType_DT_FLOAT

// node makes a NodeDef whose dtype attribute "T", if t is not 0, is t.
func node(name, op string, t typespb.DataType, inputs ...string) *nodepb.NodeDef {
	n := &nodepb.NodeDef{Name: name, Op: op, Input: inputs, Attr: map[string]*attrpb.AttrValue{}}
	if t != 0 {
		n.Attr["T"] = dtypeAttr(t)
	}
	return n
}

func dtypeAttr(t typespb.DataType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t}}
}

// constant makes a Const of dtype t from a tensor, whose dtype may differ.
func constant(name string, t typespb.DataType, value *tensorpb.TensorProto) *nodepb.NodeDef {
	n := node(name, "Const", 0)
	n.Attr["dtype"] = dtypeAttr(t)
	n.Attr["value"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: value}}
	return n
}

func floats(shape []int64, values ...float32) *tensorpb.TensorProto {
	p := &tensorpb.TensorProto{Dtype: float, TensorShape: &shapepb.TensorShapeProto{}, FloatVal: values}
	for _, d := range shape {
		p.TensorShape.Dim = append(p.TensorShape.Dim, &shapepb.TensorShapeProto_Dim{Size: d})
	}
	return p
}

func graphOf(nodes ...*nodepb.NodeDef) *graphpb.GraphDef {
	return &graphpb.GraphDef{Node: nodes, Versions: &versionspb.VersionDef{Producer: 1882}}
}

// two returns a scalar constant that later nodes may use.
func two() *nodepb.NodeDef { return constant("two", float, floats(nil, 2)) }

func flag(v bool) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}} }

func number(v int64) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}} }

func text(v string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(v)}}
}

func with(n *nodepb.NodeDef, attr string, v *attrpb.AttrValue) *nodepb.NodeDef {
	n.Attr[attr] = v
	return n
}

func on(n *nodepb.NodeDef, device string) *nodepb.NodeDef {
	n.Device = device
	return n
}

// signature declares a function from one float to one float.
func signature(name string) *opdefpb.OpDef {
	arg := func(n string) []*opdefpb.OpDef_ArgDef {
		return []*opdefpb.OpDef_ArgDef{{Name: n, Type: typespb.DataType_DT_FLOAT}}
	}
	return &opdefpb.OpDef{Name: name, InputArg: arg("x"), OutputArg: arg("y")}
}

func boolean(v bool) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_BOOL, TensorShape: &shapepb.TensorShapeProto{}, BoolVal: []bool{v}}
}

func seedTensors() []*tensorpb.TensorProto {
	return []*tensorpb.TensorProto{{Dtype: typespb.DataType_DT_FLOAT, TensorContent: []byte{0, 0, 128, 63},
		TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: 1}}}}}
}

// queueNode returns a FIFOQueueV2 of scalars, and dequeueNode a node that dequeues from it.
func queueNode(name string) *nodepb.NodeDef {
	n := node(name, "FIFOQueueV2", 0)
	n.Attr["component_types"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{Type: []typespb.DataType{float}}}}
	n.Attr["shapes"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{Shape: []*shapepb.TensorShapeProto{{}}}}}
	return n
}

func dequeueNode(name, queue string) *nodepb.NodeDef {
	n := node(name, "QueueDequeueV2", 0, queue)
	n.Attr["component_types"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{Type: []typespb.DataType{float}}}}
	return n
}
