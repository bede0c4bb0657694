package actors

import (
	"fmt"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

// chainOfFunctions returns a graph that calls the first of n functions, each of which calls the next. The last one requests a device.
func chainOfFunctions(n int, device string) *graphpb.GraphDef {
	int64Type := map[string]*attrpb.AttrValue{"T": {Value: &attrpb.AttrValue_Type{Type: typespb.DataType_DT_INT64}}}
	library := &functionpb.FunctionDefLibrary{}
	for i := range n {
		body := &nodepb.NodeDef{Name: "c", Op: fmt.Sprintf("f%d", i+1), Input: []string{"x"}}
		out := "c:y:0"
		if i == n-1 {
			body = &nodepb.NodeDef{Name: "c", Op: "Neg", Input: []string{"x"}, Attr: int64Type, Device: device}
		}
		library.Function = append(library.Function, &functionpb.FunctionDef{
			Signature: &oppb.OpDef{Name: fmt.Sprintf("f%d", i),
				InputArg:  []*oppb.OpDef_ArgDef{{Name: "x", Type: typespb.DataType_DT_INT64}},
				OutputArg: []*oppb.OpDef_ArgDef{{Name: "y", Type: typespb.DataType_DT_INT64}}},
			NodeDef: []*nodepb.NodeDef{body},
			Ret:     map[string]string{"y": out},
		})
	}
	return &graphpb.GraphDef{Library: library, Node: []*nodepb.NodeDef{
		{Name: "x", Op: "Placeholder", Attr: map[string]*attrpb.AttrValue{"dtype": int64Type["T"]}},
		{Name: "out", Op: "f0", Input: []string{"x"}},
	}}
}
