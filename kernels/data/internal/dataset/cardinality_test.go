package dataset

import (
	"testing"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	opdefpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/kernels"
)

// bodies is a library of definitions.
type bodies struct {
	kernels.Library
	defs map[string]*functionpb.FunctionDef
}

func (b bodies) Defs(fn *graph.FunctionRef, defs map[string]*functionpb.FunctionDef) error {
	for name, def := range b.defs {
		defs[name] = def
	}
	return nil
}

func TestReturnsArguments(t *testing.T) {
	arg := func(name string) *opdefpb.OpDef_ArgDef { return &opdefpb.OpDef_ArgDef{Name: name} }
	body := func(ret map[string]string, nodes ...*nodepb.NodeDef) *functionpb.FunctionDef {
		return &functionpb.FunctionDef{
			Signature: &opdefpb.OpDef{Name: "f", InputArg: []*opdefpb.OpDef_ArgDef{arg("x"), arg("y")}, OutputArg: []*opdefpb.OpDef_ArgDef{arg("a"), arg("b")}},
			NodeDef:   nodes, Ret: ret,
		}
	}
	node := func(name, op string, inputs ...string) *nodepb.NodeDef {
		return &nodepb.NodeDef{Name: name, Op: op, Input: inputs}
	}
	straight := map[string]string{"a": "x", "b": "y"}
	for name, c := range map[string]struct {
		def  *functionpb.FunctionDef
		want bool
	}{
		"arguments":               {body(straight), true},
		"identities":              {body(map[string]string{"a": "j:output:0", "b": "y"}, node("i", "Identity", "x"), node("j", "Identity", "i:output:0")), true},
		"another order":           {body(map[string]string{"a": "y", "b": "x"}), false},
		"something computed":      {body(map[string]string{"a": "n:y:0", "b": "y"}, node("n", "Neg", "x")), false},
		"an effect beside":        {body(straight, node("q", "QueueSizeV2", "x")), false},
		"an op that is not there": {body(straight, node("q", "NoSuchOp")), false},
		"a cycle":                 {body(map[string]string{"a": "i:output:0", "b": "y"}, node("i", "Identity", "j:output:0"), node("j", "Identity", "i:output:0")), false},
		"nothing":                 {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Function{FunctionAttr: &FunctionAttr{Ref: &graph.FunctionRef{Name: "f"}, Library: bodies{defs: map[string]*functionpb.FunctionDef{"f": c.def}}}}
			if got := f.ReturnsArguments(); got != c.want {
				t.Errorf("returnsArguments is %v, want %v", got, c.want)
			}
		})
	}
}
