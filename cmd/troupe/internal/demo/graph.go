package demo

import (
	"encoding/binary"
	"math"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
)

// graphVersion is the GraphDef version that TensorFlow 2.21's client writes.
const graphVersion = 2474

// builder makes a GraphDef node by node. A node's name stands for its output 0.
type builder struct {
	nodes  []*nodepb.NodeDef
	device string // of the nodes that follow
}

// attrs are a node's attributes.
type attrs map[string]*attrpb.AttrValue

func dtype(t typespb.DataType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t}}
}

func text(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}

func integer(i int64) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: i}}
}

func boolean(b bool) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: b}}
}

func shape(dims ...int64) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: shapeProto(dims)}}
}

func shapeProto(dims []int64) *shapepb.TensorShapeProto {
	p := &shapepb.TensorShapeProto{}
	for _, d := range dims {
		p.Dim = append(p.Dim, &shapepb.TensorShapeProto_Dim{Size: d})
	}
	return p
}

func types(list ...typespb.DataType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{Type: list}}}
}

func value(t *tensorpb.TensorProto) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: t}}
}

const float = typespb.DataType_DT_FLOAT

// node adds a node and returns its name.
func (b *builder) node(name, op string, a attrs, inputs ...string) string {
	b.nodes = append(b.nodes, &nodepb.NodeDef{Name: name, Op: op, Input: inputs, Device: b.device, Attr: a})
	return name
}

// floats adds a node whose T is float.
func (b *builder) floats(name, op string, inputs ...string) string {
	return b.node(name, op, attrs{"T": dtype(float)}, inputs...)
}

// constant adds a float constant; without dims it is a scalar.
func (b *builder) constant(name string, v float32) string {
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	return b.node(name, "Const", attrs{"dtype": dtype(float), "value": value(&tensorpb.TensorProto{
		Dtype: float, TensorShape: shapeProto(nil), TensorContent: data})})
}

// axes adds an int32 constant of axes.
func (b *builder) axes(name string, list ...int32) string {
	t := &tensorpb.TensorProto{Dtype: typespb.DataType_DT_INT32, TensorShape: shapeProto([]int64{int64(len(list))}), IntVal: list}
	return b.node(name, "Const", attrs{"dtype": dtype(t.Dtype), "value": value(t)})
}

// variable adds a float scalar variable of a container; "" is the default one.
func (b *builder) variable(name, container string) string {
	return b.node(name, "VariableV2", attrs{"dtype": dtype(float), "shape": shape(), "container": text(container), "shared_name": text("")})
}

// def returns the graph so far.
func (b *builder) def() *graphpb.GraphDef {
	return &graphpb.GraphDef{Node: b.nodes, Versions: &versionspb.VersionDef{Producer: graphVersion}}
}
