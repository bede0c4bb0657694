package partition

import (
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// namer generates names for new nodes that no other node of the graph has.
type namer struct {
	next  int
	taken map[string]bool
	buf   []byte
}

// mark begins the last part of the names that a namer generates.
const mark = "/_"

// avoid prevents the namer from generating names of nodes of g.
func (n *namer) avoid(g *graph.Graph) {
	n.taken = map[string]bool{}
	for _, node := range g.Nodes {
		if strings.Contains(node.Name, mark) {
			n.taken[node.Name] = true
		}
	}
}

// name derives a name from that of a node, the kind of helper, and a number.
func (n *namer) name(of *graph.Node, what string) string {
	for {
		n.buf = append(append(append(append(n.buf[:0], of.Name...), mark...), what...), '_')
		n.buf = strconv.AppendInt(n.buf, int64(n.next), 10)
		n.next++
		if !n.taken[string(n.buf)] {
			return string(n.buf)
		}
	}
}

func stringAttr(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}

func intAttr(i int64) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: i}}
}

func boolAttr(b bool) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: b}}
}

func typeAttr(t tensor.DType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: t.Proto()}}
}

// token is the type of the empty tensors that stand for control edges and loop iterations. On devices with their own memory, int32 passes
// through control flow in host memory.
const token = tensor.Int32

var (
	tokenType = typeAttr(token)
	no        = boolAttr(false)
	// emptyTensor is a vector without elements.
	emptyTensor = &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: &tensorpb.TensorProto{
		Dtype:       token.Proto(),
		TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: 0}}},
	}}}
)

// emptyConst adds a node that produces an empty tensor, after controls.
func (s *splitter) emptyConst(user *graph.Node, what string, p placed, controls ...*graph.Node) *graph.Node {
	return s.add(user, graph.Node{
		Name: s.namer.name(user, what), Op: "Const", Attrs: graph.Attrs{"dtype": tokenType, "value": emptyTensor},
		Controls: controls, OutTypes: []tensor.DType{token},
	}, p)
}
